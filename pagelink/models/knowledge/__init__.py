"""One model for all relations of a knowledge graph: encoders, heads, training and ranking."""
