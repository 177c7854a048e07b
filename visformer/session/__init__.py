"""State, and what changes it (neither Qt nor torch)."""
