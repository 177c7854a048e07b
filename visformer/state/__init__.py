"""What the window shows, as values: no Qt, no torch."""
