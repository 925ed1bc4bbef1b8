"""Which edges and paths come into question: pruning, constraints, masks, best paths."""
