"""What was proved about a model is kept for that model on that graph, and for no other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import MessagePassing

from pagelink import PaGELink
from pagelink.explain import preparation
from pagelink.model.predictor import LinkPredictor
from pagelink.models import LinkModel, make_model
from pagelink.store.writer import save_store
from tests.support.zoo import LINK_TYPE, make_case, make_graph


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[LinkPredictor]:
    """The predictors that something is proved about."""
    found: list[LinkPredictor] = []
    prove = preparation.inspect_model

    def counted(predictor: LinkPredictor, *given: object, **named: object) -> object:
        found.append(predictor)
        return prove(predictor, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(preparation, "inspect_model", counted)
    return found


@pytest.fixture
def data() -> HeteroData:
    return make_graph()


def model_of(data: HeteroData) -> LinkModel:
    return make_model("sage", data, LINK_TYPE, hidden=8, seed=0).eval()


def explainer(model: torch.nn.Module, data: HeteroData, file: Path, seed: int = 0) -> PaGELink:
    return PaGELink(model, data, LINK_TYPE, seed=seed, threshold=None, proof=file)


def test_the_same_model_is_proved_once(
    tmp_path: Path, proofs: list[LinkPredictor], data: HeteroData
) -> None:
    first, second = (explainer(model_of(data), data, tmp_path / "proof") for _ in range(2))
    assert len(proofs) == 1
    fields = [dataclasses.asdict(each.receptive_field) for each in (first, second)]
    np.testing.assert_equal(*fields)
    ways = (
        "mode",
        "shares_rim",
        "shares_unedited",
        "keeps_sums",
        "fuses",
        "by_rows",
        "has_gradient",
    )
    assert [getattr(first.predictor, w) for w in ways] == [
        getattr(second.predictor, w) for w in ways
    ]
    one, other = (each.explain(0, 1) for each in (first, second))
    assert one.logit == other.logit
    assert [path.nodes for path in one.paths] == [path.nodes for path in other.paths]


def test_of_a_store_it_is_kept_beside_it_for_each_model(
    tmp_path: Path, proofs: list[LinkPredictor], data: HeteroData
) -> None:
    store = save_store(data, tmp_path / "store")
    models = [make_model("sage", data, LINK_TYPE, hidden=8, seed=seed).eval() for seed in (0, 1)]
    made = [PaGELink(model, store, LINK_TYPE, threshold=None) for model in (*models, *models)]
    assert len(proofs) == 2
    assert len(list((tmp_path / "store.proofs").iterdir())) == 2
    for first, second in zip(made[:2], made[2:], strict=True):
        fields = [dataclasses.asdict(each.receptive_field) for each in (first, second)]
        np.testing.assert_equal(*fields)
        one, other = (each.explain(0, 1) for each in (first, second))
        assert one.logit == other.logit
    # Another store, if only by one feature, is another key.
    data["user"].x = data["user"].x + 1
    another = save_store(data, tmp_path / "other")
    (tmp_path / "store.proofs").rename(tmp_path / "other.proofs")
    PaGELink(models[0], another, LINK_TYPE, threshold=None)
    assert len(proofs) == 3


def test_nothing_is_kept_of_a_class_of_the_users_own(
    tmp_path: Path, proofs: list[LinkPredictor]
) -> None:
    case, file = make_case("HeteroConv SAGE"), tmp_path / "proof"
    for _ in range(2):
        explainer(case.model, case.data, file)
    assert len(proofs) == 2
    assert not file.exists()


@pytest.mark.parametrize("what", ["weight", "attribute", "hook", "edge", "feature", "seed", "file"])
def test_anything_else_is_proved_anew(
    tmp_path: Path, proofs: list[LinkPredictor], data: HeteroData, what: str
) -> None:
    model, file, seed = model_of(data), tmp_path / "proof", 0
    explainer(model, data, file)
    kept = file.read_text()
    if what == "weight":
        with torch.no_grad():
            next(model.parameters()).view(-1)[0] += 1e-3
    elif what == "attribute":
        next(m for m in model.modules() if isinstance(m, MessagePassing)).node_dim = 0
    elif what == "hook":
        model.register_forward_hook(lambda module, given, output: output)
    elif what == "edge":
        edge_index = data[data.edge_types[0]].edge_index
        edge_index[:, [0, 1]] = edge_index[:, [1, 0]]
    elif what == "feature":
        data[data.node_types[0]].x[0, 0] += 1
    elif what == "seed":
        seed = 1
    else:
        file.write_text(kept[: len(kept) // 2])
    explainer(model, data, file, seed)
    assert len(proofs) == 2
    assert file.read_text() != kept[: len(kept) // 2]


def test_nothing_is_kept_where_it_cannot_be_written(
    tmp_path: Path, proofs: list[LinkPredictor], data: HeteroData
) -> None:
    file = tmp_path / "file"
    file.touch()
    for _ in range(2):
        explainer(model_of(data), data, file / "proof")
    assert len(proofs) == 2
