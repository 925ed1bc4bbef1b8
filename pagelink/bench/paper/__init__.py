"""The paper's benchmark, with all explainers, by labels and by the model."""
