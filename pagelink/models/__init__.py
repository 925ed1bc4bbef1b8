"""Link predictors to explain: ordinary PyG modules, their heads and their training."""

from pagelink.models.heads import HEADS, make_head
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import LinkSplit, sample_negatives, split_links
from pagelink.models.rgcn import RGCN
from pagelink.models.training import TrainResult, train

__all__ = [
    "HEADS",
    "RGCN",
    "LinkModel",
    "LinkSplit",
    "TrainResult",
    "make_head",
    "node_inputs",
    "sample_negatives",
    "split_links",
    "train",
]
