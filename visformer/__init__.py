"""Visformer makes a Transformer visible while it works.

The public API. Nothing here imports torch or Qt before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visformer.analysis.leaks import leaks
    from visformer.api import (
        inspect,
        open_session,
        open_trace,
        parse_change,
        save_session,
        show,
        translate,
    )
    from visformer.core.checkpoint import Checkpoint
    from visformer.core.decoding import Decoding
    from visformer.core.passes import run
    from visformer.errors import CheckpointError, InputError, VisformerError
    from visformer.formats.fresh import build
    from visformer.formats.hugging_face.folder_model import FolderModel
    from visformer.formats.loading import load
    from visformer.trace_file.saved_session import SavedRun, SavedSession
    from visformer.trace_file.stored_facts import RunSelection
    from visformer.values.changes.causal import Causal
    from visformer.values.changes.cell import Cell
    from visformer.values.changes.hide_source import HideSource
    from visformer.values.changes.masked_score import MaskedScore
    from visformer.values.changes.position_change import PositionChange
    from visformer.values.changes.score_scale import ScoreScale
    from visformer.values.config import ModelConfig
    from visformer.values.facts import ModelFacts
    from visformer.values.finding import Certificate
    from visformer.values.intervention import Intervention
    from visformer.values.step import Candidate, Step
    from visformer.values.strategy import Strategy
    from visformer.values.trace import Trace
    from visformer.values.watched_attention import WatchedAttention
    from visformer.watching.compared import Comparison
    from visformer.watching.comparing import compare
    from visformer.watching.watcher import Watched, Watcher, watch
    from visformer.watching.wrapped import WrappedModel, wrap
    from visformer.watching.wrapped_decoding import WrappedDecoding

__version__ = "0.1.0"
__all__ = [
    "Candidate",
    "Causal",
    "Cell",
    "Certificate",
    "Checkpoint",
    "CheckpointError",
    "Comparison",
    "Decoding",
    "FolderModel",
    "HideSource",
    "InputError",
    "Intervention",
    "MaskedScore",
    "ModelConfig",
    "ModelFacts",
    "PositionChange",
    "RunSelection",
    "SavedRun",
    "SavedSession",
    "ScoreScale",
    "Step",
    "Strategy",
    "Trace",
    "VisformerError",
    "Watched",
    "WatchedAttention",
    "Watcher",
    "WrappedDecoding",
    "WrappedModel",
    "build",
    "compare",
    "inspect",
    "leaks",
    "load",
    "open_session",
    "open_trace",
    "parse_change",
    "run",
    "save_session",
    "show",
    "translate",
    "watch",
    "wrap",
]
_MODULES = {  # where the names that are not defined here are defined
    "Candidate": "values.step",
    "Causal": "values.changes.causal",
    "Cell": "values.changes.cell",
    "Certificate": "values.finding",
    "Checkpoint": "core.checkpoint",
    "CheckpointError": "errors",
    "Comparison": "watching.compared",
    "Decoding": "core.decoding",
    "FolderModel": "formats.hugging_face.folder_model",
    "HideSource": "values.changes.hide_source",
    "InputError": "errors",
    "Intervention": "values.intervention",
    "MaskedScore": "values.changes.masked_score",
    "ModelConfig": "values.config",
    "ModelFacts": "values.facts",
    "PositionChange": "values.changes.position_change",
    "RunSelection": "trace_file.stored_facts",
    "SavedRun": "trace_file.saved_session",
    "SavedSession": "trace_file.saved_session",
    "ScoreScale": "values.changes.score_scale",
    "Step": "values.step",
    "Strategy": "values.strategy",
    "Trace": "values.trace",
    "VisformerError": "errors",
    "Watched": "watching.watcher",
    "WatchedAttention": "values.watched_attention",
    "Watcher": "watching.watcher",
    "WrappedDecoding": "watching.wrapped_decoding",
    "WrappedModel": "watching.wrapped",
    "build": "formats.fresh",
    "compare": "watching.comparing",
    "inspect": "api",
    "leaks": "analysis.leaks",
    "load": "formats.loading",
    "open_session": "api",
    "open_trace": "api",
    "parse_change": "api",
    "run": "core.passes",
    "save_session": "api",
    "show": "api",
    "translate": "api",
    "watch": "watching.watcher",
    "wrap": "watching.wrapped",
}
_TAKE_A_PATH = ("Decoding", "run")  # in place of a checkpoint


def __dir__() -> list[str]:
    """List what is public."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'visformer' has no attribute '{name}'")
    from importlib import import_module

    if name in _TAKE_A_PATH:
        import_module("visformer.api").let_paths_in()
    return getattr(import_module(f"visformer.{_MODULES[name]}"), name)
