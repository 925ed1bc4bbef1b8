"""Large graphs and many links."""
