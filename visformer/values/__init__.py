"""What both processes share: the Trace and its parts (numpy only)."""
