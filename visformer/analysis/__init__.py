"""Pure functions from weights and tokens to numbers (numpy only)."""
