"""Numpy only: pure functions from a Trace, and a layer's weights, to numbers."""
