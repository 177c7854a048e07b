"""Windows that are killed at random moments, and what comes back of their sessions."""
