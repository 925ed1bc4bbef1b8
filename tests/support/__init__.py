"""Graphs, models and helpers that tests share."""
