"""GraphMask-Link: gates of every layer, and baselines in the place of messages, by hand."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from support.hand_drawn import BUYS, LIKES, Walks, draw

from pagelink import PaGELink
from pagelink.rivals.edge_vectors import propagations
from pagelink.rivals.graphmask import _Gating, depths, divergence, hard_concrete
from pagelink.rivals.ground import Ground
from pagelink.runtime.undo import Undo

KNOWS = ("user", "knows", "user")


def ground() -> Ground:
    data = draw({"user": 4, "item": 2}, {
        BUYS: [(1, 0), (2, 0), (3, 1)], KNOWS: [(0, 1), (0, 2), (3, 3)],
    })  # fmt: skip
    return Ground.of(PaGELink(Walks(), data, LIKES, threshold=None), [(0, 0)])


def run_gated(here: Ground, drawn: list[tuple[torch.Tensor, torch.Tensor] | None]) -> float:
    predictor, recorded = here.explainer.predictor, here.recorded
    added = tuple(torch.full_like(call, -1) for call in recorded.calls)
    plain = dataclasses.replace(recorded, calls=added, plain=())
    with predictor.weighted(plain) as run, Undo() as undo:
        _Gating(drawn).attach(predictor.model, undo)
        return run(torch.empty(0)).item()


def test_open_gates_change_nothing_and_closed_ones_send_the_baseline() -> None:
    here = ground()
    noted = propagations(here.explainer.predictor, here.recorded)
    whole = float(here.logits[0])
    ones = [(torch.ones(len(each.sent)), torch.full((1,), 7.0)) for each in noted]
    assert run_gated(here, ones) == pytest.approx(whole)
    assert run_gated(here, [None] * len(noted)) == pytest.approx(whole)
    # Closed gates at baseline 0 are the messages at weight 0.
    zeros = [(torch.zeros(len(each.sent)), torch.zeros(1)) for each in noted]
    with here.explainer.predictor.weighted(here.recorded) as run:
        nothing = run(torch.zeros(len(here.batch.edges))).item()
    assert run_gated(here, zeros) == pytest.approx(nothing) != pytest.approx(whole)


def test_layers_have_gates_of_their_own() -> None:
    here = ground()
    noted = propagations(here.explainer.predictor, here.recorded)
    depth = depths(noted, len(here.batch.edges))
    assert set(depth.values()) == {1, 2}  # two layers of the model

    five = torch.full((1,), 5.0)

    def closed(at: int) -> float:
        return run_gated(here, [
            (torch.zeros(len(each.sent)), five) if depth[each.layer] == at else None
            for each in noted
        ])  # fmt: skip

    assert closed(1) != pytest.approx(closed(2))
    assert closed(1) != pytest.approx(float(here.logits[0]))


def test_gates_are_whole_and_have_gradients() -> None:
    logits = torch.linspace(-4, 4, 101, requires_grad=True)
    uniform = torch.full((101,), 0.4)
    gates, chance = hard_concrete(logits, uniform)
    assert set(gates.tolist()) == {0.0, 1.0}
    assert (chance.diff() > 0).all()
    (gradient,) = torch.autograd.grad(gates.sum(), logits)
    assert gradient.max() > 0.1
    # By hand: sigmoid(3 * (logit(0.4) + x)) * 1.2 - 0.2 is above one half from x = 0.518 on.
    first = float(logits.detach()[gates.detach() > 0][0])
    assert first == pytest.approx(0.56, abs=0.05)


def test_divergence_is_nothing_for_the_same_prediction() -> None:
    logits = torch.tensor([-30.0, -1.0, 0.0, 2.0, 50.0])
    assert divergence(logits, logits).tolist() == [0.0] * 5
    assert (divergence(logits, logits + 1) > -1e-12).all()
    assert torch.isfinite(divergence(logits, -logits)).all()
