"""What PaGELink is compared with.

`registry` has all explainers by name, each with the face of `PaGELink`; a `Rival` is one file. Some
of the files also hold a plain ranking of all paths: `rank(ground, num_paths, ...)` gives, per
link of a `Ground`, the paths in order, best first.
"""
