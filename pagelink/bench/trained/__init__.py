"""How explanations of models without messages fare against really training again."""
