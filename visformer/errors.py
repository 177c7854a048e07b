"""The errors that reach a user, each one plain sentence that says what to do."""

from __future__ import annotations


class VisformerError(Exception):
    """Base of every error whose text is meant for the user."""


class CheckpointError(VisformerError):
    """A checkpoint cannot be opened: says what is wrong or missing."""


class InputError(VisformerError):
    """Something the user typed, chose or passed cannot be used as it is."""
