"""Visformer makes a Transformer visible while it works.

The public API. Nothing here imports torch or Qt before it is used.
"""

from __future__ import annotations

from sys import modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visformer.analysis.change_report import change_report as change_report
    from visformer.analysis.leaks import leaks as leaks
    from visformer.analysis.run_comparison import RunComparison as RunComparison
    from visformer.api import compare as compare
    from visformer.api import importance as importance
    from visformer.api import inspect as inspect
    from visformer.api import open_session as open_session
    from visformer.api import open_trace as open_trace
    from visformer.api import parse_change as parse_change
    from visformer.api import render as render
    from visformer.api import save_session as save_session
    from visformer.api import search as search
    from visformer.api import show as show
    from visformer.api import to_html as to_html
    from visformer.api import translate as translate
    from visformer.core.checkpoint import Checkpoint as Checkpoint
    from visformer.core.decoding import Decoding as Decoding
    from visformer.core.passes import run as run
    from visformer.core.scanning import scan as scan
    from visformer.errors import CheckpointError as CheckpointError
    from visformer.errors import InputError as InputError
    from visformer.errors import VisformerError as VisformerError
    from visformer.formats.hugging_face.folder_model import FolderModel as FolderModel
    from visformer.formats.loading import build as build
    from visformer.formats.loading import load as load
    from visformer.trace_file.saved_session import SavedRun as SavedRun
    from visformer.trace_file.saved_session import SavedSession as SavedSession
    from visformer.trace_file.stored_facts import RunSelection as RunSelection
    from visformer.values.changes.mask_changes import Causal as Causal
    from visformer.values.changes.mask_changes import Cell as Cell
    from visformer.values.changes.mask_changes import HideSource as HideSource
    from visformer.values.changes.mask_changes import MaskedScore as MaskedScore
    from visformer.values.changes.position_change import (
        PositionChange as PositionChange,
    )
    from visformer.values.changes.weight_changes import ScoreScale as ScoreScale
    from visformer.values.config import ModelConfig as ModelConfig
    from visformer.values.facts import Kind
    from visformer.values.facts import ModelFacts as ModelFacts
    from visformer.values.finding import Certificate as Certificate
    from visformer.values.intervention import Intervention as Intervention
    from visformer.values.measured import Importance as Importance
    from visformer.values.measured import ImportanceOfPairs as ImportanceOfPairs
    from visformer.values.scanned import ScannedPair as ScannedPair
    from visformer.values.step import Candidate as Candidate
    from visformer.values.step import Step as Step
    from visformer.values.step import Strategy as Strategy
    from visformer.values.trace import Trace as Trace
    from visformer.values.watched_attention import WatchedAttention as WatchedAttention
    from visformer.watching.compared_runs import Comparison as Comparison
    from visformer.watching.watcher import Watched as Watched
    from visformer.watching.watcher import Watcher as Watcher
    from visformer.watching.watcher import watch as watch
    from visformer.watching.wrapped import WrappedModel as WrappedModel
    from visformer.watching.wrapped import wrap as wrap

__version__ = "0.1.0"
_PUBLIC = {  # module -> the public names that it defines, imported on first use
    "analysis.change_report": "change_report",
    "analysis.leaks": "leaks",
    "analysis.run_comparison": "RunComparison",
    "api": (
        "compare importance inspect open_session open_trace parse_change "
        "render save_session search show to_html translate"
    ),
    "core.checkpoint": "Checkpoint",
    "core.decoding": "Decoding",
    "core.passes": "run",
    "core.scanning": "scan",
    "errors": "CheckpointError InputError VisformerError",
    "formats.hugging_face.folder_model": "FolderModel",
    "formats.loading": "build load",
    "trace_file.saved_session": "SavedRun SavedSession",
    "trace_file.stored_facts": "RunSelection",
    "values.changes.mask_changes": "Causal Cell HideSource MaskedScore",
    "values.changes.position_change": "PositionChange",
    "values.changes.weight_changes": "ScoreScale",
    "values.config": "ModelConfig",
    "values.facts": "ModelFacts",
    "values.finding": "Certificate",
    "values.intervention": "Intervention",
    "values.measured": "Importance ImportanceOfPairs",
    "values.scanned": "ScannedPair",
    "values.step": "Candidate Step Strategy",
    "values.trace": "Trace",
    "values.watched_attention": "WatchedAttention",
    "watching.compared_runs": "Comparison",
    "watching.watcher": "Watched Watcher watch",
    "watching.wrapped": "WrappedModel wrap",
}
_MODULES = {name: of for of, names in _PUBLIC.items() for name in names.split()}
__all__ = [*_MODULES]
_TAKE_A_PATH = ("Decoding", "run", "scan")  # in place of a checkpoint


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
    value = getattr(import_module(f"visformer.{_MODULES[name]}"), name)
    if "visformer.values.trace" in modules:
        _add_pictures()
    return value


def _plot(self: Trace, kind: Kind, layer: int, head: int, ax: Any = None) -> Any:
    """Draw a head's weights [Q, K] with matplotlib, and return the Axes.

    Colours, from 0 to 1, and labels are the window's. ``ax`` are Axes to draw into;
    without them a new figure is made. Raises InputError for a layer or head that is not
    there, and where matplotlib is not installed.
    """
    from visformer.pictures.notebook import plotted

    return plotted(self, kind, layer, head, ax)


def _page(self: Trace, **_given: object) -> dict[str, str]:
    """Show the web page of the run as the last line of a notebook's cell."""
    from visformer.pictures.notebook import shown

    return shown(self)


def _add_pictures() -> None:
    """Give Trace, which knows no pictures, the methods that show some."""
    from visformer.values.trace import Trace

    for name, method in (("plot", _plot), ("_repr_mimebundle_", _page)):
        method.__name__, method.__qualname__ = name, f"Trace.{name}"
        setattr(Trace, name, method)
