"""Whether explanations are true of the model."""
