"""Shapley values of a trained model, beside the game as defined, by plain PyTorch from the start.

Parts, features drawn, coalitions and values are worked out here, with other random numbers than the
package's: what both find differs by chance alone.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

from pagelink import PaGELink, Settings
from pagelink.measure.verdict import PARTS
from pagelink.runtime.arrays import Doubles

EdgeType = tuple[str, str, str]
Node = tuple[str, int]
Fact = tuple[EdgeType, int, int]
SIZES = {"cook": 40, "dish": 60, "herb": 25}
LINK = ("cook", "likes", "dish")
NUM_HOPS, MAX_LENGTH, DRAWS, NUM_LINKS = 2, 3, 8, 4


class Cooks:
    """Cooks, dishes and herbs at random; cooks like dishes of their own taste."""

    def __init__(self) -> None:
        rng = np.random.default_rng(11)
        taste = {kind: rng.integers(0, 4, size) for kind, size in SIZES.items()}
        self.x = {k: torch.randn(n, 6, generator=torch.manual_seed(11)) for k, n in SIZES.items()}
        for column, kind in enumerate(SIZES):
            self.x[kind][:, column] += torch.from_numpy(taste[kind])

        def drawn(src: str, dst: str, count: int, stray: float) -> list[tuple[int, int]]:
            found: dict[tuple[int, int], None] = {}
            while len(found) < count:
                u, v = int(rng.integers(SIZES[src])), int(rng.integers(SIZES[dst]))
                agree = taste[src][u] == taste[dst][v] or rng.random() < stray
                if agree and not (src == dst and (u == v or (v, u) in found)):
                    found[u, v] = None
            return list(found)

        self.facts: list[Fact] = [
            (edge_type, u, v)
            for edge_type, count, stray in (
                (("cook", "tastes", "dish"), 130, 0.15), (("dish", "needs", "herb"), 110, 0.2),
                (("cook", "grows", "herb"), 60, 1.0), (("cook", "knows", "cook"), 35, 1.0),
            )
            for u, v in drawn(edge_type[0], edge_type[2], count, stray)
        ]  # fmt: skip
        self.likes = drawn("cook", "dish", 120, 0.0)
        self.at: dict[Node, list[tuple[Fact, Node]]] = {
            (kind, i): [] for kind, size in SIZES.items() for i in range(size)
        }
        for fact in self.facts:
            one, two = ends(fact)
            self.at[one].append((fact, two))
            self.at[two].append((fact, one))

    def edges(self, gone: set[Fact]) -> dict[EdgeType, Tensor]:
        """All edges and their reverses but those of some facts."""
        found: dict[EdgeType, list[tuple[int, int]]] = {fact[0]: [] for fact in self.facts}
        for edge_type, u, v in self.facts:
            if (edge_type, u, v) not in gone:
                found[edge_type].append((u, v))
        stored = {k: torch.tensor(v, dtype=torch.long).reshape(-1, 2).T for k, v in found.items()}
        return stored | {(b, f"rev_{r}", a): e.flip(0) for (a, r, b), e in stored.items()}

    def distances(self, start: Node) -> dict[Node, int]:
        found, waiting = {start: 0}, [start]
        for node in waiting:
            for _, other in self.at[node]:
                if other not in found:
                    found[other] = found[node] + 1
                    waiting.append(other)
        return found

    def on_paths(self, src: Node, dst: Node) -> set[Fact]:
        found: set[Fact] = set()

        def walk(node: Node, seen: frozenset[Node], used: tuple[Fact, ...]) -> None:
            if node == dst:
                found.update(used)
            elif len(used) < MAX_LENGTH:
                for fact, other in self.at[node]:
                    if other not in seen:
                        walk(other, seen | {other}, (*used, fact))

        walk(src, frozenset([src]), ())
        return found

    def parts(self, src: Node, dst: Node) -> tuple[list[list[Fact]], list[list[Node]]]:
        """Path facts, others nearer the source, nearer the target, equally near; and the nodes."""
        away = [self.distances(end) for end in (src, dst)]

        def near(end: int, fact: Fact) -> int:
            return min(away[end].get(node, 99) for node in ends(fact))

        seen = [f for f in self.facts if min(near(0, f), near(1, f)) < NUM_HOPS]
        path = self.on_paths(src, dst)
        rest = [(f, near(0, f) - near(1, f)) for f in seen if f not in path]
        others = sorted({node for fact in seen for node in ends(fact)} - {src, dst})
        return [
            [f for f in seen if f in path], [f for f, more in rest if more < 0],
            [f for f, more in rest if more > 0], [f for f, more in rest if more == 0],
        ], [[src], [dst], others]  # fmt: skip

    def alike(self, node: Node, rng: np.random.Generator) -> int:
        """Another node of the type and of similar degree, at random."""
        kind, index = node
        drawn = [int(i) for i in rng.integers(0, SIZES[kind], 32) if i != index]
        degree = math.log1p(len(self.at[node]))
        return min(drawn, key=lambda i: abs(math.log1p(len(self.at[kind, i])) - degree))


def ends(fact: Fact) -> tuple[Node, Node]:
    (src, _, dst), u, v = fact
    return (src, u), (dst, v)


class Net(nn.Module):
    """Two layers of SAGE, and a head that looks at both ends and at their product."""

    def __init__(self, types: list[EdgeType]) -> None:
        super().__init__()
        self.one = HeteroConv({k: SAGEConv((6, 6), 16) for k in types})
        self.two = HeteroConv({k: SAGEConv((16, 16), 16) for k in types})
        self.skip = nn.Linear(6, 16)
        self.head = nn.Sequential(nn.Linear(48, 24), nn.Tanh(), nn.Linear(24, 1))

    def forward(self, x: dict[str, Tensor], edges: dict[EdgeType, Tensor], pair: Tensor) -> Tensor:
        h = {k: torch.tanh(v + self.skip(x[k])) for k, v in self.one(x, edges).items()}
        h = {k: v + h[k] for k, v in self.two(h, edges).items()}
        src, dst = h["cook"][pair[0]], h["dish"][pair[1]]
        logits: Tensor = self.head(torch.cat([src, dst, src * dst], -1)).squeeze(-1)
        return logits


def trained(cooks: Cooks) -> Net:
    torch.manual_seed(11)
    edges = cooks.edges(set())
    net = Net(list(edges))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    right = torch.tensor(cooks.likes).T
    for _ in range(100):
        wrong = torch.stack([torch.randint(SIZES[kind], (right.shape[1],)) for kind in LINK[::2]])
        logits = net(cooks.x, edges, torch.cat([right, wrong], 1))
        loss = binary_cross_entropy_with_logits(logits, torch.tensor([1.0, 0.0]).repeat_interleave(
            right.shape[1]))  # fmt: skip
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return net.eval()


@torch.no_grad()
def coalitions(cooks: Cooks, net: Net, src: Node, dst: Node) -> tuple[Doubles, list[int]]:
    """The logit of every coalition in every draw, and the sizes of the parts."""
    facts, nodes = cooks.parts(src, dst)
    rng = np.random.default_rng((5, src[1], dst[1]))
    looks = [[{n: cooks.alike(n, rng) for n in part} for part in nodes] for _ in range(DRAWS)]
    values = np.empty((2 ** len(PARTS), DRAWS))
    for coalition in range(len(values)):
        is_out = [not coalition >> i & 1 for i in range(len(PARTS))]
        gone = {f for part, out in zip(facts, is_out, strict=False) if out for f in part}
        edges = cooks.edges(gone)
        for draw in range(DRAWS):
            x = {kind: rows.clone() for kind, rows in cooks.x.items()}
            for part, out in zip(looks[draw], is_out[len(facts) :], strict=True):
                for (kind, index), like in part.items() if out else ():
                    x[kind][index] = cooks.x[kind][like]
            pair = torch.tensor([[src[1]], [dst[1]]])
            values[coalition, draw] = net(x, edges, pair).item()
    return values, [len(part) for part in (*facts, *nodes)]


def shapley(values: Doubles) -> Doubles:
    number = len(PARTS)
    found = np.zeros((number, values.shape[1]))
    for player in range(number):
        for coalition in range(2**number):
            if not coalition >> player & 1:
                size = coalition.bit_count()
                orders = math.factorial(size) * math.factorial(number - size - 1)
                joined = values[coalition | 1 << player] - values[coalition]
                found[player] += orders / math.factorial(number) * joined
    return found


def test_shapley_values_of_a_trained_model_are_those_worked_out_by_hand() -> None:
    cooks = Cooks()
    net = trained(cooks)
    data = HeteroData()
    for kind, x in cooks.x.items():
        data[kind].x = x
    for edge_type, edges in cooks.edges(set()).items():
        data[edge_type].edge_index = edges
    quick = Settings(max_length=MAX_LENGTH, longer=False, strongest=False, what_else=False)
    links = cooks.likes[:: len(cooks.likes) // NUM_LINKS]
    audit = PaGELink(net, data, LINK, quick, threshold=None).audit(links)
    apart, total = [], np.zeros(len(PARTS), dtype=np.int64)
    for (src, dst), row in zip(links, audit.rows, strict=True):
        values, sizes = coalitions(cooks, net, ("cook", src), ("dish", dst))
        assert row.game is not None
        assert row.logit is not None
        assert abs(row.logit - values[-1, 0]) < 1e-4
        assert [row.game.sizes[part] for part in PARTS] == sizes
        total += sizes
        found = [row.game.base, *(row.game.parts[part] for part in PARTS)]
        assert abs(sum(each.value for each in found) - row.logit) < 1e-4
        right = [values[0], *shapley(values)]
        for one, other in zip(found, right, strict=True):
            error = math.hypot(one.error, other.std(ddof=1) / math.sqrt(DRAWS))
            apart.append((one.value - other.mean()) / max(error, 1e-4))
    assert total.min() > 0  # no part is empty for all of them
    assert np.abs(apart).max() < 5
    assert 0.5 < math.sqrt(np.square(apart).mean()) < 1.5  # errors are as large as they say
