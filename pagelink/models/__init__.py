"""Link predictors to explain: ordinary PyG modules, their heads and their training."""

from pagelink.models.architectures import HGT, MODELS, RGCN, SAGE, make_model
from pagelink.models.figures import Separation, TestFigures, link_metrics
from pagelink.models.link_model import HEADS, LinkModel, TowerModel, make_head, node_inputs
from pagelink.models.links import LinkSplit, Negatives, sample_negatives, split_graph, split_links
from pagelink.models.messages import message_graph
from pagelink.models.nbf import NBF
from pagelink.models.training import Epoch, TrainReport, TrainSettings, train

__all__ = [
    "HEADS",
    "HGT",
    "MODELS",
    "NBF",
    "RGCN",
    "SAGE",
    "Epoch",
    "LinkModel",
    "LinkSplit",
    "Negatives",
    "Separation",
    "TestFigures",
    "TowerModel",
    "TrainReport",
    "TrainSettings",
    "link_metrics",
    "make_head",
    "make_model",
    "message_graph",
    "node_inputs",
    "sample_negatives",
    "split_graph",
    "split_links",
    "train",
]
