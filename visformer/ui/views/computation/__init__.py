"""The Computation tab."""
