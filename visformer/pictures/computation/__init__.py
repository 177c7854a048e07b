"""Pictures of one layer's arithmetic, stage by stage."""
