"""Sessions: open a model once, generate many times."""
