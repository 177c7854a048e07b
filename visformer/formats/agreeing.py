"""Settings under which a checkpoint computes the same as the module of its weights.

Weights do not show all rules of a program. A copy of a module in memory is therefore
called once on a few ids, and its attention shows which settings it has.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from visformer.core.checkpoint import Checkpoint
from visformer.files import listed, short
from visformer.formats.given_options import GivenOptions
from visformer.formats.tutorial_files import TutorialFiles
from visformer.language import _
from visformer.values.finding import Finding, Severity
from visformer.values.trace import Trace
from visformer.watching.compared_runs import Comparison, compared
from visformer.watching.comparing import attempts
from visformer.watching.module_calls import same_chances
from visformer.watching.switches import (
    Attempt,
    Switch,
    remedies,
    spare_of,
    switches_of,
    words_of,
)
from visformer.watching.watcher import watch

_ROWS = 2
_LENGTHS = 7, 6  # source and target: they differ, so that batch-second calls fail
_SPECIAL = 4  # special ids, usually including the padding
_POSITIONS = {  # changes of a run that are also settings
    "positions none": "none",
    "positions halves": "halves",
    "positions interleaved": "sinusoidal",
}


class Agreement(NamedTuple):
    """Options, completed by a call of the module, with a report."""

    options: GivenOptions
    findings: tuple[Finding, ...] = ()


def agreement(
    module: nn.Module,
    read: TutorialFiles,
    options: GivenOptions,
    opened: Callable[[GivenOptions], Checkpoint],
) -> Agreement:
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
        return Agreement(options, (_not_called(error),))
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
        return Agreement(_with(options, fields), (differs,))
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
    return Agreement(_with(options, fields), tuple(said))


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
        """Return a function that compares runs of a checkpoint with the first rows."""
        source, target = (side[:rows] for side in self.ids)
        return attempts(
            spare_of(checkpoint),
            (source, target),
            lambda made: compared(self.traces[:rows], made),
        )

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
        mended, _tried = remedies(switches, attempt, found)
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
        changes=words_of(faults),
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
