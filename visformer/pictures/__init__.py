"""Pure functions from a Trace and a selection to pictures (neither Qt nor torch)."""
