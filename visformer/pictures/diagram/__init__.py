"""Pictures of the architecture."""
