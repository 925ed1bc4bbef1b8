"""Layers that are done as a whole, in place of their own loop over relations.

`whole_layers` finds them in a model, and `replace_forward` lets them be done in another way for a
pass: as one sum over all edges, whose weights the pass gives. Whatever is not known stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import FastRGCNConv, RGCNConv

from pagelink.errors import PageLinkError
from pagelink.layers.fused import ends_of, fits, has_hooks, is_untouched
from pagelink.layers.relations import RelationEdges, relation_sum
from pagelink.runtime.undo import Undo

Forward = Callable[..., Any]
MOST_NUMBERS = 2**25
"""Numbers in the matrices of all relations that are made of what a layer has."""


class NotWholeError(PageLinkError):
    """A layer was given something that it is only done for by its own code."""


class Flow(Protocol):
    """Follows what tensors rest on, see `pagelink.model.data_flow`."""

    def passed(self, inputs: Sequence[Tensor], out: Tensor) -> None:
        """Note that messages were made of some tensors, and what they were collected in."""


Begin = Callable[[Sequence[Tensor]], tuple[Sequence[Tensor], Tensor | None, Hashable]]
"""From the edges of a call to plain tensors of them, their weights (None: 1), and what the call is
known by in later passes (None: by these tensors)."""


def _unweighted(indices: Sequence[Tensor]) -> tuple[Sequence[Tensor], None, None]:
    return indices, None, None


class Pass:
    """What layers that are done as a whole need of the passes on one graph.

    Args:
        begin: called at each call of a layer.
        flow: follows the pass, if something does.
    """

    def __init__(self, begin: Begin = _unweighted, flow: Flow | None = None) -> None:
        self._begin, self._flow = begin, flow
        # The tensors are kept, so that no other one has their id.
        self._known: dict[Hashable, tuple[Sequence[Tensor], RelationEdges]] = {}

    def sum_by_relation(
        self,
        x: Tensor,
        indices: Sequence[Tensor],
        maps: Tensor,
        num_dst: int,
        *,
        mean: bool,
        relation: Tensor | Sequence[int],
        ends: tuple[int, int] = (0, 1),
        mean_of_all: bool = False,
    ) -> Tensor:
        """Sum over in-neighbours, with a map per relation; see `relation_sum`.

        Args:
            x: vectors of the sources.
            indices: the edges, in several parts.
            maps: per relation.
            num_dst: number of targets.
            mean: average what comes in by one relation.
            relation: of each edge, if there is one part, else of each part.
            ends: the rows of the indices that have the sources and the targets.
            mean_of_all: average what comes in by all relations.
        """
        if not fits(x) or not all(isinstance(index, Tensor) for index in indices):
            raise NotWholeError("vectors that are not float32 on the CPU, or edges of no tensor")
        plain, weights, key = self._begin(indices)
        if isinstance(relation, Tensor):
            plain = [*plain, relation if type(relation) is Tensor else relation.as_subclass(Tensor)]
        if key is None and not any(each.is_inference() for each in plain):
            key = (*((id(each), each._version) for each in plain), x.shape[0], num_dst, ends)
        with torch._C.DisableTorchFunction():  # not a read of the model's
            if key is None or key not in self._known:
                made = _arranged(plain, relation, x.shape[0], num_dst, maps.shape[0], ends)
                self._known[key] = plain, made
            edges = self._known[key][1]
            if self._flow is not None:
                out = relation_sum(x, weights, edges, maps, mean, mean_of_all)
                self._flow.passed([x, *plain], out)
                return out
        return relation_sum(x, weights, edges, maps, mean, mean_of_all)


def _arranged(
    plain: Sequence[Tensor],
    relation: Tensor | Sequence[int],
    num_src: int,
    num_dst: int,
    num_relations: int,
    ends: tuple[int, int],
) -> RelationEdges:
    if isinstance(relation, Tensor):
        both, kinds = plain[0].numpy(), plain[1].numpy()
    else:
        both = torch.cat([*plain], dim=1).numpy()
        kinds = np.repeat(np.asarray(relation), [each.shape[1] for each in plain])
    src, dst, kind = (
        np.ascontiguousarray(a, dtype=np.int64) for a in (both[ends[0]], both[ends[1]], kinds)
    )
    try:
        return RelationEdges.of(src, dst, kind, num_src, num_dst, num_relations)
    except IndexError as error:
        raise NotWholeError("nodes or relations that are not there") from error


def stand_in(module: nn.Module, on: Pass) -> Forward | None:
    """Return what a layer's `forward` is replaced by in a pass; None: by nothing.

    A layer of pagelink's own says so by a method `as_a_whole`.
    """
    if "forward" in vars(module):
        return None
    if _knows_itself(module):
        found: Forward | None = cast(Any, module).as_a_whole(on)
        return found
    if type(module) in (RGCNConv, FastRGCNConv):
        return _rgcn(module, on)
    return None


def _knows_itself(module: nn.Module) -> bool:
    return hasattr(type(module), "as_a_whole")


def whole_layers(model: nn.Module) -> list[nn.Module]:
    """The layers of a model that are done as a whole; none that has hooks inside."""
    found = []
    for module in model.modules():
        forward = stand_in(module, Pass())
        inner = (each for each in module.modules() if each is not module)
        if forward is None or any(map(has_hooks, inner)):
            continue
        if _knows_itself(module) or _agree(module, forward):
            found.append(module)
    return found


def _agree(module: Any, forward: Forward) -> bool:
    """Whether an RGCNConv of the installed version is what is taken for it."""
    generator = torch.Generator().manual_seed(0)
    with Undo() as undo:
        undo.keep(vars(module))  # a pass leaves traces
        undo.later(torch._C._set_grad_enabled, torch.is_grad_enabled())
        torch.set_grad_enabled(False)
        try:
            x = torch.randn(4, module.in_channels_l, generator=generator)
            edge_index = torch.randint(4, (2, 24), generator=generator)
            kinds = torch.randint(min(3, module.num_relations), (24,), generator=generator)
            given = (x, x if module.root is None else x.new_ones(4, module.root.shape[0]))
            ours, its = forward(given, edge_index, kinds), module(given, edge_index, kinds)
        except Exception:  # whatever it is, the layer's own code is run then
            return False
    return ours.dtype == its.dtype and torch.allclose(ours, its, rtol=1e-4, atol=1e-5)


def replace_forward(layers: Collection[nn.Module], on: Pass, undo: Undo) -> None:
    """Let layers be done as a whole until the context is left."""
    for module in layers:
        forward = stand_in(module, on)
        if forward is None:
            raise NotWholeError("a layer that was changed")
        undo.later(vars(module).pop, "forward", None)
        vars(module)["forward"] = forward


def modules_outside(
    model: nn.Module, whole: Collection[nn.Module], prefix: str = ""
) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a model with their names, but for those inside of layers done as a whole."""
    seen: set[nn.Module] = set()
    waiting = [(prefix, model)]
    inside = set(whole)
    while waiting:
        name, module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        yield name, module
        if module not in inside:
            below = [(f"{name}.{key}" if name else key, m) for key, m in module._modules.items()]
            waiting += [(key, m) for key, m in reversed(below) if m is not None]


def _rgcn(module: Any, on: Pass) -> Forward | None:
    """PyG's RGCNConv, which goes through all relations, be there edges or not."""
    if module.aggr not in ("mean", "add", "sum") or not is_untouched(module):
        return None
    sizes = module.num_relations, module.in_channels_l, module.out_channels
    if module.num_blocks is not None and sizes[0] * sizes[1] * sizes[2] > MOST_NUMBERS:
        return None
    maps: list[Tensor] = []

    def forward(x: Any, edge_index: Any, edge_type: Any = None) -> Any:
        src, dst = x if isinstance(x, tuple) else (x, x)
        if not maps:
            maps.append(_maps(module))
        if not isinstance(src, Tensor) or not isinstance(edge_type, Tensor) or not fits(dst):
            raise NotWholeError("ids of nodes, or edges without a relation")
        out = on.sum_by_relation(
            src, [edge_index], maps[0], dst.shape[0], mean=module.aggr == "mean",
            relation=edge_type, ends=ends_of(module),
        )  # fmt: skip
        if module.root is not None:
            out = out + dst @ module.root
        return out if module.bias is None else out + module.bias

    return forward


def _maps(module: Any) -> Tensor:
    """The matrices of all relations of an RGCNConv."""
    weight: Tensor = module.weight.detach()
    if module.num_bases is not None:
        mixed = module.comp.detach() @ weight.view(module.num_bases, -1)
        made: Tensor = mixed.view(module.num_relations, *weight.shape[1:])
        return made
    if module.num_blocks is None:
        return weight.contiguous()
    _, count, rows, columns = weight.shape
    maps = weight.new_zeros(module.num_relations, count, rows, count, columns)
    place = torch.arange(count)
    maps[:, place, :, place] = weight.transpose(0, 1)
    return maps.view(module.num_relations, count * rows, count * columns)
