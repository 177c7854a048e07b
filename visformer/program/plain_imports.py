"""Imports without PySide's hook, in a process that is all ours."""

import builtins
import importlib


def import_plainly() -> None:
    """Load PySide, and take its hook out of the way of all later imports.

    The hook reads the source of every module that is imported, to find out who may
    write ``from __feature__ import …``: a tenth of the start. Nobody here does, but a
    program that shows a window of ours may: its process keeps the hook.
    """
    importlib.import_module("PySide6.QtCore")  # puts the hook in its place
    builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)
