"""A training series from a folder: its checkpoints, or runs that were recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import numpy as np

from visformer.analysis.head_measures import entropy, maximum, place_correlation
from visformer.core.decoding import Decoding
from visformer.core.importance import Changes, by_gradient
from visformer.core.models import Model, WorkDone
from visformer.errors import InputError, VisformerError
from visformer.files import real_path, short
from visformer.language import _
from visformer.trace_file.trace_file import read_trace
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.measured import SeriesPoint
from visformer.values.trace import Trace

WEIGHTS = ".pt", ".pth", ".ckpt", ".safetensors", ".bin"  # files that may be models
MEASURES: Mapping[str, Callable[[Floats], float]] = {  # of a head's weights [Q, K]
    "entropy": entropy,
    "largest": maximum,
    "order": place_correlation,
}
MeasuredRun = tuple[SeriesPoint, Trace]
IMPORTANCE = "importance"  # the change in log p without the head, by its gradient


def entries(folder: Path) -> list[Path]:
    """Return what may be points of a series, in the order of their numbers.

    Those are recorded runs or, where there are none, subfolders and files of weights.
    Raises InputError where there is nothing of the kind.
    """
    try:
        real_path(folder)
        found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except (OSError, ValueError):
        raise InputError(
            "There is no folder “{path}” that can be read: choose one of checkpoints "
            "or of recorded runs (.vis).",
            path=short(folder.name),
        ) from None
    runs = [path for path in found if path.suffix == ".vis"]
    models = [p for p in found if p.is_dir() or p.suffix.lower() in WEIGHTS]
    if not runs and not models:
        raise InputError(
            "“{path}” holds no checkpoints and no recorded runs (.vis): “visformer "
            "train --keep-every 100” writes a series of checkpoints.",
            path=short(folder.name),
        )
    return sorted(runs or models, key=lambda path: (_number(path) or 0, path.name))


def series_of(
    folder: Path, source: str, reference: str, open_model: Callable[[Path], Model]
) -> Generator[WorkDone | MeasuredRun | VisformerError, None, None]:
    """Yield each entry's point and run, and how far the work is before it.

    Each checkpoint is fed ``reference``, so that all losses are of the same tokens. An
    entry that cannot be opened, or run, yields its error. Raises what ``entries`` does,
    and InputError without a sentence for checkpoints.
    """
    every = entries(folder)
    recorded = every[0].suffix == ".vis"
    if not recorded and not (source and reference):
        raise InputError(
            "A series of checkpoints runs the sentence on screen: translate one first."
        )
    for at, path in enumerate(every):
        yield WorkDone(at, len(every), _("points"))
        try:
            if recorded:
                trace, importance = read_trace(path), Changes()
            else:
                trace, importance = _run(open_model(path), source, reference)
        except VisformerError as error:
            yield error
            continue
        made = point(trace, path, at, recorded=recorded, importance=importance)
        yield made, trace


def _run(model: Model, source: str, reference: str) -> tuple[Trace, Changes]:
    """Feed the reference; return also the importance of heads, where it is known."""
    decoding = Decoding(model, source)
    trace = decoding.feed(reference)
    try:
        return trace, by_gradient(model, decoding.known)[0]
    except InputError:
        return trace, {}


def point(
    trace: Trace, path: Path, at: int, *, recorded: bool, importance: Changes
) -> SeriesPoint:
    """Measure a run; ``at`` is its place in the series, from 0."""
    grids = {kind: _grids(trace, kind) for kind in trace.kinds}
    heads: dict[str, Mapping[Kind, Floats]] = {
        name: {kind: grid[row] for kind, grid in grids.items()}
        for row, name in enumerate(MEASURES)
    }
    heads[IMPORTANCE] = {
        kind: grid.astype(np.float32) for kind, grid in importance.items()
    }
    known = [step.loss for step in trace.steps if step.computed]
    number = _number(path)
    return SeriesPoint(
        name=path.stem if recorded else path.name,
        step=at if number is None else number,
        path="" if recorded else str(path),
        loss=float(np.mean(known)) if known else float("nan"),
        heads=heads,
    )


def _grids(trace: Trace, kind: Kind) -> Floats:
    """Measure every head of a kind, [M, L, H]: each layer's weights are made once."""
    found = []
    for layer in range(trace.layers(kind)):
        heads = trace.attention(kind, layer)  # [H, Q, K]
        found.append([[measure(one) for one in heads] for measure in MEASURES.values()])
    return np.array(found, np.float32).swapaxes(0, 1)


def _number(path: Path) -> int | None:
    """Return the last number in a name; None where it has none."""
    digits = re.findall(r"\d+", path.stem)
    return int(digits[-1][:15]) if digits else None
