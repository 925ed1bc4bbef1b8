"""Two targets, two explainers, two models, and several links at once: what the explorer answers."""

from __future__ import annotations

import pytest
import torch
from starlette.testclient import TestClient
from support.two_models import SEED, dataset, explainer_of, two_models

from pagelink import errors
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.models.architectures import RGCN
from pagelink.rivals.registry import RIVALS, make_rival
from pagelink.web.app import make_app
from pagelink.web.compared import Comparing
from pagelink.web.contract import Choice
from pagelink.web.explainers import METHODS, Explainers
from pagelink.web.explorer import Explorer

SRC = 0


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return two_models()


def targets_of(explorer: Explorer, count: int) -> list[int]:
    return [each.node.index for each in explorer.targets(SRC, count).targets]


def logit_by(model: torch.nn.Module, dst: int) -> float:
    data = dataset().data
    x_dict = {kind: torch.arange(data[kind].num_nodes) for kind in data.node_types}
    with torch.no_grad():
        return float(model(x_dict, data.edge_index_dict, torch.tensor([[SRC], [dst]])))


def test_a_contrast_is_the_librarys(explorer: Explorer) -> None:
    first, last = targets_of(explorer, 8)[0], targets_of(explorer, 8)[-1]
    answer = Comparing(explorer).contrast(SRC, last, first, Choice())
    found = explorer.explainer.contrast(SRC, last, first)
    assert answer.text == str(found)
    assert answer.svg == found.to_svg()
    assert (answer.above.index, answer.below.index) == (first, last)
    assert answer.opening[0] in answer.text
    assert "not below it" in answer.opening[0]
    assert answer.paths
    for path in answer.paths:
        assert path.sentence in answer.text
    for sentence in filter(None, (answer.turning, answer.widening, answer.context)):
        assert sentence in answer.text


def test_a_contrast_holds_to_the_settings_of_the_page(explorer: Explorer) -> None:
    first, last = targets_of(explorer, 8)[0], targets_of(explorer, 8)[-1]
    words = " ".join(
        path.sentence
        for path in Comparing(explorer).contrast(SRC, first, last, Choice(exclude=("has",))).paths
    )
    usual = Comparing(explorer).contrast(SRC, first, last, Choice())
    assert " has " in " ".join(path.sentence for path in usual.paths)
    assert " has " not in words


def test_a_deadline_that_is_too_early_is_said(explorer: Explorer) -> None:
    late = explorer.explainer.replace(explorer.explainer.settings.replace(deadline=1e-6))
    with pytest.raises(errors.SettingsError, match="Give a later deadline"):
        late.contrast(SRC, *targets_of(explorer, 2))


def test_the_first_targets_together_are_the_librarys_group(explorer: Explorer) -> None:
    answer = Comparing(explorer).group(SRC, 6)
    found = explorer.explainer.explain_group([(SRC, dst) for dst in targets_of(explorer, 6)])
    assert answer.text == str(found)
    assert answer.text.startswith(answer.sentence)
    assert [link.dst.index for link in answer.links] == targets_of(explorer, 6)
    assert [chain.words for chain in answer.chains] == [each.words for each in found.metapaths]
    assert answer.chains
    for at, chain in enumerate(answer.chains):
        assert sum(at in link.chains for link in answer.links) == chain.num_carried
    assert sum(bool(link.chains) for link in answer.links) == found.num_carried


def test_another_explainer_of_the_same_link(explorer: Explorer) -> None:
    assert set(METHODS) <= set(RIVALS)
    dst, data = targets_of(explorer, 1)[0], dataset().data
    model = explorer.explainer.predictor.model
    paths = {}
    for name in METHODS:
        shown, answer = explorer.explain(SRC, dst, Choice(method=name, paths=2))
        rival = make_rival(
            name, model, data, dataset().link_type, shown.settings, threshold=None
        )  # fmt: skip
        right = rival.explain(SRC, dst, negatives=True)
        assert [path.nodes for path in shown.paths] == [path.nodes for path in right.paths], name
        assert len(answer.svg) > 100
        paths[name] = tuple(path.nodes for path in shown.paths)
    assert len(set(paths.values())) > 2, "they do not all return the same"


def test_another_model_of_the_same_link(explorer: Explorer) -> None:
    dst = targets_of(explorer, 1)[0]
    logits = [explorer.explain(SRC, dst, Choice(model=place))[0].logit for place in (0, 1)]
    models = [each.predictor.model for each in explorer.explainers.models]
    assert logits == pytest.approx([logit_by(model, dst) for model in models], abs=1e-4)
    assert logits[0] != pytest.approx(logits[1])
    assert explorer.about.models == ["RGCN", "another"]
    # With a fact added, each has a graph of its own.
    new = next(i for i in range(12) if i not in owned(SRC))
    added = [
        explorer.explain(SRC, dst, Choice(model=place, add=(f"buys:{SRC}:{new}",)))[0].logit
        for place in (0, 1)
    ]
    assert added[0] != pytest.approx(logits[0])
    assert added[1] != pytest.approx(logits[1])


def owned(src: int) -> set[int]:
    pairs = dataset().data["user", "buys", "item"].edge_index
    return set(pairs[1, pairs[0] == src].tolist())


def test_models_of_other_links_or_graphs_are_refused() -> None:
    one, small = explainer_of(SEED), generate_useritemattr(seed=2)
    model = RGCN.for_data(small.data, small.link_type, paper_split=True, seed=0).eval()
    other = type(one)(model, small.data, small.link_type)
    with pytest.raises(errors.SettingsError, match="the same nodes"):
        Explainers([one, other])
    made = dataset()
    bought = ("user", "buys", "item")
    model = RGCN.for_data(made.data, bought, paper_split=True, seed=0).eval()
    with pytest.raises(errors.SettingsError, match="predict different links"):
        Explainers([one, type(one)(model, made.data, bought)])


def test_what_there_is_none_of_is_said() -> None:
    with TestClient(make_app(two_models()), base_url="http://127.0.0.1") as client:
        for path, status, words in (
            ("/api/contrast?src=0&dst=1&instead=1", 404, "is both targets"),
            ("/api/contrast?src=0&dst=1", 422, "instead: Field required"),
            ("/api/contrast?src=0&dst=1&instead=99", 404, "item index must be in 0..11"),
            ("/api/explanation?src=0&dst=1&method=papre", 404, "Did you mean"),
            ("/api/explanation?src=0&dst=1&model=2", 404, "There is no model 2"),
            ("/api/group?src=99", 404, "user index must be"),
            ("/api/audit?links=0", 422, "links"),
        ):
            answer = client.get(path)
            assert answer.status_code == status, path
            assert words in answer.json()["message"], answer.json()
