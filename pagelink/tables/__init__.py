"""Graphs and links from tables: read in pieces, into memory or into a store."""
