"""Pictures of the attention weights."""
