"""What a node is distinguished from in training: rivals for its facts, and others' facts.

In a model's training a fact (v, r, u) pulls the vector of u to what v and r look for, the more the
less u stands out from other ends there. And every fact of others pushes u away from what that fact
looks for, the more u would pass for its end. Without this second part the vector of a mimic is free
to score high everywhere, and what mimics say has little to do with training again.

Both are one number between 0 and 1 per vector and query, the *gate*, sigmoid((score - centre) /
width): facts pull by 1 - gate, the facts of others push by gate. Its centre and width follow from
the loss, everything else frozen:

- `softmax`: the centre is the logarithm of the sum of the exponentials of the scores of all other
  ends, the width is 1.
- `logistic`: minus the margin, and 1.
- `margin`: a fact has to score higher than a random end in place of u, so the centre is the mean of
  their scores, plus the margin, and the width follows from their spread. In the place of the end
  of a fact of others, u may come as close as the margin to the score of that end.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pagelink.runtime.arrays import Bools, Longs
from pagelink.trained.embeddings import EmbeddingModel
from pagelink.trained.facts import NodeFacts
from pagelink.trained.pair_scores import pair_scores

MOST_ENDS = 16_384
"""Ends whose scores are summed at most; of more, this number at random stand for all."""
AT_ONCE = 4_000_000
"""Scores of ends that are in memory at once."""
NORMAL_WIDTH = 0.55
"""The logistic curve of this width, times the spread, is nearly that of a normal distribution."""
SHARP = 0.05
"""Width of a gate that opens at one score, by the spread of the scores."""
LEAST = 1e-3
"""Share of the sum over all ends that is left without one of them, at least."""


class Contrast:
    """The gates of facts, and the facts of others that push a node away.

    Args:
        model: the model.
        facts: what it was trained on.
        starts: random starts; each has its own draw of the facts of others, so that the standard
            error over starts has this choice in it.
        count: the number of edges that stand for the facts of others.
        seed: where random numbers come from.
    """

    def __init__(
        self, model: EmbeddingModel, facts: NodeFacts, starts: int, count: int, seed: int
    ) -> None:
        self._model, self._facts = model, facts
        graph, rng = facts.graph, np.random.default_rng((seed, 3))
        self._ends = self._some_ends(rng)
        total = len(graph.src)
        drawn = [rng.choice(total, min(count, total), replace=False) for _ in range(starts)]
        edges = np.concatenate(drawn)
        position = graph.relation[edges].astype(np.int64)
        given = torch.from_numpy(graph.src[edges].astype(np.int64))
        relation = torch.from_numpy(facts.model_relation[position])
        is_head = torch.from_numpy(facts.is_forward[position])
        query = model.query(model.nodes[given], relation, is_head)
        end = torch.from_numpy(graph.dst[edges].astype(np.int64))
        own = model.of_query(model.nodes[end], query)
        level, spread = self._of_rivals(query, end, without=False)
        self.query = query.view(starts, -1, query.shape[-1])
        """[starts, count, size]: what the facts of others look for."""
        self._end, self._of_end, self._level, self._spread = (
            each.view(starts, 1, -1) for each in (end, own, level, spread)
        )
        self._for_each = total / self.query.shape[1]

    def of_facts(
        self, given: Longs, relation: Longs, is_head: Bools, end: Longs
    ) -> tuple[Tensor, Tensor]:
        """Return centre and width of the gates of facts, for the vector of one end.

        Args:
            given: the other end of each fact.
            relation: its relation.
            is_head: whether the other end is the head.
            end: whose vector it is.
        """
        loss = self._model.loss
        one = torch.ones(len(given))
        if loss.kind == "logistic":
            return -loss.margin * one, one
        other, by, head, mine = map(torch.from_numpy, (given, relation, is_head, end))
        query = self._model.query(self._model.nodes[other], by, head)
        level, spread = self._of_rivals(query, mine)
        if loss.kind == "softmax":
            return level, one
        return level + loss.margin, NORMAL_WIDTH * spread

    def of_others(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """Return centre and width of the gates of the facts of others, [starts, n, count].

        Args:
            node: the nodes, [n].
        """
        loss, one = self._model.loss, torch.ones(1, 1, 1)
        if loss.kind == "logistic":
            return -loss.margin * one, one
        if loss.kind == "margin":
            return self._of_end - loss.margin, SHARP * self._spread
        vectors = self._model.nodes[node].expand(len(self.query), -1, -1)
        rest = 1 - (pair_scores(self._model, vectors, self.query) - self._level).exp()
        return self._level + rest.clamp(min=LEAST).log(), one

    def weight_of_others(self, node: Tensor, num_facts: Tensor) -> Tensor:
        """Return how much the facts of others count for each node, [starts, n, count].

        Of a softmax, each tells the node from its end. With the others, there is one random link
        per fact: the node is in as many of them as it has facts. A node without any fact is not
        in the training: it stays as it started. (Pushed away from everything, two such nodes end
        on the same side, and score high together.)

        Args:
            node: the nodes, [n].
            num_facts: the number of facts that each is trained on, [n].
        """
        users, mine = self._model.num_users, node[:, None]
        is_other = (self._end != mine) & (num_facts[:, None] > 0)
        if users is not None:
            is_other &= (self._end < users) == (mine < users)
        if self._model.loss.kind == "softmax":
            return is_other * self._for_each
        return is_other * (num_facts[:, None] / is_other.sum(-1, keepdim=True).clamp(min=1))

    def _some_ends(self, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """The nodes that stand for all ends: of users and of items, or of all."""
        count, users = len(self._model.nodes), self._model.num_users
        kinds = [(0, count)] if users is None else [(0, users), (users, count)]
        return tuple(
            torch.from_numpy(
                first + np.sort(rng.permutation(last - first)[:MOST_ENDS]).astype(np.int64)
            )
            for first, last in kinds
        )

    def _of_rivals(
        self, query: Tensor, end: Tensor, *, without: bool = True
    ) -> tuple[Tensor, Tensor]:
        """The level of the scores of other ends, by the loss, and their spread.

        Args:
            query: what facts look for.
            end: the true end of each.
            without: leave it out.
        """
        model = self._model
        level, spread = torch.zeros(len(query)), torch.ones(len(query))
        if model.loss.kind == "logistic":
            return level, spread
        users = model.num_users
        kind = torch.zeros_like(end) if users is None else (end >= users).long()
        for number, ends in enumerate(self._ends):
            vectors = model.nodes[ends]
            here = torch.nonzero(kind == number)[:, 0]
            for part in here.split(max(AT_ONCE // max(len(ends), 1), 1)):
                scores = pair_scores(model, query[part][None], vectors[None])[0]
                if model.loss.kind == "softmax":
                    if without:
                        scores[end[part, None] == ends] = -torch.inf
                    share = np.log(self._size(number) / len(ends))
                    level[part] = scores.logsumexp(-1) + float(share)
                else:
                    spread[part], level[part] = torch.std_mean(scores, -1, correction=0)
        return level, spread.clamp(min=1e-6)

    def _size(self, kind: int) -> int:
        count, users = len(self._model.nodes), self._model.num_users
        if users is None:
            return count
        return count - users if kind else users
