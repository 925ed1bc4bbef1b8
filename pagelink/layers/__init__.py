"""Layers that are known, done at less cost than by messages that are written out."""
