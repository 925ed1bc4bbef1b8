"""Commands of the command line that are too long for `cli.py`, and what commands share."""
