"""A user without a plan: real input events, seeded, and what must hold meanwhile."""
