"""Numpy only: pure functions from a Trace, and the weights of a layer, to numbers."""
