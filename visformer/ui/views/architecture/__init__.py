"""The Architecture tab."""
