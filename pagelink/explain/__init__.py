"""PaGELink: the steps of the method in their order, and its result."""
