"""Which settings fit a file best, judged by the loss of a few reference pairs.

Tensors do not tell the number of heads, nor whether the program masks as its layout
does. The settings it was trained with predict the references best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from visformer.core.checkpoint import Checkpoint
from visformer.core.passes import run
from visformer.errors import CheckpointError, InputError, VisformerError
from visformer.files import read_regular, refuse_foreign, short
from visformer.formats.given_options import GivenOptions, possible_heads
from visformer.language import _

MOST_PAIRS = 16
MOST_BYTES = 1 << 20
_BETTER = 0.98  # of the loss so far, for a change of the program to be worth a word
_CHANGES = (  # of a run, as “--change” takes them
    *("causal off", "multiply", "scale off", "positions none", "positions halves"),
)
_SETTINGS: dict[str, tuple[Any, ...]] = {  # field of ModelConfig -> what it may be
    "norm_first": (False, True),
    "embedding_scale": (False, True),
    "activation": ("relu", "gelu", "silu"),
    "mask_rule": ("keys", "source_keys", "causal", "target_rows"),
    "position_axis": ("time", "batch"),
}
Read = Callable[[GivenOptions], Checkpoint]


class ReferencePair(NamedTuple):
    """A source and its reference translation."""

    source: str
    target: str


class Fit(NamedTuple):
    """One combination of settings, and the mean loss of a reference token."""

    settings: Mapping[str, Any]  # keywords of ``load``
    change: str  # of the run; "": none
    loss: float

    @property
    def words(self) -> str:
        """Name the settings as one gives them."""
        parts = [f"{name}={value}" for name, value in self.settings.items()]
        return ", ".join([*parts, *([self.change] if self.change else [])])


def read_references(path: Path) -> tuple[ReferencePair, ...]:
    """Read the first pairs of a file: source, tab, target in each line.

    Raises CheckpointError if it has none.
    """
    data, name = read_regular(path, MOST_BYTES), short(path.name)
    refuse_foreign(data[:512], name)
    pairs = []
    for line in data.decode("utf-8-sig", "replace").splitlines():
        source, tab, target = line.partition("\t")
        if tab and source.strip() and target.strip():
            pairs.append(ReferencePair(source, target.partition("\t")[0]))
    if not pairs:
        raise CheckpointError(
            _(
                "{file} has no reference pairs. Write a source, a tab and its target "
                "in each line.",
                file=name,
            )
        )
    return tuple(pairs[:MOST_PAIRS])


def mean_loss(
    checkpoint: Checkpoint, pairs: tuple[ReferencePair, ...], change: str = ""
) -> float:
    """Return the mean negative log-likelihood of the references' tokens, in nats.

    The end is left out: its id may be a guess that has nothing to do with the file.
    Raises InputError for pairs that the tokenizer cannot read.
    """
    total, count = 0.0, 0
    tokenizer = checkpoint.tokenizer
    most = checkpoint.config.max_positions
    for pair in pairs:
        source = [piece.id for piece in tokenizer.encode_source(pair.source)][:most]
        wanted = tokenizer.encode_target(pair.target)[:most]
        fed = [tokenizer.bos, *wanted[:-1]]
        (trace,) = run(
            checkpoint,
            [source],
            [fed],
            intervention=change or None,
        )
        likely = torch.log_softmax(torch.as_tensor(trace.logits), -1)
        chosen = likely[torch.arange(len(wanted)), torch.tensor(wanted)]
        total -= float(chosen.sum())
        count += len(wanted)
    return total / count if math.isfinite(total) else math.inf


def heads_by_loss(
    read: Read, options: GivenOptions, width: int, pairs: tuple[ReferencePair, ...]
) -> list[Fit]:
    """Return the losses of every possible number of heads, the lowest first."""
    found = []
    for heads in possible_heads(width):
        given = replace(options, fields={**options.fields, "heads": heads})
        loss = mean_loss(read(given), pairs)
        found.append(Fit({"heads": heads}, "", loss))
    return sorted(found, key=lambda fit: fit.loss)


def best_fits(
    read: Read, options: GivenOptions, width: int, pairs: tuple[ReferencePair, ...]
) -> list[Fit]:
    """Search heads, then single switches, then a second one: the best fit first.

    Switches come from the tables above; one that cannot be is passed over.
    """
    known = options.fields.get("heads")
    if known is None:
        tried = heads_by_loss(read, options, width, pairs)
    else:
        tried = [Fit({}, "", mean_loss(read(options), pairs))]
    for _round in range(2):
        best = min(tried, key=lambda fit: fit.loss)
        more = list(_varied(read, options, best, pairs))
        tried += more
        if not more or min(fit.loss for fit in more) >= best.loss * _BETTER:
            break
    return sorted(tried, key=lambda fit: (fit.loss, len(fit.settings)))


def _varied(
    read: Read, options: GivenOptions, best: Fit, pairs: tuple[ReferencePair, ...]
) -> Iterator[Fit]:
    fields = {**options.fields, **best.settings}
    checkpoint = read(replace(options, fields=fields))
    for change in () if best.change else _CHANGES:
        try:
            yield Fit(best.settings, change, mean_loss(checkpoint, pairs, change))
        except VisformerError:
            continue
    for name, values in _SETTINGS.items():
        for value in values:
            if name in fields or value == getattr(checkpoint.config, name):
                continue
            settings = {**best.settings, name: value}
            given = replace(options, fields={**options.fields, **settings})
            try:
                loss = mean_loss(read(given), pairs, best.change)
            except (CheckpointError, InputError):
                continue
            yield Fit(settings, best.change, loss)
