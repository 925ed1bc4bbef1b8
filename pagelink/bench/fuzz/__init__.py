"""Random cases against promises: graphs and models, searches, interruptions, damaged files."""
