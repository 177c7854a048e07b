"""Find the settings that fit a file best by the loss on a few reference pairs.

Tensors show neither the number of heads nor whether the program masks as its layout
does. The settings used in training predict the references best.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from visformer.core.checkpoint import Checkpoint
from visformer.core.mask_rules import RULES
from visformer.core.passes import run
from visformer.errors import CheckpointError, VisformerError
from visformer.files import read_regular, refuse_foreign, short
from visformer.formats.given_options import possible_heads
from visformer.language import _
from visformer.values.finding import Finding
from visformer.watching.switches import Switch, spare_of, switched, switches_of

MOST_PAIRS = 16
MOST_BYTES = 1 << 20
_BETTER = 0.98  # factor by which one more setting must lower the loss
_FAR = 0.5  # share of the loss of guessing: trained models are far below it
_SECONDS = 15.0  # time limit of each of the two searches
_JOINTLY = "norm_first", "embedding_scale", "activation", "heads"
_ALONE = "mask_rule", "position_axis"
_CHANGES = (  # of a run, in the form of “--change”
    *("causal off", "multiply", "scale off", "positions none", "positions halves"),
)


class ReferencePair(NamedTuple):
    """A source and its reference translation."""

    source: str
    target: str


class Fit(NamedTuple):
    """One combination of settings and its mean loss per reference token."""

    settings: Mapping[str, Any]  # keywords of ``load``
    change: str  # of the run; "" for none
    loss: float

    @property
    def words(self) -> str:
        """Write the settings as keywords."""
        parts = [f"{name}={value}" for name, value in self.settings.items()]
        return ", ".join([*parts, *([self.change] if self.change else [])])


def read_references(path: Path) -> tuple[ReferencePair, ...]:
    """Read the first pairs of a file: source, tab, target on each line."""
    data, name = read_regular(path, MOST_BYTES), short(path.name)
    refuse_foreign(data[:512], name)
    pairs = []
    for line in data.decode("utf-8-sig", "replace").splitlines():
        source, tab, target = line.partition("\t")
        if tab and source.strip() and target.strip():
            pairs.append(ReferencePair(source, target.partition("\t")[0]))
    if not pairs:
        raise CheckpointError(
            "{file} has no reference pairs. Write a source, a tab and its target in "
            "each line.",
            file=name,
        )
    return tuple(pairs[:MOST_PAIRS])


class References(NamedTuple):
    """Reference pairs as ids, padded at the end of each row."""

    source: Tensor  # int64 [B, S]
    fed: Tensor  # int64 [B, T], the decoder's input: start id, then the target shifted
    wanted: list[list[int]]
    lengths: list[int]  # of the sources

    @classmethod
    def of(cls, checkpoint: Checkpoint, pairs: tuple[ReferencePair, ...]) -> References:
        """Encode pairs; InputError for text that the tokenizer cannot read.

        The end of the sentence is left out: its id may be a wrong guess.
        """
        tokenizer, most = checkpoint.tokenizer, checkpoint.config.max_positions
        sources = [
            [piece.id for piece in tokenizer.encode_source(pair.source)][:most]
            for pair in pairs
        ]
        wanted = [tokenizer.encode_target(pair.target)[:most] for pair in pairs]
        fed = [[tokenizer.bos, *ids[:-1]] for ids in wanted]
        sides = [
            pad_sequence([torch.tensor(ids) for ids in rows], True, pad)
            for rows, pad in ((sources, tokenizer.source_pad), (fed, tokenizer.pad))
        ]
        return cls(sides[0], sides[1], wanted, [*map(len, sources)])

    def loss(self, checkpoint: Checkpoint, change: str | None = None) -> float:
        """Return the mean negative log-likelihood of the reference tokens, in nats."""
        config, total = checkpoint.config, 0.0
        by_length = RULES[config.mask_rule].by_length
        # in some programs a row's batch index determines its positions: run rows alone
        size = 1 if config.position_axis == "batch" else len(self.wanted)
        for start in range(0, len(self.wanted), size):
            rows = slice(start, start + size)
            traces = run(
                checkpoint,
                self.source[rows],
                self.fed[rows],
                source_lengths=self.lengths[rows] if by_length else None,
                intervention=change,
            )
            for trace, ids in zip(traces, self.wanted[rows], strict=True):
                likely = torch.log_softmax(torch.as_tensor(trace.logits), -1)
                chosen = likely[torch.arange(len(ids)), torch.tensor(ids)]
                total -= float(chosen.sum())
        return total / sum(map(len, self.wanted)) if math.isfinite(total) else math.inf


def best_fits(
    checkpoint: Checkpoint, known: Collection[str], pairs: tuple[ReferencePair, ...]
) -> list[Fit]:
    """Search the settings that are not ``known`` for a checkpoint, the best fit first.

    Heads, the order of norms, activation and scale are tried jointly, as a wrong value
    of one distorts the others; then one more switch at a time, until none improves the
    loss. Both searches have a time limit. Raises InputError for pairs that the
    tokenizer cannot read.
    """
    search = _Search(checkpoint, References.of(checkpoint, pairs))
    heads = possible_heads(checkpoint.config.d_model)
    switches = [
        *(Switch("heads", f"heads={n}", n) for n in heads),
        *switches_of(checkpoint.config, (0, 0)),
    ]
    ways = [
        [(), *((one,) for one in switches if one.name == name)]
        for name in _JOINTLY
        if name not in known
    ]
    end = time.monotonic() + _SECONDS
    search.try_all((sum(chosen, ()) for chosen in product(*ways)), end)
    free = {*_JOINTLY, *_ALONE} - {*known}
    others = [one for one in switches if one.name in free or one.words in _CHANGES]
    best, before, end = search.best, math.inf, time.monotonic() + _SECONDS
    while search.losses[best] < before * _BETTER:
        before = search.losses[best]
        rest = {one: [x for x in best if x.name != one.name] for one in others}
        search.try_all(((*rest[one], one) for one in others if one not in best), end)
        best = search.best
    base = {} if "heads" in known else {"heads": checkpoint.config.heads}
    fits = [_fit(base, chosen, loss) for chosen, loss in search.losses.items()]
    return sorted(fits, key=lambda fit: (fit.loss, len(fit.settings)))


class _Search:
    """Reference losses under switches, each combination tried once."""

    def __init__(self, checkpoint: Checkpoint, references: References) -> None:
        self._spare, self._references = spare_of(checkpoint), references
        self.losses: dict[tuple[Switch, ...], float] = {(): references.loss(checkpoint)}

    @property
    def best(self) -> tuple[Switch, ...]:
        """The switches with the lowest loss so far."""
        return min(self.losses, key=lambda chosen: (self.losses[chosen], len(chosen)))

    def try_all(self, several: Iterable[tuple[Switch, ...]], end: float) -> None:
        """Try new combinations until the time is over."""
        for chosen in several:
            if time.monotonic() > end:
                break
            key = tuple(sorted(chosen, key=lambda one: one.name))
            if key not in self.losses:
                with suppress(VisformerError):  # a switch may not apply to a model
                    self.losses[key] = self._references.loss(
                        *switched(self._spare, chosen)
                    )


def _fit(base: Mapping[str, Any], chosen: tuple[Switch, ...], loss: float) -> Fit:
    fields = {one.name: one.value for one in chosen if one.value is not None}
    changes = [one.words for one in chosen if one.value is None]
    return Fit({**base, **fields}, "; ".join(changes), loss)


def plainest(fits: list[Fit]) -> Fit:
    """Return the settings, no change of the run, that are about as good as the best.

    Of these, the fewest.
    """
    settings = [fit for fit in fits if not fit.change]
    near = [fit for fit in settings if fit.loss * _BETTER <= settings[0].loss]
    return min(near, key=lambda fit: len(fit.settings))


def far_off(loss: float, rows: int) -> tuple[Finding, ...]:
    """Return a finding if even the best loss is far from that of a trained model."""
    chance = math.log(rows)
    if loss < _FAR * chance:
        return ()
    what = _(
        "Under the best settings found, the reference pairs have a loss of {loss:.2f} "
        "a token; guessing among {n:,} tokens has {chance:.2f}.",
        loss=loss,
        n=rows,
        chance=chance,
    )
    remedy = _("Check the tokenizer and the ids, or give the settings of its program.")
    return (Finding("pairs-unlikely", _("Settings"), what, remedy),)
