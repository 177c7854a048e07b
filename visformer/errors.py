"""The errors that reach a user, each as one plain sentence that says what to do."""

from __future__ import annotations


class VisformerError(Exception):
    """Base of every error whose text is meant to be read by the user."""


class CheckpointError(VisformerError):
    """A checkpoint cannot be opened: what is wrong with it, or missing from it."""


class InputError(VisformerError):
    """Something the user typed, chose or passed cannot be used as it is."""
