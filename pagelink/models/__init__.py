"""Link predictors to explain: ordinary PyG modules, their heads and their training."""

from pagelink.models.figures import Separation, TestFigures, link_metrics
from pagelink.models.heads import HEADS, make_head
from pagelink.models.hgt import HGT
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import LinkSplit, split_graph, split_links
from pagelink.models.messages import message_graph
from pagelink.models.negatives import Negatives, sample_negatives
from pagelink.models.registry import MODELS, make_model
from pagelink.models.report import Epoch, TrainReport
from pagelink.models.rgcn import RGCN
from pagelink.models.sage import SAGE
from pagelink.models.train_settings import TrainSettings
from pagelink.models.training import train

__all__ = [
    "HEADS",
    "HGT",
    "MODELS",
    "RGCN",
    "SAGE",
    "Epoch",
    "LinkModel",
    "LinkSplit",
    "Negatives",
    "Separation",
    "TestFigures",
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
