"""The command line: one file for each group of commands and each long one; `main` has the rest."""
