"""Visformer makes a Transformer visible while it works.

The public API. Nothing here imports torch or Qt before it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visformer.core.checkpoint import Checkpoint
    from visformer.core.decoding import Decoding
    from visformer.core.passes import run
    from visformer.errors import CheckpointError, InputError, VisformerError
    from visformer.formats.fresh import build
    from visformer.formats.loading import load
    from visformer.values.config import ModelConfig
    from visformer.values.facts import ModelFacts
    from visformer.values.intervention import (
        Causal,
        Cell,
        HideSource,
        Intervention,
        PositionChange,
    )
    from visformer.values.step import Candidate, Step
    from visformer.values.storage.saved_session import SavedRun, SavedSession
    from visformer.values.storage.stored_facts import RunSelection
    from visformer.values.strategy import Strategy
    from visformer.values.trace import Trace

__version__ = "0.1.0"
__all__ = [
    "Candidate",
    "Causal",
    "Cell",
    "Checkpoint",
    "CheckpointError",
    "Decoding",
    "HideSource",
    "InputError",
    "Intervention",
    "ModelConfig",
    "ModelFacts",
    "PositionChange",
    "RunSelection",
    "SavedRun",
    "SavedSession",
    "Step",
    "Strategy",
    "Trace",
    "VisformerError",
    "build",
    "load",
    "open_session",
    "open_trace",
    "run",
    "save_session",
    "show",
]
_MODULES = {  # where the names that are not defined here are defined
    "Candidate": "values.step",
    "Causal": "values.intervention",
    "Cell": "values.intervention",
    "Checkpoint": "core.checkpoint",
    "CheckpointError": "errors",
    "Decoding": "core.decoding",
    "HideSource": "values.intervention",
    "InputError": "errors",
    "Intervention": "values.intervention",
    "ModelConfig": "values.config",
    "ModelFacts": "values.facts",
    "PositionChange": "values.intervention",
    "RunSelection": "values.storage.stored_facts",
    "SavedRun": "values.storage.saved_session",
    "SavedSession": "values.storage.saved_session",
    "Step": "values.step",
    "Strategy": "values.strategy",
    "Trace": "values.trace",
    "VisformerError": "errors",
    "build": "formats.fresh",
    "load": "formats.loading",
    "run": "core.passes",
}


def open_trace(path: str | Path) -> Trace:
    """Read a Trace that ``Trace.save`` wrote; of a session, the run that was shown.

    Its numbers are read when they are asked for. ``Trace.missing`` says what a file
    that is cut off or damaged no longer holds. Raises InputError where the file cannot
    be read, is damaged beyond that or is too new.
    """
    return open_session(path).shown.trace


def open_session(path: str | Path) -> SavedSession:
    """Read a session: the runs that ``save_session`` or ``Trace.save`` wrote.

    Raises InputError as ``open_trace`` does.
    """
    from visformer.values.trace_file import read_session

    return read_session(Path(path))


def save_session(
    path: str | Path, runs: Iterable[SavedRun | Trace], *, shown: int = 0
) -> None:
    """Write runs into one file, whole or not at all.

    ``shown`` is the number, from 0, of the run that a window shows first. Raises
    InputError where the file cannot be written.
    """
    from visformer.values.storage.saved_session import SavedRun
    from visformer.values.trace_file import write_session

    named = [run if isinstance(run, SavedRun) else SavedRun(trace=run) for run in runs]
    write_session(named, Path(path), shown)


def show(trace: Trace | str | Path) -> int:
    """Open a window on a Trace, or on a trace file; returns when it is closed."""
    from visformer import app
    from visformer.values.storage.saved_session import SavedRun

    if isinstance(trace, str | Path):
        return app.show(open_session(trace).shown)
    return app.show(SavedRun(trace=trace))


def __dir__() -> list[str]:
    """List what is public."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'visformer' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"visformer.{_MODULES[name]}"), name)
