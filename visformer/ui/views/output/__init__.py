"""The Output tab."""
