"""Any model's logits on weighted and edited graphs; what it sees; left as it was."""
