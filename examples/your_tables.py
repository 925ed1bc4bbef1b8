"""Your tables and our model: from CSV files to named explanations.

Run it with `python examples/your_tables.py`. The folder of tables is made up here; yours has the
same two kinds of files.
"""

import tempfile
from pathlib import Path

import numpy as np

from pagelink import PaGELink, load_graph
from pagelink.models.architectures import make_model
from pagelink.models.checkpoint import load_checkpoint, save_checkpoint
from pagelink.models.commands import recommend
from pagelink.models.links import split_graph
from pagelink.models.training import TrainSettings, train

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
taste = rng.integers(0, 4, 60)  # each reader likes one genre
genre = rng.integers(0, 4, 80)
(folder / "nodes-reader.csv").write_text(
    "id,name\n" + "".join(f"r{i},Reader {i}\n" for i in range(60))
)
(folder / "nodes-book.csv").write_text("id,name\n" + "".join(f"b{i},Book {i}\n" for i in range(80)))
(folder / "nodes-genre.csv").write_text("id,name\n0,Poetry\n1,Crime\n2,Travel\n3,History\n")
(folder / "edges-book__is_of__genre.csv").write_text(
    "src,dst,source\n" + "".join(f"b{i},{genre[i]},catalogue\n" for i in range(80))
)
likes = [
    (r, b) for r in range(60) for b in range(80) if genre[b] == taste[r] and rng.random() < 0.6
]
(folder / "edges-reader__likes__book.csv").write_text(
    "src,dst,date\n" + "".join(f"r{r},b{b},202{b % 5}-01-01\n" for r, b in likes)
)

data = load_graph(folder)  # adds the reverse relations that message passing needs
link_type = ("reader", "likes", "book")
split = split_graph(data, link_type)
settings = TrainSettings(epochs=30)
model = make_model("rgcn", data, link_type)
report = train(model, data, link_type, split, settings)
print(report, end="\n\n")
save_checkpoint(folder / "model.pt", model, data, link_type, split, report, settings)

checkpoint = load_checkpoint(folder / "model.pt", data)
best = recommend(checkpoint, "Reader 3", k=3)
print("For Reader 3:", ", ".join(f"{r.name} ({r.probability:.2f})" for r in best), end="\n\n")
explainer = PaGELink(checkpoint.model, checkpoint.data, checkpoint.link_type)
print(explainer.explain("Reader 3", best[0].name))
