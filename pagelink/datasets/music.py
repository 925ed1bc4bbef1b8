"""Music graphs with planted paths, and a model of hand-set weights that counts walks in them.

Listeners save, like or skip mixes, follow artists and subscribe to labels; mixes contain tracks and
feature artists; tracks are by artists, who are signed to labels, which released tracks. The link is
that a listener plays a track. Every listener asked about has a track and inner nodes of its own,
joined by planted paths, and random further facts that lead to other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import MessagePassing

from pagelink.explain.result import Path
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Longs

LINK_TYPE: EdgeType = ("listener", "plays", "track")
RELATIONS: dict[str, EdgeType] = {
    name: (src, name, dst)
    for src, name, dst in (
        ("listener", "saves", "mix"), ("listener", "likes", "mix"), ("listener", "skips", "mix"),
        ("listener", "follows", "artist"), ("listener", "subscribes", "label"),
        ("mix", "contains", "track"), ("mix", "features", "artist"), ("track", "by", "artist"),
        ("artist", "signed_to", "label"), ("label", "released", "track"),
    )
}  # fmt: skip
STEPS = RELATIONS | {f"rev_{r}": (dst, f"rev_{r}", src) for r, (src, _, dst) in RELATIONS.items()}
"""Every relation, and its reverse, which the graphs store, too."""
KINDS = ("listener", "mix", "track", "artist", "label")
INNER = {"m": "mix", "t": "track", "a": "artist", "l": "label"}
"""Inner nodes of planted paths, by the first letter of what a plan calls them."""
SCENE = 30
"""Links of a scene: scenes are not connected, and listeners have a code that is theirs in one."""
POOL = 20
"""Nodes of each kind and side in a scene that the further facts lead to."""
OWN, IN_SCENE, CODE = 0, 1, 2
"""Columns of the features: a node's own part of the score, its scene, and from there its code."""

Fact = tuple[str, int, int]
"""Relation, and the indices of its source and its target as it is stored, not as it is walked."""
Head = Callable[[Sequence[Tensor]], Tensor]
"""From the counts of each link, one tensor for each walk, to what is added to its score."""


def facts_of(path: Path) -> frozenset[Fact]:
    """Return the facts of a path, whichever way they are walked."""
    facts = set()
    for edge, ((_, one), (_, other)) in zip(path.edges, pairwise(path.nodes), strict=True):
        relation = edge.type[1].removeprefix("rev_")
        backwards = (relation != edge.type[1]) != edge.reversed
        facts.add((relation, other, one) if backwards else (relation, one, other))
    return frozenset(facts)


# The model.


class _Pass(MessagePassing):
    """Hands on the sum of the neighbours, each column times a weight."""

    weight: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__(aggr="sum")
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
        collected: Tensor = self.propagate(edge_index, x=x, size=(x.shape[0], num_targets))
        return collected

    def message(self, x_j: Tensor) -> Tensor:
        return x_j * self.weight


class CountingModel(nn.Module):
    """Adds up a link's own features and what the head makes of the counts of its walks.

    Each walk has as many columns as there are codes. The code of a listener is one-hot, so that
    what arrives at a track in the column of a listener is the number of walks from that one.

    Args:
        walks: sequences of relations; see `Plan.walks`.
        head: what the counts are worth.
        num_codes: codes of listeners.
    """

    def __init__(self, walks: Sequence[Sequence[str]], head: Head, num_codes: int) -> None:
        super().__init__()
        self.walks, self.head, self.num_codes = tuple(map(tuple, walks)), head, num_codes
        self.num_layers = max(2, *map(len, self.walks))
        self.layers = nn.ModuleList()
        for number in range(self.num_layers):
            # A shorter walk starts later, so that all arrive together.
            here = [(self.num_layers - len(walk), walk) for walk in self.walks]
            layer = nn.ModuleDict()
            for step in STEPS:
                counts = [number >= late and walk[number - late] == step for late, walk in here]
                layer[step] = _Pass(torch.tensor(counts).float().repeat_interleave(num_codes))
            self.layers.append(layer)

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links."""
        h = self._start(x_dict, 0)
        for number, layer in enumerate(self.layers, start=1):
            arrived = self._start(x_dict, number)
            for step, (src, _, dst) in STEPS.items():
                edge_index = edge_index_dict[STEPS[step]]
                message = layer[step](h[src], edge_index, x_dict[dst].shape[0])  # type: ignore[index]
                arrived[dst] = arrived[dst] + message
            h = arrived
        src, dst = edge_label_index
        listener, track = x_dict["listener"][src], x_dict["track"][dst]
        ends = {"listener": h["listener"][src], "track": h["track"][dst]}
        same = (listener[:, IN_SCENE] == track[:, IN_SCENE]).float()
        counts = []
        for place, walk in enumerate(self.walks):
            columns = slice(place * self.num_codes, (place + 1) * self.num_codes)
            found = ends[STEPS[walk[-1]][2]][:, columns]
            own_walks = same * (found * listener[:, CODE:]).sum(-1)
            counts.append(found[:, 0] if len(walk) == 1 else own_walks)
        return listener[:, OWN] + track[:, OWN] + self.head(counts)

    def _start(self, x_dict: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
        """What walks that start after this number of layers start with: the codes."""
        found = {}
        for kind, x in x_dict.items():
            starts = [
                STEPS[walk[0]][0] == kind and number == self.num_layers - len(walk)
                for walk in self.walks
            ]
            found[kind] = torch.cat([x[:, CODE:] * float(here) for here in starts], dim=1)
        return found


# The graph.


AT_ENDS, INSIDE = (2, 6), (1, 4)
"""Further facts of the two ends and of an inner node: at least, and fewer than."""
_ROLES = {
    "source": (
        ("saves", "near mix"), ("likes", "near mix"), ("skips", "near mix"),
        ("follows", "near artist"), ("subscribes", "near label"),
    ),
    "target": (("rev_contains", "far mix"), ("by", "far artist"), ("rev_released", "far label")),
    "mix": (
        ("rev_saves", "audience"), ("rev_likes", "audience"), ("rev_skips", "audience"),
        ("contains", "near track"),
    ),
    "artist": (("rev_follows", "audience"), ("rev_by", "far track")),
    "label": (("rev_subscribes", "audience"), ("released", "far track")),
    "track": (("rev_contains", "far mix"), ("by", "near artist")),
    "near mix": (("contains", "near track"), ("rev_saves", "audience")),
    "near artist": (("rev_by", "near track"), ("rev_follows", "audience")),
    "near label": (("rev_signed_to", "near artist"), ("rev_subscribes", "audience")),
    "far mix": (("contains", "far track"), ("rev_saves", "audience")),
    "far artist": (("rev_by", "far track"), ("signed_to", "far label")),
    "far label": (("released", "far track"), ("rev_subscribes", "audience")),
}  # fmt: skip
"""By what a node is in a scene, the steps its further facts take, and to which pool of nodes. From
the nodes near a source none leads to the target but by way of the audience, other listeners."""
_POOLS = ("near mix", "near artist", "near label", "near track",
          "far mix", "far artist", "far label", "far track", "audience")  # fmt: skip

PlantedPaths = tuple[int, int, list[list[Fact]]]
"""Source, target, and the facts of each planted path between them."""


class Drawing:
    """A music graph that is drawn scene by scene.

    Args:
        rng: where random numbers come from.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._scene_of: dict[str, list[int]] = {kind: [] for kind in KINDS}
        self._facts: dict[Fact, None] = {}
        self._codes: dict[int, int] = {}
        self._num_scenes = 0

    def scene(
        self, paths: Sequence[str], crowded: Mapping[str, int], num_links: int
    ) -> list[PlantedPaths]:
        """Draw a scene of listeners and tracks that are joined by paths.

        Args:
            paths: relations and inner nodes in turn; nodes of one name are one node.
            crowded: inner nodes with this number of facts more.
            num_links: pairs of a listener and a track, `SCENE` at most.
        """
        self._num_scenes += 1
        pools = {
            pool: [self._node(pool.split()[-1].replace("audience", "listener"))
                   for _ in range(POOL)]
            for pool in _POOLS
        }  # fmt: skip
        for pool in _POOLS:
            for node in pools[pool] if pool in _ROLES else ():
                for step, other in _ROLES[pool]:
                    self._lead(node, step, pools[other], 2)
        drawn = []
        for code in range(num_links):
            src, dst = self._node("listener"), self._node("track")
            self._codes[src] = code
            nodes: dict[str, int] = {}
            planted = []
            for path in paths:
                steps, inner = path.split()[::2], path.split()[1::2]
                for name in inner:
                    if name not in nodes:
                        nodes[name] = self._node(INNER[name[0]])
                walked = [src, *(nodes[name] for name in inner), dst]
                planted.append([
                    self._add(step, one, other)
                    for step, (one, other) in zip(steps, pairwise(walked), strict=True)
                ])  # fmt: skip
            self._more("source", src, pools, int(self._rng.integers(*AT_ENDS)))
            self._more("target", dst, pools, int(self._rng.integers(*AT_ENDS)))
            for name, node in nodes.items():
                more = int(self._rng.integers(*INSIDE)) + crowded.get(name, 0)
                self._more(INNER[name[0]], node, pools, more)
            drawn.append((src, dst, planted))
        return drawn

    def _node(self, kind: str) -> int:
        self._scene_of[kind].append(self._num_scenes)
        return len(self._scene_of[kind]) - 1

    def _add(self, step: str, one: int, other: int) -> Fact:
        back = step.startswith("rev_")
        fact = (step.removeprefix("rev_"), *((other, one) if back else (one, other)))
        self._facts[fact] = None
        return fact

    def _lead(self, node: int, step: str, others: Sequence[int], count: int) -> None:
        for other in self._rng.choice(others, count, replace=False).tolist():
            self._add(step, node, other)

    def _more(self, role: str, node: int, pools: Mapping[str, Sequence[int]], count: int) -> None:
        free = [(step, other) for step, pool in _ROLES[role] for other in pools[pool]]
        for place in self._rng.choice(len(free), count, replace=False).tolist():
            self._add(free[place][0], node, free[place][1])

    def at(self, step: str, node: int) -> list[Fact]:
        """The facts of the relation of a step that lead to a node."""
        place = 1 if step.startswith("rev_") else 2
        relation = step.removeprefix("rev_")
        return [fact for fact in self._facts if fact[0] == relation and fact[place] == node]

    def order(self) -> dict[str, Longs]:
        """A random order of the nodes of each kind: a number must not tell what a node is for."""
        return {kind: self._rng.permutation(len(of)) for kind, of in self._scene_of.items()}

    def data(self, order: Mapping[str, Longs]) -> HeteroData:
        """The graph with its nodes in an order and its facts in a random one, and all reverses."""
        data = HeteroData()
        for kind, scenes in self._scene_of.items():
            x = torch.ones(len(scenes), CODE + SCENE)
            x[:, OWN] = torch.from_numpy(self._rng.normal(0, np.sqrt(0.5), len(scenes)))
            x[torch.from_numpy(order[kind]), IN_SCENE] = torch.tensor(scenes).float()
            if kind == "listener":
                x[:, CODE:] = 0
                for node, code in self._codes.items():
                    x[int(order[kind][node]), CODE + code] = 1
            data[kind].x = x
        by_relation: dict[str, list[tuple[int, int]]] = {name: [] for name in RELATIONS}
        for relation, one, other in renamed(self._facts, order):
            by_relation[relation].append((one, other))
        for relation, pairs in by_relation.items():
            shuffled = self._rng.permutation(np.array(pairs, dtype=np.int64).reshape(-1, 2))
            edge_index = torch.from_numpy(shuffled).t().contiguous()
            data[STEPS[relation]].edge_index = edge_index
            data[STEPS[f"rev_{relation}"]].edge_index = edge_index.flip(0).contiguous()
        return data


def renamed(facts: Iterable[Fact], order: Mapping[str, Longs]) -> list[Fact]:
    """Return facts by the new numbers of their nodes."""
    found = []
    for relation, one, other in facts:
        src, _, dst = RELATIONS[relation]
        found.append((relation, int(order[src][one]), int(order[dst][other])))
    return found
