"""Watching a PyTorch model of anybody's: its attention, found by the flow of data."""
