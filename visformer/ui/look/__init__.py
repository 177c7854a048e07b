"""Colours, icons, style sheet and motion."""
