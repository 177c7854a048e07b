"""What may be wrong with a model, as one table of checks."""
