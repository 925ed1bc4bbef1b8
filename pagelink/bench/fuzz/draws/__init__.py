"""Random graphs, models and questions, as users have them, sensible and odd."""
