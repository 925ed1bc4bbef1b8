"""The blind human study: questions made from a model's own predictions, asked, saved, analysed."""
