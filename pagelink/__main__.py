"""`python -m pagelink` is the command line."""

from pagelink.cli.main import main

main()
