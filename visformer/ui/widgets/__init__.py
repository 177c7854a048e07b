"""Widgets that know no State: they are handed what they draw."""
