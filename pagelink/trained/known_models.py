"""The models of libraries as `EmbeddingModel`: PyKEEN, PyG's KGE models, matrix factorisation.

What is read off a model is proved on random links: its own scores have to come out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import kge

from pagelink.errors import ModelError
from pagelink.model.borrowing import Borrowed
from pagelink.runtime.undo import Undo
from pagelink.trained.embeddings import EmbeddingModel, Kind, Loss, factorisation

TRIED = 64
"""Random links on which the scores are compared."""
CLOSE = 1e-3
"""How far the scores may be apart, as a share of the largest."""
SUPPORTED = (
    "Supported are ComplEx, DistMult, RotatE and TransE of PyKEEN and of torch_geometric.nn.kge, "
    "modules called as model(user, item) whose score is the product of two embeddings, plus "
    "biases, and any model given as a pagelink.trained.embeddings.EmbeddingModel."
)
_KINDS: dict[str, Kind] = {
    "ComplEx": "complex", "DistMult": "product", "RotatE": "rotation", "TransE": "translation",
}  # fmt: skip


def embedding_model(model: Any) -> EmbeddingModel:
    """Return a trained model by its embeddings; the model stays as it is.

    Args:
        model: a model of PyKEEN, of `torch_geometric.nn.kge`, a matrix factorisation, or an
            `EmbeddingModel`, which is returned as it is.

    Raises:
        ModelError: it is none of these, or its scores are not made as such models make them.

    Example:
        >>> known = embedding_model(kge.DistMult(4, 2, 8))
        >>> known.kind, list(known.nodes.shape)
        ('product', [4, 8])
    """
    if isinstance(model, EmbeddingModel):
        return model
    if not isinstance(model, nn.Module):
        raise ModelError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    with torch.no_grad():
        if isinstance(model, kge.KGEModel):
            made, call = _of_pyg(model), _three(model)
        elif _is_pykeen(model):
            made, call = _of_pykeen(model), _rows(model)
        else:
            made, call = _of_factors(model)
    _prove(model, made, call)
    return made


def _three(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda links: model(*links.T)


def _rows(model: Any) -> Callable[[Tensor], Tensor]:
    return lambda links: model.score_hrt(links)[:, 0]


def _refused(model: nn.Module, why: str) -> ModelError:
    return ModelError(f"{type(model).__name__} cannot be explained by mimics: {why}. {SUPPORTED}")


def _prove(model: nn.Module, made: EmbeddingModel, call: Callable[[Tensor], Tensor]) -> None:
    """Compare with the model's own scores, which is run as it would be when deployed.

    Raises:
        ModelError: they differ.
    """
    random = torch.Generator().manual_seed(0)
    first, last, relation = 0, len(made.nodes), len(made.relations)
    heads = torch.randint(first, last, (TRIED,), generator=random)
    tails = torch.randint(first, last, (TRIED,), generator=random)
    relations = torch.randint(0, relation, (TRIED,), generator=random)
    if made.num_users is not None:
        heads, tails = heads % made.num_users, made.num_users + tails % (last - made.num_users)

    def prepare(undo: Undo) -> None:
        torch.set_grad_enabled(False)

    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    try:
        with Borrowed(model, prepare):
            theirs = call(torch.stack([heads, relations, tails], 1).to(device)).cpu().float()
    except Exception as error:
        raise _refused(model, f"scoring links failed ({type(error).__name__}: {error})") from error
    ours = made.scores(heads, relations, tails)
    if theirs.shape != ours.shape or not bool(torch.isfinite(theirs).all()):
        raise _refused(model, f"its scores are not one finite number per link: {theirs.shape}")
    apart = float((ours - theirs).abs().max())
    if apart > CLOSE * max(1.0, float(theirs.abs().max())):
        raise _refused(
            model, f"read off its embeddings, scores of links differ from its own by {apart:.3g}"
        )


def _table(table: Tensor) -> Tensor:
    """Vectors as real numbers: of complex ones all real parts, then all imaginary parts."""
    table = table.detach().cpu()
    if table.is_complex():
        table = torch.cat([table.real, table.imag], -1)
    return table.reshape(len(table), -1).float().clone()


def _of_pyg(model: Any) -> EmbeddingModel:
    kind = _KINDS.get(type(model).__name__)
    if kind is None:
        raise _refused(model, "its score is not known")
    nodes, relations = _table(model.node_emb.weight), _table(model.rel_emb.weight)
    if kind == "translation":
        unit, loss = float(model.p_norm), Loss("margin", float(model.margin))
        nodes = torch.nn.functional.normalize(nodes, p=unit, dim=-1)
        return EmbeddingModel(kind, nodes, relations, loss, norm=unit, unit_norm=unit)
    if kind == "product":
        return EmbeddingModel(kind, nodes, relations, Loss("margin", float(model.margin)))
    nodes = torch.cat([nodes, _table(model.node_emb_im.weight)], 1)
    if kind == "complex":
        relations = torch.cat([relations, _table(model.rel_emb_im.weight)], 1)
        return EmbeddingModel(kind, nodes, relations)
    turned = torch.cat([relations.cos(), relations.sin()], 1)
    return EmbeddingModel(kind, nodes, turned, offset=float(model.margin))


def _is_pykeen(model: nn.Module) -> bool:
    # A model of PyKEEN cannot be there unless it was imported, which takes seconds.
    models = sys.modules.get("pykeen.models")
    return models is not None and isinstance(model, models.ERModel)


def _of_pykeen(model: Any) -> EmbeddingModel:
    kind = _KINDS.get(type(model.interaction).__name__.removesuffix("Interaction"))
    if kind is None:
        raise _refused(model, f"the interaction {type(model.interaction).__name__} is not known")
    if len(model.entity_representations) != 1 or len(model.relation_representations) != 1:
        raise _refused(model, "it has several vectors per entity or relation")
    if getattr(model, "use_inverse_triples", False):
        raise _refused(
            model, "it was trained with inverse triples, so that heads and tails are looked for by "
            "relations of their own; train it with create_inverse_triples=False"
        )  # fmt: skip
    (entities,), (relations,) = model.entity_representations, model.relation_representations
    unit = None
    for how in (getattr(entities, "constrainer", None), getattr(entities, "normalizer", None)):
        if how is torch.nn.functional.normalize:
            unit = 2.0
        elif how is not None:
            raise _refused(model, f"its entities are constrained by {how}")
    norm = float(getattr(model.interaction, "p", 2.0))
    nodes, by = _table(entities(indices=None)), _table(relations(indices=None))
    return EmbeddingModel(kind, nodes, by, _loss_of(model.loss), norm=norm, unit_norm=unit)


def _loss_of(loss: Any) -> Loss:
    """The loss of a PyKEEN model: by its name, with its margin."""
    name = type(loss).__name__
    margin = float(getattr(loss, "margin", None) or 0.0)
    if "Margin" in name or "Pairwise" in name:
        return Loss("margin", margin)
    if "CrossEntropy" in name or "InfoNCE" in name:
        return Loss("softmax")
    return Loss("logistic", margin)  # BCE, softplus; with a margin, that of NSSA


def _of_factors(model: nn.Module) -> tuple[EmbeddingModel, Callable[[Tensor], Tensor]]:
    """A module with two tables of vectors, and tables or parameters of biases."""
    tables = [each.weight for each in model.modules() if isinstance(each, nn.Embedding)]
    known = {id(each) for each in tables}
    tables += [each for each in model.parameters() if id(each) not in known]
    factors = [each for each in tables if each.dim() == 2 and each.shape[1] > 1]
    if len(factors) != 2 or factors[0].shape[1] != factors[1].shape[1]:
        found = ", ".join(str(list(each.shape)) for each in factors) or "none"
        raise _refused(model, f"it has not two tables of vectors of one length, but {found}")
    users, items = factors
    scalars = [each for each in tables if each.numel() == 1]
    rest = [each for each in tables if each.numel() > 1 and all(each is not f for f in factors)]
    biases: dict[int, Tensor] = {}
    for each in rest:
        fits = [place for place in (0, 1) if each.numel() == len(factors[place])]
        # Two tables of one size: users come first.
        free = [place for place in fits if place not in biases]
        if not free:
            raise _refused(model, f"a parameter of shape {list(each.shape)} is no bias")
        biases[free[0]] = each
    constant = float(sum(float(each) for each in scalars))
    made = factorisation(users, items, biases.get(0), biases.get(1), constant)

    def call(links: Tensor) -> Tensor:
        scores: Tensor = model(links[:, 0], links[:, 2] - len(users))
        return scores.reshape(-1)

    return made, call
