"""Visformer: an encoder-decoder Transformer, visible while it works.

The public API. Nothing here imports torch or Qt before it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visformer.core.checkpoint import Checkpoint
    from visformer.core.decoding import Decoding
    from visformer.core.passes import run
    from visformer.formats.fresh import build
    from visformer.formats.loading import load
    from visformer.values.intervention import Intervention
    from visformer.values.strategy import Strategy
    from visformer.values.trace import Trace

__version__ = "0.1.0"
__all__ = [
    "Checkpoint",
    "Decoding",
    "Intervention",
    "Strategy",
    "Trace",
    "build",
    "load",
    "open_trace",
    "run",
    "show",
]
_PLACES = {
    "Checkpoint": "visformer.core.checkpoint",
    "Decoding": "visformer.core.decoding",
    "Intervention": "visformer.values.intervention",
    "Strategy": "visformer.values.strategy",
    "Trace": "visformer.values.trace",
    "build": "visformer.formats.fresh",
    "load": "visformer.formats.loading",
    "run": "visformer.core.passes",
}


def open_trace(path: str | Path) -> Trace:
    """Read a Trace that ``Trace.save`` wrote.

    Raises InputError where the file cannot be read, is damaged or is too new.
    """
    from visformer.values.trace_file import read_trace

    return read_trace(Path(path))


def show(trace: Trace | str | Path) -> int:
    """Open a window on a Trace or on the file of one; returns when it is closed."""
    from visformer import app

    return app.show(open_trace(trace) if isinstance(trace, str | Path) else trace)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module 'visformer' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
