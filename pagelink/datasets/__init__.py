"""Data sets whose links come with ground-truth paths."""
