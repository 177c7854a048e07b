"""What ``visformer train`` can be given, and what of it can be carried out."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visformer.errors import InputError
from visformer.training.loop import TrainingOptions
from visformer.training.tasks import TaskName

_LOOP = TrainingOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainCommand:
    """Everything that ``visformer train`` can be told; the defaults suit real pairs.

    Exactly one of ``data`` and ``task`` is given.
    """

    out: Path
    data: Path | None = None  # tab-separated pairs, plain or .gz
    task: TaskName | None = None
    start: Path | None = None  # checkpoint whose sizes, weights and tokenizer are kept
    grow: bool = False  # give the start's tokenizer the signs that it lacks
    name: str = ""  # shown; "": that of the data or the task
    source_language: str = ""
    target_language: str = ""
    licence: str = ""
    alphabet: str = string.ascii_lowercase  # of a task
    shortest: int = 1  # length of a task's strings
    longest: int = 12
    examples: int = 20_000  # a task's strings in an epoch
    vocabulary: int = 8000
    d_model: int = 256
    heads: int = 8
    layers: int = 4  # of the encoder, and as many of the decoder
    feed_forward: int = 1024
    max_positions: int = 512
    norm_first: bool = True  # norms inside the residual branches, and a final one
    dropout: float = 0.2
    figures: int = 0  # pairs made by rule that are added to each epoch
    sampling: float = 0.0  # alpha of subword regularisation; 0: off
    epochs: int = _LOOP.epochs
    batch_tokens: int = _LOOP.batch_tokens
    learning_rate: float = _LOOP.learning_rate
    warmup: int = _LOOP.warmup
    smoothing: float = _LOOP.smoothing
    patience: int = _LOOP.patience
    save_seconds: float = _LOOP.save_seconds
    seed: int = _LOOP.seed
    valid: int | None = None  # pairs held out; None: a fiftieth, at most 2,000
    test: int | None = None  # the same, at most 3,000; of a task 500 and 5,000
    beam: int | None = None  # of the final test; None: 4, greedy for a task
    device: str | None = None
    threads: int = 0  # 0: all cores


TOY_DEFAULTS: Mapping[str, Any] = {  # what a task needs less of
    "d_model": 64,
    "heads": 4,
    "layers": 2,
    "feed_forward": 256,
    "dropout": 0.05,
    "smoothing": 0.0,
    "norm_first": False,
    "batch_tokens": 1024,
    "learning_rate": 2e-3,
    "warmup": 400,
    "epochs": 24,
    "patience": 5,
}
FREE = {  # may change from one sitting to the next
    *("out", "data", "device", "threads", "save_seconds", "beam"),
    *("name", "source_language", "target_language", "licence"),
}
OF_MODEL = (  # a start brings its own
    *("vocabulary", "d_model", "heads", "layers", "feed_forward", "max_positions"),
    "norm_first",
)
OF_TASKS = ("task", "alphabet", "shortest", "longest", "examples")
OF_PAIRS = ("vocabulary", "sampling", "figures", "grow")
RANGES = {
    "examples": (1, 10_000_000),
    "vocabulary": (1000, 1_000_000),
    "figures": (0, 10_000_000),
    "dropout": (0.0, 0.9),
    "sampling": (0.0, 10.0),
    "epochs": (1, 100_000),
    "batch_tokens": (32, 10_000_000),
    "learning_rate": (1e-9, 1.0),
    "warmup": (0, 10_000_000),
    "smoothing": (0.0, 0.9),
    "patience": (1, 100_000),
    "save_seconds": (0.0, 86_400.0),
    "seed": (0, 2**31),
    "valid": (1, 10_000_000),
    "test": (1, 10_000_000),
    "beam": (1, 64),
    "threads": (0, 1024),
}


def options_for(given: Mapping[str, Any]) -> TrainCommand:
    """Return the options that were ``given``, and defaults that suit data or task."""
    defaults = TOY_DEFAULTS if given.get("task") else {}
    return TrainCommand(**{**defaults, **given})


def check(options: TrainCommand) -> None:
    """Raise InputError unless the options can be carried out."""
    if (options.data is None) == (options.task is None):
        raise InputError("give either a file of pairs or a task to train on.")
    if options.start and options.task:
        raise InputError("a task starts from nothing: leave out the start.")
    if options.grow and not options.start:
        raise InputError("only the tokenizer of a start can grow: give a start.")
    if options.figures and options.task:
        raise InputError("figures are made for pairs, not for a task.")
    for name, (low, high) in RANGES.items():
        value = getattr(options, name)
        if value is not None and not low <= value <= high:
            raise InputError(f"{name} is {value:g}: it must be from {low} to {high:,}.")
