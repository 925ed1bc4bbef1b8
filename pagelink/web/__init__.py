"""The explorer: a local web page that asks the model, and what serves all pages of pagelink."""
