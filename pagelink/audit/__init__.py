"""From one link to the whole model: what it relies on, for whom, and what has changed."""
