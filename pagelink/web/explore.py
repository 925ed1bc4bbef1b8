"""The explorer for a model of one's own, from Python."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from pagelink.explainer import PaGELink
from pagelink.web.app import make_app
from pagelink.web.explorer import Explorer
from pagelink.web.security import check_binding
from pagelink.web.serving import address_of, listen, serve


def explore(
    explainer: PaGELink,
    known: Tensor | None = None,
    score: Callable[[Tensor], Tensor] | None = None,
    *,
    title: str = "pagelink",
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    deadline: float | None = 60.0,
    started: Callable[[str], None] = print,
) -> None:
    """Serve a page that explores the predictions of an explainer's model, until interrupted.

    Args:
        explainer: an explainer of any model; the first of its link types is explored.
        known: true links that the graph may not hold, [2, num_links]: not offered as new targets.
        score: from pairs [2, num_pairs] to logits, where the model embeds all nodes once and this
            is faster than asking it about each source anew.
        title: what the page is called.
        host: the address; beyond this machine it takes a token.
        port: 0 takes any that is free.
        token: who opens the page with `?token=...` is let in, nobody else.
        deadline: seconds an explanation may take.
        started: called with the address to open.

    Raises:
        SettingsError: the address is taken, or a token is missing.
    """
    check_binding(host, token)
    taken = listen(host, port)
    app = make_app(Explorer(explainer, known, score, title=title, deadline=deadline), token=token)
    serve(app, taken, lambda: started(address_of(taken, token)))
