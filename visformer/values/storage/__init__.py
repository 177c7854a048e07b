"""How Traces are stored in files (``*.vis``): resources/vis-format.md describes it."""
