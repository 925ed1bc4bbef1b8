"""PaGE-Link as an algorithm of torch_geometric.explain.

Run it with `python examples/pyg_drop_in.py`.
"""

import torch
from torch_geometric.explain import Explainer

from pagelink import PaGELinkExplainer
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.models import RGCN, TrainSettings, split_links, train

dataset = generate_useritemattr()
data = dataset.data
model = RGCN.for_data(data, dataset.link_type, paper_split=True)
split = split_links(dataset.likes)
train(model, data, dataset.link_type, split, TrainSettings.paper())

# The ten lines:
explainer = Explainer(
    model,
    algorithm=PaGELinkExplainer(link_type=("user", "likes", "item")),
    explanation_type="model",
    edge_mask_type="object",
    model_config={"mode": "binary_classification", "task_level": "edge", "return_type": "raw"},
)
x_dict = {t: torch.arange(data[t].num_nodes) for t in data.node_types}
result = explainer(x_dict, data.edge_index_dict, index=0, edge_label_index=split.test)
print(result)
for path in result.paths[0]:
    print(" - ".join(path.names))
