"""The Masks tab."""
