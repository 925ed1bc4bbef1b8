"""What paths are worth to the model, measured on edited graphs, and the verdict."""
