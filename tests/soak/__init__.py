"""Hours of use in minutes: ``python -m tests.soak --help``."""
