"""Pure functions from a Trace and a layer's weights to numbers (numpy only)."""
