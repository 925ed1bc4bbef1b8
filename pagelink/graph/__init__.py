"""A heterogeneous graph as one flat multigraph, and the computation graphs cut out of it."""
