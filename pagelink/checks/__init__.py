"""Sanity checks of explanations on a user's own model, each with a verdict in words."""
