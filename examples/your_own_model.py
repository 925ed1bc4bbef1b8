"""Your own PyG model and data: a GraphSAGE by to_hetero, explained as it is.

Run it with `python examples/your_own_model.py`.
"""

import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import SAGEConv, to_hetero

from pagelink import PaGELink
from pagelink.datasets.useritemattr import generate_useritemattr


class Encoder(torch.nn.Module):
    """Two layers of GraphSAGE, as in PyG's tutorials."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = SAGEConv((-1, -1), hidden), SAGEConv((-1, -1), hidden)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Return the node embeddings."""
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class Recommender(torch.nn.Module):
    """Embeddings by node id, the encoder, and an inner product."""

    def __init__(self, data: HeteroData, hidden: int = 32) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleDict(
            {t: torch.nn.Embedding(data[t].num_nodes, hidden) for t in data.node_types}
        )
        self.encoder = to_hetero(Encoder(hidden), data.metadata())

    def forward(self, node_ids, edge_index_dict, edge_label_index):
        """Return one score per link."""
        x_dict = {t: self.tables[t](ids) for t, ids in node_ids.items()}
        z = self.encoder(x_dict, edge_index_dict)
        return (z["user"][edge_label_index[0]] * z["item"][edge_label_index[1]]).sum(-1)


torch.manual_seed(0)
dataset = generate_useritemattr()
data, likes = dataset.data, dataset.likes
model = Recommender(data)
node_ids = {t: torch.arange(data[t].num_nodes) for t in data.node_types}
model(node_ids, data.edge_index_dict, likes)  # sets the lazy sizes of SAGEConv
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(60):
    negatives = torch.stack([likes[0], torch.randint(data["item"].num_nodes, likes[1].shape)])
    logits = model(node_ids, data.edge_index_dict, torch.cat([likes, negatives], dim=1))
    target = torch.cat([torch.ones(likes.shape[1]), torch.zeros(likes.shape[1])])
    optimizer.zero_grad()
    torch.nn.functional.binary_cross_entropy_with_logits(logits, target).backward()
    optimizer.step()

# From here on it is about explaining.
explainer = PaGELink(model, data, link_type=("user", "likes", "item"))
for explanation in explainer.explain_many(likes[:, :3].t().tolist()):
    print(explanation, end="\n\n")
