"""The Positions tab."""
