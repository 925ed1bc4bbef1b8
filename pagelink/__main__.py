"""`python -m pagelink` is the command line."""

from pagelink.cli import main

main()
