"""Plain rankings of paths that an explainer has to be compared with.

Every file holds one ranking with the same face: `rank(ground, num_paths, ...)` gives, per link of a
`Ground`, the paths in order, best first.
"""
