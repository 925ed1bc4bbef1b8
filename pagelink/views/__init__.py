"""Views: an `Explanation` as text, as a drawing and as a page.

`text.py`, `svg.py` and `html.py` are functions of an Explanation. What they say comes from
`wording.py`, which puts together what `verdict_wording.py`, `path_wording.py`,
`evidence_wording.py`, `request_wording.py`, `score_wording.py`, `statements.py` and `naming.py`
say, so that all views tell the same; `counterfactual_wording.py` uses the same words. `layout.py`
and `lettering.py` find the places of a drawing.
"""
