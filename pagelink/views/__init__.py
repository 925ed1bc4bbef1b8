"""Views: an `Explanation` as text, as a drawing and as a page, and as rows of a table.

`pages.py` and `rows.py` are functions of an Explanation. What they say comes from `wording.py`, so
that all views tell the same: it puts together what `verdict_wording.py` says of the verdict,
`path_wording.py` of each path, `beyond_wording.py` of what counts beside the paths, and
`statements.py` of nodes, facts and scores. `layout.py` finds the places of a
drawing of paths; `layers.py` and `subgraph.py` place and draw any other facts. All of them use
`text.py` for clean text that fits, and `templates.py` to fill the files in `templates/`.
"""
