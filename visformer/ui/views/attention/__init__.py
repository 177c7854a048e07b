"""The Attention tab."""
