"""The part `robust`: do other judges tell the rankings apart? All links at once, and random halves.

(a) The facts of the first three paths of all links are taken out of the graph at once, and the
model is trained anew, with the same first weights (ROAR). How far do the links' logits and their
ROC-AUC against fixed negatives fall, compared with taking out as many random facts of their paths?
(b) In random halves of all facts that a link's score can see, how much higher is the score with all
facts of the explanation than with none of them, compared with as many random facts of its paths?

Every training is a run of its own, kept as a file: what was done is not done again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from pagelink.bench.answers import DEFAULT, GREEDY, MAIN, ask, make_explainer
from pagelink.bench.faithfulness.bench import RANKINGS, SETTINGS
from pagelink.bench.faithfulness.judges import without_facts
from pagelink.bench.faithfulness.robust_report import random_name, tables
from pagelink.bench.paper.report import say_tables
from pagelink.bench.runs import Figures, Run, RunStore, plain_list, say, shown_progress
from pagelink.bench.subjects import LARGE, Subject, load_subject
from pagelink.datasets.folders import DataNotFoundError
from pagelink.errors import SettingsError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.feeds import scorer
from pagelink.models.link_model import node_inputs
from pagelink.models.links import Negatives, split_graph
from pagelink.models.messages import message_graph
from pagelink.models.training import train
from pagelink.rivals.gradients import rank_by_gradient
from pagelink.rivals.greedy import MOST_PATHS, greedy_search
from pagelink.rivals.ground import Ground, Ranked, edits_of, facts_of
from pagelink.rivals.plain import rank_at_random, rank_by_degree
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.settings import Settings

NAME = "robust"
SUBJECTS, QUICK_SUBJECTS = (f"{LARGE}-rgcn", f"{LARGE}-hgt"), ("tiny-rgcn",)
LINKS, QUICK_LINKS = 200, 4
TRAININGS, QUICK_TRAININGS = 10, 2
"""Seeds of the first weights, the training and the random facts."""
HALVES, QUICK_HALVES = 32, 3
"""Random halves of the facts of a link."""
NEGATIVES = 1000
"""Pairs that are no links, the same for all trainings."""


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    links: int
    trainings: int
    halves: int
    most_paths: int
    """Paths of a link that the greedy search tries at most."""


def run_and_print(
    out: Path,
    console: Console,
    *,
    subjects: Sequence[str] = (),
    links: int = LINKS,
    seed: int = 0,
    quick: bool = False,
) -> list[Run]:
    """Run both judges on the subjects, or what is left of it, print and write the tables.

    Raises:
        SettingsError: a subject is not trained here, or messages pass along its links.
    """
    plan = Plan(links, TRAININGS, HALVES, MOST_PATHS)
    if quick:
        plan = Plan(min(links, QUICK_LINKS), QUICK_TRAININGS, QUICK_HALVES, 200)
    store, runs = RunStore(out / "runs"), []
    with shown_progress(console) as step:
        for name in subjects or (QUICK_SUBJECTS if quick else SUBJECTS):
            step(f"{NAME}: {name}, model")
            try:
                subject = load_subject(name, plan.links, seed, out / "subjects")
            except DataNotFoundError as error:
                say(console, f"{name} is left out: {error}")
                continue
            runs += run_subject(store, subject, plan, seed, step)
    say_tables(tables(runs), out, NAME, console, quick=quick, seed=seed)
    return runs


def run_subject(
    store: RunStore, subject: Subject, plan: Plan, seed: int, step: Callable[[str], None]
) -> list[Run]:
    """The runs of one subject; those that are stored are not done again.

    Args:
        store: where runs are kept.
        subject: the model and its links.
        plan: how much is done.
        seed: of the explainers and all random choices.
        step: called with what comes next.

    Raises:
        SettingsError: it was not trained here, or messages pass along its links.
    """
    if subject.whole is None or subject.settings is None or not subject.settings.paper_split:
        raise SettingsError(
            f"{subject.name} cannot be trained anew without facts: give a model that is trained "
            "here and passes no messages along the predicted relation, such as "
            f"{SUBJECTS[0]}."
        )
    key = {
        "subject": subject.name, "links": len(subject.pairs), "seed": seed,
        "settings": {name: settings.to_dict() for name, settings in SETTINGS.items()},
        "greedy": plan.most_paths,
    }  # fmt: skip
    step(f"{NAME}: {subject.name}, rankings")
    paths = store.do(NAME, f"{subject.name} paths", key, partial(_paths, subject, plan, seed, step))
    shown: dict[str, list[list[int]]] = paths.figures["shown"]
    step(f"{NAME}: {subject.name}, halves")
    halves = store.do(
        NAME, f"{subject.name} halves", {**key, "halves": plan.halves},
        lambda: {"rankings": halved(subject, shown, plan.halves, seed)},
    )  # fmt: skip
    runs = [paths, halves]
    for number in range(plan.trainings):
        for what, facts in taken_out(shown, paths.figures["on paths"], number).items():
            name = f"{subject.name} training {number} {what}"
            step(f"{NAME}: {name}")
            runs.append(store.do(
                NAME, name, {**key, "training": number, "without": what},
                partial(retrained, subject, facts, number, seed),
            ))  # fmt: skip
    return runs


def _paths(subject: Subject, plan: Plan, seed: int, step: Callable[[str], None]) -> Figures:
    """Per ranking and link, the facts of its first three paths; and all facts on paths."""
    found: dict[str, Ranked] = {name: [] for name in RANKINGS}
    for name, settings in SETTINGS.items():
        step(f"{NAME}: {subject.name}, {name}")
        found[name] = ask(subject, DEFAULT, settings, seed, counts=(MAIN,)).paths[MAIN]
    on_paths: set[int] = set()
    for ground in _grounds(subject, seed):
        first = len(found[GREEDY])
        step(f"{NAME}: {subject.name}, plain rankings from link {first + 1} on")
        lengths = [[len(path) for path in paths] for paths in found["default"]]
        here = lengths[first : first + ground.num_links]
        found["degree only"] += rank_by_degree(ground, MAIN)
        found["gradient"] += rank_by_gradient(ground, MAIN)
        found["random paths"] += rank_at_random(ground, MAIN, lengths=here, seed=seed)
        found[GREEDY] += greedy_search(ground, MAIN, plan.most_paths).best(MAIN)
        for link in range(ground.num_links):
            on_paths.update(ground.path_facts(link).tolist())
    return {
        "shown": {name: [facts_of(paths) for paths in ranked] for name, ranked in found.items()},
        "on paths": sorted(on_paths),
    }


def _grounds(subject: Subject, seed: int) -> list[Ground]:
    return list(Ground.cut(make_explainer(subject, DEFAULT, Settings(), seed), subject.pairs))


def taken_out(
    shown: Mapping[str, Sequence[Sequence[int]]], on_paths: Sequence[int], seed: int
) -> dict[str, list[int]]:
    """What the trainings do without: nothing, the facts of a ranking, as many random ones.

    All random sets are taken from one order, so that rankings with equally many facts are compared
    with the same ones.

    Example:
        >>> sets = taken_out({"some": [[1, 2], [2]]}, [1, 2, 3, 4], seed=0)
        >>> {name: len(facts) for name, facts in sets.items()}
        {'nothing': 0, 'some': 2, 'random 2': 2}
    """
    order = np.random.default_rng((seed, 6)).permutation(on_paths)
    sets: dict[str, list[int]] = {"nothing": []}
    for name, facts_of_links in shown.items():
        sets[name] = sorted({fact for facts in facts_of_links for fact in facts})
    for size in sorted({len(sets[name]) for name in shown}):
        sets[random_name(size)] = sorted(order[:size].tolist())
    return sets


def retrained(subject: Subject, facts: Sequence[int], number: int, seed: int) -> Figures:
    """Train a model on the graph without some facts, and ask it about the links.

    Args:
        subject: the model and its links.
        facts: what is taken out.
        number: seed of the first weights and the training.
        seed: of the split of the subject and of the negatives.

    Returns:
        How many facts went; of each link its logit, and the share of the negatives that are below
        it, of which the mean is the ROC-AUC.
    """
    assert subject.whole is not None
    assert subject.settings is not None
    link_type = subject.link_type
    graph = TypedGraph.from_data(subject.data, [link_type])
    data = without_facts(subject.whole, graph, facts)
    split = split_graph(subject.whole, link_type, seed)
    settings = dataclasses.replace(subject.settings, retrain_edgeless=False)
    model = type(subject.model)(**{**subject.model.config, "seed": number})
    train(model, data, link_type, split, settings, seed=number)
    seen = message_graph(data, link_type, split.train, paper_split=settings.paper_split)
    score = scorer(model, node_inputs(seen), dict(seen.edge_index_dict))
    num_src, num_dst = (int(data[node_type].num_nodes) for node_type in link_type[::2])
    known = Negatives.for_links(num_src, num_dst, link_type, split.all)
    free = num_src * num_dst - split.all.shape[1]
    negatives = known.uniform(min(NEGATIVES, free), np.random.default_rng((seed, 4)))
    logits = score(torch.tensor(subject.pairs).T).double().numpy()
    below = score(negatives).double().numpy()
    above = (logits[:, None] > below).mean(1) + (logits[:, None] == below).mean(1) / 2
    return {"facts": len(facts), "logit": plain_list(logits), "auc": plain_list(above)}


def halved(
    subject: Subject, shown: Mapping[str, Sequence[Sequence[int]]], halves: int, seed: int
) -> dict[str, dict[str, list[float | None]]]:
    """How much higher scores are with an explanation than without it, in random halves.

    Args:
        subject: the model and its links.
        shown: per ranking and link, the facts of its paths.
        halves: random halves of each link.
        seed: with the link, where they are drawn from.

    Returns:
        Per ranking, of each link `own`, the mean of f(R and the facts) - f(R without them) over the
        random halves R, and `random`, the same of as many random facts of the link's paths.
    """
    parts: list[Doubles] = []
    first = 0
    for ground in _grounds(subject, seed):
        here = {name: facts[first : first + ground.num_links] for name, facts in shown.items()}
        parts.append(_on_ground(ground, here, halves, seed))
        first += ground.num_links
    values = np.concatenate(parts, axis=2)
    return {
        name: {"own": plain_list(own), "random": plain_list(random)}
        for name, (own, random) in zip(shown, values, strict=True)
    }


def _on_ground(
    ground: Ground, shown: Mapping[str, Sequence[Sequence[int]]], halves: int, seed: int
) -> Doubles:
    """[rankings, 2, num_links]: the mean differences of the links of a ground."""
    fact = ground.explainer.graph.fact[ground.batch.edges]
    ptr = ground.batch.edge_ptr
    rngs = [np.random.default_rng((seed, link.src, link.dst, 5)) for link in ground.links]
    on_paths = [ground.path_facts(link) for link in range(ground.num_links)]
    total = np.zeros((len(shown), 2, ground.num_links))
    for _ in range(halves):
        half = ground.whole.copy()
        for link, rng in enumerate(rngs):
            mine = slice(ptr[link], ptr[link + 1])
            facts, place = np.unique(fact[mine], return_inverse=True)
            half[mine] &= (rng.random(len(facts)) < 0.5)[place]
        # One order for all rankings: equally many facts are compared with the same random ones.
        orders = [rng.permutation(of_link) for rng, of_link in zip(rngs, on_paths, strict=True)]
        links: list[int] = []
        edits: list[Longs] = []
        for answers in shown.values():
            for link, facts_shown in enumerate(answers):
                for facts_put in (facts_shown, orders[link][: len(facts_shown)].tolist()):
                    slots = ground.slots(link, facts_put)
                    slots = slots[ground.whole[slots]]
                    links += [link, link]
                    # With all of them: those that are missing are put in. Without: the others go.
                    edits += [slots[~half[slots]], slots[half[slots]]]
        logits = ground.influence.logits(half, edits_of(links, edits))
        each = logits.reshape(len(shown), ground.num_links, 2, 2)
        total += (each[..., 0] - each[..., 1]).transpose(0, 2, 1)
    return total / halves
