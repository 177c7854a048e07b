"""Find settings that a checkpoint does not say: by a module, or by reference pairs.

Tensors show neither the number of heads nor whether the program masks as its layout
does. A copy of a module in memory is called once on a few ids, and its attention shows
which settings it has; else the settings used in training predict the references best.
"""

from __future__ import annotations

import copy
import inspect
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils._pytree import tree_leaves

from visformer.core.checkpoint import Checkpoint
from visformer.core.mask_rules import RULES
from visformer.core.modified import as_intervention
from visformer.core.passes import run, run_native
from visformer.errors import CheckpointError, VisformerError
from visformer.files import Pair, listed, read_regular, refuse_foreign, short
from visformer.formats.given_options import GivenOptions, possible_heads
from visformer.formats.switches import (
    Attempt,
    Switch,
    remedies,
    spare_of,
    switched,
    switches_of,
)
from visformer.formats.tutorial_files import TutorialFiles
from visformer.language import _
from visformer.values.finding import Finding, Severity
from visformer.values.trace import Trace
from visformer.watching.compared_runs import Comparison, compared
from visformer.watching.module_calls import same_chances
from visformer.watching.watcher import watch

_ROWS = 2
_LENGTHS = 7, 6  # source and target: they differ, so that batch-second calls fail
_SPECIAL = 4  # special ids, usually including the padding
_POSITIONS = {  # changes of a run that are also settings
    "positions none": "none",
    "positions halves": "halves",
    "positions interleaved": "sinusoidal",
}


def agreement(
    module: nn.Module,
    read: TutorialFiles,
    options: GivenOptions,
    opened: Callable[[GivenOptions], Checkpoint],
) -> tuple[GivenOptions, tuple[Finding, ...]]:
    """Call a copy of ``module`` and return the options that agree with it.

    Given ``options`` are kept. If no settings agree or the call fails, a finding says
    so and the options are returned unchanged.
    """
    told = "heads" in read.options.fields
    checkpoint = opened(options if told else _with(options, {"heads": 1}))
    ids = _ids(checkpoint, read.options.pad)
    try:
        masks = _needed(module)[2:]  # usually
        call = _Call(ids, _called(module, ids, len(masks)))
    except Exception as error:  # raised by the module's code
        return options, (_not_called(error),)
    if read.options.pad is None:
        options = replace(options, pad=call.pad)
    given, fields = options.fields, {} if told else call.heads
    checkpoint = opened(_with(options, fields)) if fields else checkpoint
    found, chosen = call.agreeing(checkpoint, given)
    if chosen is None:
        what = _(
            "None of the settings tried makes the model shown compute what the module "
            "does."
        )
        differs = _finding("module-differs", f"{what} {found}", "fault")
        return _with(options, fields), (differs,)
    fields |= dict(filter(None, map(_setting, chosen)))
    faults = [one for one in chosen if _setting(one) is None]
    checkpoint = opened(_with(options, fields))
    attempt = call.attempt(checkpoint, _ROWS)
    given = {**given, "mask_rule": None} if masks else given
    for rule in () if "mask_rule" in given else ((), *_others(checkpoint, "mask_rule")):
        if _vanishes(attempt((*faults, *rule))):
            fields |= dict(filter(None, map(_setting, rule)))
            checkpoint = opened(_with(options, fields))
            attempt = call.attempt(checkpoint, _ROWS)
            break
    if not _vanishes(attempt(faults)):
        attempt = call.attempt(checkpoint, 1)
    for name in {*read.unsaid} - fields.keys() - given.keys():
        others = _others(checkpoint, name)
        if others and not any(_vanishes(attempt((*faults, *x))) for x in others):
            fields[name] = getattr(checkpoint.config, name)
    said = [_unmasked(masks)] if masks else []
    if masks:  # it hides nothing without them
        faults = [one for one in faults if one.words != "causal off"]
    said += [_faulty(faults)] if faults else []
    return _with(options, fields), tuple(said)


class _Call(NamedTuple):
    """The ids given to a module, int64 [B, S] and [B, T], and its rows' Traces."""

    ids: tuple[Tensor, Tensor]
    traces: list[Trace]

    @property
    def heads(self) -> dict[str, int]:
        """The number of heads, if it is the same in all layers."""
        found = {trace.heads(kind) for trace in self.traces for kind in trace.kinds}
        return {"heads": found.pop()} if len(found) == 1 else {}

    @property
    def pad(self) -> int | None:
        """The only id of the second row that the encoder never reads."""
        row = self.traces[1]
        unread = (row.attention("encoder", 0) == 0).all((0, 1))  # [S]
        found = {*row.source_ids[unread].tolist()}
        return found.pop() if len(found) == 1 else None

    def attempt(self, checkpoint: Checkpoint, rows: int) -> Attempt:
        """Return a function that runs the first rows with switches, and compares."""
        spare, (source, target) = spare_of(checkpoint), (x[:rows] for x in self.ids)

        def attempt(chosen: Sequence[Switch]) -> Comparison | None:
            try:
                variant, changes = switched(spare, chosen)
                made = run(variant, source, target, intervention=changes)
                return compared(self.traces[:rows], made)
            except VisformerError:  # a switch may not apply to this model
                return None

        return attempt

    def agreeing(
        self, checkpoint: Checkpoint, given: Mapping[str, Any]
    ) -> tuple[Comparison, tuple[Switch, ...] | None]:
        """Return the difference, and switches that make the row without pads agree."""
        attempt = self.attempt(checkpoint, 1)
        found = attempt(()) or Comparison("other")
        if _vanishes(found):
            return found, ()
        switches = [
            one
            for one in switches_of(checkpoint.config, found.heads)
            if one.name not in (*given, "mask_rule", "masked_value")  # about padding
        ]
        mended = remedies(switches, attempt, found)
        whole = [chosen for chosen in mended if _vanishes(attempt(chosen))]
        plainest = min(
            whole, key=lambda x: sum(_setting(one) is None for one in x), default=None
        )
        return found, plainest


def _vanishes(made: Comparison | None) -> bool:
    return made is not None and made.kind is None and made.same_output


def _setting(one: Switch) -> tuple[str, Any] | None:
    """Return the field and value of a switch; None for a fault of a program."""
    if one.words in _POSITIONS:
        return "positions", _POSITIONS[one.words]
    faulty = one.value is None or one.name == "position_axis"
    return None if faulty else (one.name, one.value)


def _others(checkpoint: Checkpoint, name: str) -> list[tuple[Switch]]:
    """Return the switches to all other values of a field."""
    own = getattr(checkpoint.config, name)
    switches = switches_of(checkpoint.config, (0, 0))
    return [
        (one,)
        for one in switches
        if (found := _setting(one)) and found[0] == name and found[1] != own
    ]


def _with(options: GivenOptions, fields: Mapping[str, Any]) -> GivenOptions:
    return replace(options, fields={**options.fields, **fields})


def _ids(checkpoint: Checkpoint, pad: int | None) -> tuple[Tensor, Tensor]:
    """Return a few ids for each side; the second row ends in possible padding."""
    config, drawn = checkpoint.config, torch.Generator().manual_seed(0)
    pads = checkpoint.tokenizer.source_pad, checkpoint.tokenizer.pad
    tables = config.source_vocabulary, config.target_vocabulary
    fixed = config.encoder_norm_length, config.decoder_norm_length
    sides = []
    for own, rows, usual, length in zip(pads, tables, _LENGTHS, fixed, strict=True):
        length = length or min(usual, config.max_positions)
        ids = torch.randint(rows // 2, rows, (_ROWS, length), generator=drawn)
        ids[ids == own] = (own + 1) % rows
        tail = torch.arange(min(_SPECIAL, rows)) if pad is None else Tensor([own, own])
        ids[1, 1:] = torch.cat((ids[1], tail.long()))[-length:][1:]
        sides.append(ids)
    return sides[0], sides[1]


def _needed(module: nn.Module) -> list[str]:
    """Return the required parameters of a module's forward."""
    return [
        one.name
        for one in inspect.signature(module.forward).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]


def _called(module: nn.Module, ids: tuple[Tensor, Tensor], nones: int) -> list[Trace]:
    """Call a copy, with ``nones`` additional arguments None, and return its Traces."""
    spare, others = _copied(module), [None] * nones
    device = next((x.device for x in (*spare.parameters(), *spare.buffers())), "cpu")
    source, target = (side.to(device) for side in ids)
    with torch.no_grad(), same_chances(spare):
        try:
            with watch(spare) as watched:
                spare(source, target, *others)
        except Exception as error:
            with watch(spare) as watched:
                try:
                    spare(source.T, target.T, *others)
                except Exception:
                    raise error from None
    return watched.traces


def _copied(module: nn.Module) -> nn.Module:
    """Return a copy in eval mode and float32 that shares memory where possible."""
    memo: dict[int, Any] = {}
    for tensor in tree_leaves([[*vars(part).values()] for part in module.modules()]):
        if isinstance(tensor, nn.Parameter):
            plain = tensor.detach().float()
            memo[id(tensor)] = nn.Parameter(plain, requires_grad=False)
        elif isinstance(tensor, Tensor):  # only leaves can be copied
            plain = tensor.detach().clone()
            memo[id(tensor)] = plain.float() if plain.is_floating_point() else plain
    return copy.deepcopy(module, memo).eval()


def _not_called(error: Exception) -> Finding:
    what = _(
        "The module was called with a source and a target, to see its settings, and "
        "ended in {error}. What is listed as assumed may be wrong.",
        error=short(f"{type(error).__name__}: {error}".rstrip(": "), 60),
    )
    return _finding("module-not-called", what, "note")


def _faulty(faults: Sequence[Switch]) -> Finding:
    what = _(
        "The model shown computes what the module does only with {changes}, and is "
        "shown without.",
        changes=" + ".join(one.words for one in faults),
    )
    return _finding("module-differs", what, "fault")


def _unmasked(names: Sequence[str]) -> Finding:
    what = _(
        "The module was called to see its settings, with None for {names}. What these "
        "hide is not known, and the usual masks are assumed.",
        names=listed([*names], room=60),
    )
    return _finding("module-unmasked", what, "note")


def _finding(id: str, what: str, severity: Severity) -> Finding:
    remedy = _("visformer.watch(module) shows the module's own numbers.")
    return Finding(id, _("Settings"), what, remedy, severity)


MOST_PAIRS = 16
MOST_BYTES = 1 << 20
_BETTER = 0.98  # factor by which one more setting must lower the loss
_FAR = 0.5  # share of the loss of guessing: trained models are far below it
_SECONDS = 15.0  # time limit of each of the two searches
_JOINTLY = "norm_first", "embedding_scale", "activation", "heads"
_ALONE = "mask_rule", "position_axis"
# of a run, in the form of “--change”
_CHANGES = "causal off", "multiply", "scale off", "positions none", "positions halves"


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


def read_references(path: Path) -> tuple[Pair, ...]:
    """Read the first pairs of a file: source, tab, target on each line."""
    data, name = read_regular(path, MOST_BYTES), short(path.name)
    refuse_foreign(data[:512], name)
    pairs = []
    for line in data.decode("utf-8-sig", "replace").splitlines():
        source, tab, target = line.partition("\t")
        if tab and source.strip() and target.strip():
            pairs.append(Pair(source, target.partition("\t")[0]))
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
    def of(cls, checkpoint: Checkpoint, pairs: tuple[Pair, ...]) -> References:
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
            lengths = self.lengths[rows] if by_length else None
            sides = self.source[rows], self.fed[rows]
            given = as_intervention(change)
            traces = run_native(checkpoint, *sides, lengths, None, given, steps=False)
            for trace, ids in zip(traces, self.wanted[rows], strict=True):
                likely = torch.log_softmax(torch.as_tensor(trace.logits), -1)
                chosen = likely[torch.arange(len(ids)), torch.tensor(ids)]
                total -= float(chosen.sum())
        return total / sum(map(len, self.wanted)) if math.isfinite(total) else math.inf


def best_fits(
    checkpoint: Checkpoint, known: Collection[str], pairs: tuple[Pair, ...]
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
