"""GNNExp-Link and PGExp-Link of the PaGE-Link authors, written anew in plain PyTorch.

Nothing of pagelink is in it but the ROC-AUC. Random numbers are drawn in the order of the released
code with its seed 0, which makes its own figures come out to the last digit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from pagelink.metrics.labels import mask_auc

Relation = tuple[str, str, str]
Masks = dict[Relation, Tensor]
DIM, HOPS = 64, 2
LIKES = "likes"


class Graphs:
    """Computation graphs of links, one after the other."""

    def __init__(self, world: Released, pairs: list[tuple[int, int]]) -> None:
        self.pairs, nodes, ends = pairs, [], []
        self.kept: list[dict[Relation, np.ndarray]] = []
        parts: dict[Relation, list[np.ndarray]] = {r: [] for r in world.edges}
        self.num_nodes = 0
        for number, (user, item) in enumerate(pairs):
            s, t = world.first["user"] + user, world.first["item"] + item
            seen = np.zeros(world.num_nodes, dtype=bool)
            seen[[s, t]] = True
            for _ in range(HOPS):
                wider = seen.copy()
                for src, dst in world.edges.values():
                    wider[src[seen[dst]]] = True
                seen = wider
            mine = np.flatnonzero(seen)
            place = np.cumsum(seen) - 1 + self.num_nodes
            self.kept.append({})
            for relation, (src, dst) in world.edges.items():
                keep = np.flatnonzero(seen[src] & seen[dst])
                self.kept[-1][relation] = keep
                row = np.full(len(keep), number)
                parts[relation].append(np.stack([place[src[keep]], place[dst[keep]], row]))
            nodes.append(mine)
            ends.append((place[s], place[t]))
            self.num_nodes += len(mine)
        self.x = world.embeddings[torch.from_numpy(np.concatenate(nodes))]
        self.kinds = [world.kind[mine] for mine in nodes]
        self.ends = torch.tensor(ends).T
        joined = {r: torch.from_numpy(np.concatenate(part, 1)) for r, part in parts.items()}
        self.edges = {r: (each[0], each[1]) for r, each in joined.items()}
        self.link = {r: each[2] for r, each in joined.items()}
        self.count = torch.bincount(torch.cat(list(self.link.values())), minlength=len(pairs))

    def split(self, masks: Masks) -> list[Masks]:
        """Masks by link."""
        sizes = [[len(kept[r]) for kept in self.kept] for r in masks]
        parts = [each.split(size) for each, size in zip(masks.values(), sizes, strict=True)]
        return [dict(zip(masks, of_link, strict=True)) for of_link in zip(*parts, strict=True)]


class Released:
    """The released data and model, and the two explainers."""

    def __init__(self, folder: Path) -> None:
        def read(name: str) -> dict[str, np.ndarray]:
            return dict(np.load(folder / f"synthetic_{name}.npz"))

        graph, split = read("graph"), read("split")
        self.labels = json.loads((folder / "synthetic_path_labels.json").read_text("utf-8"))
        self.weights = {name: torch.from_numpy(w).float() for name, w in read("model").items()}
        self.kinds: list[str] = graph["ntypes"].tolist()
        self.sizes = [int(graph[f"num_nodes__{kind}"]) for kind in self.kinds]
        self.num_nodes = sum(self.sizes)
        starts = np.cumsum([0, *self.sizes[:-1]]).tolist()
        self.first = dict(zip(self.kinds, starts, strict=True))
        self.kind = np.repeat(np.arange(len(self.kinds)), self.sizes)
        self.relations: list[Relation] = [tuple(r) for r in graph["canonical_etypes"].tolist()]
        self.edges = {
            r: (
                self.first[r[0]] + graph["__".join(r) + "__src"],
                self.first[r[2]] + graph["__".join(r) + "__dst"],
            )
            for r in self.relations
            if r[1] != LIKES
        }
        self.embeddings = torch.cat(
            [self.weights[f"encoder.emb.embeds.{kind}.weight"] for kind in self.kinds]
        )
        self.scores = split["full_score_matrix_user_item"]
        train, test = (
            list(zip(split[f"{p}_pos_user"].tolist(), split[f"{p}_pos_item"].tolist(), strict=True))
            for p in ("train", "test")
        )
        self.train = train
        self.test = Graphs(self, [pair for pair in test if self.scores[pair] > 0])
        self.num_held_out = len(test) + len(split["val_pos_user"])

    def seed(self, number: int) -> None:
        """Draw what the released code draws before it comes to an explainer."""
        torch.manual_seed(number)
        np.random.seed(number)
        torch.randperm(self.num_held_out)
        for size in self.sizes:
            nn.Embedding(size, DIM)
        for _ in range(2 * (1 + len(self.relations))):
            nn.Linear(DIM, DIM)

    def encode(self, graphs: Graphs, masks: Masks | None = None) -> Tensor:
        """The representations of all nodes."""
        h = graphs.x
        for depth in (1, 2):
            own = f"encoder.layer{depth}"
            h = F.leaky_relu(h) if depth > 1 else h
            out = F.linear(h, self.weights[f"{own}.weight0.weight"], self._bias(own, "weight0"))
            for relation, (src, dst) in graphs.edges.items():
                name = f"weight.{relation[1]}"
                sent = F.linear(h, self.weights[f"{own}.{name}.weight"], self._bias(own, name))[src]
                if masks is not None:
                    sent = sent * masks[relation][:, None]
                count = torch.bincount(dst, minlength=graphs.num_nodes).clamp(min=1)
                total = torch.zeros_like(out).index_add(0, dst, sent)
                out = out + total / count[:, None]
            h = out
        return h

    def _bias(self, layer: str, name: str) -> Tensor:
        return self.weights[f"{layer}.{name}.bias"]

    def loss(self, graphs: Graphs, logits: Masks, size: float, entropy: float) -> Tensor:
        """Per link, what the released code adds up."""
        masks = {r: each.sigmoid() for r, each in logits.items()}
        h = self.encode(graphs, masks)
        predicted = torch.tensor([self.scores[pair] > 0 for pair in graphs.pairs])
        loss = (h[graphs.ends[0]] * h[graphs.ends[1]]).sum(1).sigmoid().log()
        loss = torch.where(predicted, -loss, loss)
        for r, mask in masks.items():
            spread = -mask * (mask + 1e-15).log() - (1 - mask) * (1 - mask + 1e-15).log()
            link = graphs.link[r]
            loss = loss.index_add(0, link, size * mask)
            loss = loss.index_add(0, link, entropy * spread / graphs.count[link])
        return loss

    def gnnexp(self) -> list[Masks]:
        """The mask logits of GNNExp-Link, by test link."""
        self.seed(0)
        drawn: dict[Relation, list[Tensor]] = {r: [] for r in self.edges}
        for kinds, kept in zip(self.test.kinds, self.test.kept, strict=True):
            count = np.bincount(kinds, minlength=len(self.kinds))
            for r in self.edges:
                nodes = sum(int(count[self.kinds.index(kind)]) for kind in {r[0], r[2]})
                drawn[r].append(torch.randn(len(kept[r])) * (2 / math.sqrt(2 * nodes)))
        logits = {r: torch.cat(each).requires_grad_() for r, each in drawn.items()}
        adam = torch.optim.Adam(logits.values(), lr=0.001)
        for _ in range(100):
            adam.zero_grad()
            self.loss(self.test, logits, 1e-5, 0.1).sum().backward()
            adam.step()
        return self.test.split({r: each.detach() for r, each in logits.items()})

    def pgexp(self, seed: int = 0, epochs: int = 100, links: int = 256) -> list[Masks]:
        """The mask logits of PGExp-Link, by test link."""
        self.seed(seed)
        networks = {r: (nn.Linear(4 * DIM, DIM), nn.Linear(DIM, 1)) for r in self.relations}
        weights = [w for both in networks.values() for layer in both for w in layer.parameters()]
        adam = torch.optim.Adam(weights, lr=0.005)

        def answer(graphs: Graphs, draw: Callable[[Relation, Tensor], Tensor]) -> Masks:
            with torch.no_grad():
                h = self.encode(graphs)
            found = {}
            for r, (src, dst) in graphs.edges.items():
                first, last = networks[r]
                tail, head, source, target = first.weight.split(DIM, 1)
                ends = h[graphs.ends[0]] @ source.T + h[graphs.ends[1]] @ target.T + first.bias
                hidden = (h @ tail.T)[src] + (h @ head.T)[dst] + ends[graphs.link[r]]
                found[r] = draw(r, last(hidden.relu())[:, 0])
            return found

        for epoch in range(1, epochs + 1):
            temperature = 5.0 * 0.2 ** (epoch / epochs)
            chosen = np.random.choice(len(self.train), links, replace=False).tolist()
            adam.zero_grad()
            for first in range(0, links, 64):
                graphs = Graphs(self, [self.train[i] for i in chosen[first : first + 64]])
                noise: dict[Relation, list[Tensor]] = {r: [] for r in self.edges}
                for kept in graphs.kept:
                    for r in self.edges:
                        noise[r].append(torch.rand(len(kept[r])))
                chance = {r: torch.cat(each).logit() for r, each in noise.items()}
                logits = answer(
                    graphs,
                    lambda r, values, c=chance: (c[r] + values) / temperature,  # type: ignore[misc]  # noqa: B023
                )
                self.loss(graphs, logits, 1e-5, 1.0).sum().backward()
            adam.step()
        with torch.no_grad():
            return self.test.split(answer(self.test, lambda r, values: values))

    def auc(self, masks: list[Masks], every: bool = False) -> float:
        """The mean ROC-AUC as released: among edges of relations that labelled paths have.

        Args:
            masks: mask logits by test link.
            every: among all edges instead.
        """
        found = []
        for pair, kept, logits in zip(self.test.pairs, self.test.kept, masks, strict=True):
            paths = self.labels["user:{}|item:{}".format(*pair)]
            on = {(*edge[:3], edge[3], edge[4]) for path in paths for edge in path}
            scores, labels = [], []
            for r, own in kept.items():
                ends = zip(*(each[own].tolist() for each in self.edges[r]), strict=True)
                first = self.first[r[0]], self.first[r[2]]
                here = [(*r, src - first[0], dst - first[1]) in on for src, dst in ends]
                if every or any(here):
                    scores += logits[r].sigmoid().tolist()
                    labels += here
            found.append(mask_auc(scores, labels))
        return float(np.mean(found))
