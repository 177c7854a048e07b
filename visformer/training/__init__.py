"""Training of small models: data, loop, toy tasks."""
