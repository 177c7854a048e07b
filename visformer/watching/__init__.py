"""Watch any PyTorch model: find its attention by following the data flow."""
