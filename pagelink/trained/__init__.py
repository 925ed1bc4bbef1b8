"""Models without messages: what the facts that they were trained on put into their embeddings."""
