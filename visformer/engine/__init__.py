"""The model's own process, the window's handle to it, and what they say."""
