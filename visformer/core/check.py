"""The table of checks, of any Model: it is run in ways that ought to agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from visformer.analysis.checks.mask_checks import padding
from visformer.analysis.checks.observation import (
    BeamsSeen,
    BrokenTensor,
    BrokenTie,
    Comparisons,
    LayoutsSeen,
    ModelState,
    Observation,
    RunSeen,
    attentions_of,
    broken_results,
    ids_of,
)
from visformer.analysis.checks.table import results_of
from visformer.core.long_work import in_turn
from visformer.core.models import BatchRow, Model, SourceTokens, WorkDone
from visformer.core.search import exhausted, search_run
from visformer.errors import InputError
from visformer.language import _
from visformer.values.arrays import Floats, log_softmax, softmax
from visformer.values.changes.position_change import PositionChange, PositionForm
from visformer.values.facts import ModelFacts
from visformer.values.finding import CheckResult
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.trace import Trace

TOLERANCE = 2e-5  # of the largest magnitude, at least 1: float32 rounding stays below
LENGTH = 12  # source tokens that are drawn where none are given, and searched steps
LIMIT = 100  # steps of the greedy run, at most
BEAMS = 4
LAYOUTS: dict[str, PositionForm] = {"sinusoidal": "interleaved", "halves": "halves"}
_STRANGERS = RuntimeError, IndexError, ValueError  # what their forward may raise
_OF_WRITERS = frozenset({"cached", "prefix", "used", "reordered", "beams", "layouts"})
# of all attentions of two rows: 128 MiB, and as much of what is added to the scores
MOST_WEIGHTS = 1 << 25
Checking = Generator[WorkDone, None, tuple[CheckResult, ...]]


def check(model: Model, source: str | Sequence[int] | None = None) -> dict[str, object]:
    """Return what every check says of a model, as plain data.

    ``source`` is a sentence; without it the model reads ids that are drawn. ``passed``
    is false if a check found a fault. Raises InputError for a source that is none.
    """
    read = None if source is None else model.vocabulary.read(source)
    results = exhausted(checking(model, read))
    return {
        "passed": all(one.verdict != "fault" for one in results),
        "checks": [_plain(one) for one in results],
    }


def _plain(one: CheckResult) -> dict[str, object]:
    return {**one._asdict(), "at": one.at and one.at._asdict()}


def checking(
    model: Model,
    source: SourceTokens | None,
    change: Intervention = NO_CHANGES,
    target: Sequence[int] | None = None,
) -> Checking:
    """Run a model in several ways, and return what every check says.

    ``target`` are the ids that the decoder consumes; without them it consumes what it
    chooses itself.
    """
    made = _Checked(model, source, change, target)
    yield from in_turn(_LOOKS, _("comparisons"), made.look)
    return (*results_of(made.seen(), made.known), *made.shortened)


class _FullPass(NamedTuple):
    """What one sentence gave: [T, V], and its Trace if that is all of it."""

    logits: Floats
    trace: Trace


class _Checked:
    """One model, sentence and change, and what was seen of them so far."""

    def __init__(
        self,
        model: Model,
        source: SourceTokens | None,
        change: Intervention,
        target: Sequence[int] | None,
    ) -> None:
        self._model, self._change = model, change
        self._drawn = source is None
        self._source, self._given, self.shortened = _shortened(
            model.facts, source or _drawn(model), target
        )
        self._compared = Comparisons(limit=TOLERANCE)
        self._seen = Observation(run=(), state=ModelState())
        self._why = {
            "labels": _("No reference was given."),
            "strange": _("Only a loop that is watched has a cache of its own."),
        }
        self.known = model.findings[:0]
        self._two = "cross" in model.facts.kinds
        self._traces: list[Trace] = []
        self._chosen: list[int] = []
        self._native = known = model.facts.known  # None: its layers are not known
        tokens = known.decoder_norm_length if known else 0
        self._target = [max(model.facts.bos, 0)] * max(1, tokens)

    def look(self, name: str) -> None:
        """Make one comparison, or say why it cannot be made."""
        if name not in ("ran", "best") and not self._traces:
            self._why[name] = self._why["best"]  # there is nothing to compare
            return
        try:
            if name in _OF_WRITERS and not self._chosen:
                raise InputError("It reads text and writes none.")
            _LOOKS[name](self)
        except InputError as error:  # the model cannot be run so
            self._why[name] = str(error)
        except _STRANGERS:
            self._why[name] = _("The model does not take such an input.")

    def seen(self) -> Observation:
        """Return all that was seen."""
        model, traces = self._model, self._traces
        state = model.extras.state
        found = replace(
            self._seen,
            state=ModelState() if state is None else state(),
            compared=self._compared,
            why=self._why,
            source=bool(self._source.ids) and "encoder" in model.facts.kinds,
            target="decoder" in model.facts.kinds,
            pad=model.facts.pad if model.facts.pad >= 0 else None,
        )
        if self._drawn:
            self._why["words"] = _("No sentence was given: ids were drawn.")
        else:
            unknown = [at for at, x in enumerate(self._source.tokens) if _is_unknown(x)]
            words = len(self._source.tokens) or None
            found = replace(found, words=words, unknown=tuple(unknown))
        if not traces:
            return found
        run = attentions_of(traces)
        if any(trace.certificate for trace in traces):
            # those of a library, which were judged when they were watched
            own = frozenset(one.module for one in run)
            found = replace(found, state=replace(found.state, own_scale=own))
            found = replace(found, watched=True)
        return replace(found, run=run)

    # ---- runs ------------------------------------------------------------------------

    def _full(
        self,
        source: Sequence[int] | None = None,
        target: Sequence[int] | None = None,
        change: Intervention | None = None,
    ) -> _FullPass:
        """Run one whole pass."""
        change = self._change if change is None else change
        read = self._source if source is None else SourceTokens([*source])
        ids = self._target if target is None else [*target]
        try:
            trace = self._model.batch([BatchRow(read, ids)], [change])[0]
        except InputError:
            run = self._model.begin(read, change, None)
            trace = run.start
            if ids:
                trace = run.to(ids, fed=True)[0].trace((), len(ids))
        return _FullPass(trace.logits if len(trace) else np.zeros((0, 0), "f"), trace)

    def _run(self) -> None:
        """Choose greedily to the end; keep what it consumed, and how likely the end is.

        Its steps are cached ones, where the model has them.
        """
        if self._native is not None and self._native.decoder_norm_length:
            raise InputError("Its norms are over all tokens, so it makes no steps.")
        run = self._model.begin(self._source, self._change, None)
        ids, ends = [*run.given], self._model.ends
        if not ids or not run.limit:
            self._target = []
            raise InputError("It reads text and writes none.")
        rows: list[Floats] = []
        given, steps, limit = len(ids), 0, min(run.limit, LIMIT)
        ended = False
        pad = self._model.facts.pad  # what follows one is masked in ways of its own
        while steps < limit and not ended and not (steps and ids[-1] == pad):
            try:
                logits = run.to(ids, since=len(ids) - 1)[1].logits[-1]
            except _STRANGERS:  # it has no more positions, say
                if not rows:
                    raise
                break
            rows.append(np.asarray(logits, np.float32))
            scores = logits[None].clone()
            consumed = torch.tensor([ids])
            last = torch.tensor([steps + 1 == run.limit])
            scores = run.rules.restrict(scores, consumed, last, ends, given=given)
            chosen = int(scores.argmax())
            ended, steps = chosen in ends, steps + 1
            ids = [*ids, chosen]
        self._chosen, self._stepped = ids[given:], np.stack(rows)  # [n, V]
        self._target = ids[:-1] if self._given is None else [*self._given]
        self._begun = ids[:given]
        if ends and self._two:
            ran = _ended(self._stepped, ends, steps, ended)
            self._seen = replace(self._seen, ran=ran)
        else:
            self._why["ran"] = _("It goes on with a text, which need not end.")

    def _pass(self) -> None:
        full = self._own = self._full()
        self._traces = [full.trace]
        self.known = full.trace.certificate.findings if full.trace.certificate else ()
        self._seen = replace(self._seen, finite=True, broken=broken_results(full.trace))
        if not len(full.trace):
            return
        best = full.logits.argmax(-1)[None]
        surest = softmax(full.logits).max(-1)[None]
        given = ids_of([full.trace], "target")
        self._seen = replace(
            self._seen, given=given, rows_out=True, best=best, surest=surest
        )

    def _again(self) -> None:
        self._compare(repeated=self._distance(self._full().trace))

    def _steps(self) -> None:
        """Compare the cached steps of the run with the full pass."""
        consumed = (*self._begun, *self._chosen[:-1])
        full = self._own if self._given is None else self._full(target=consumed)
        # log p: where a model ends in a softmax, its Trace has no other logits
        whole = log_softmax(full.logits[len(self._begun) - 1 :])
        rows = np.abs(log_softmax(self._stepped) - whole).max(1)
        rows = np.nan_to_num(rows / max(1.0, np.abs(whole).max()), nan=np.inf)
        over = rows > TOLERANCE
        row = int(over.argmax() if over.any() else rows.argmax())
        known = self._native
        restarts = known is not None and known.position_axis == "restart"
        self._compare(
            cached=(_("output"), len(self._begun) - 1 + row, float(rows[row])),
            restarts=restarts,
        )

    def _prefix(self) -> None:
        """Compare the rows before the last with those before another last token."""
        if len(self._target) < 2:
            raise InputError("The run has one row.")
        *first, last = self._target
        other = self._full(target=[*first, last - 1 if last else last + 1]).logits
        unused = ("target",) if np.array_equal(other, self._own.logits) else ()
        known = self._compared.unused
        self._compare(
            prefix=_apart(other[:-1], self._own.logits[:-1]), unused=(*known, *unused)
        )

    def _batch(self) -> None:
        """Compare the sentence alone with its row of a padded batch."""
        ids, target, known = self._source.ids, self._target, self._native
        end = self._model.ends[:1] or tuple(ids[-1:])
        room = known is None or len(target) < known.max_positions
        rows = [
            BatchRow(self._source, target),
            BatchRow(
                SourceTokens([*ids, *end]),
                [*target, *target[-1:]][: len(target) + room],
            ),
        ]
        traces = self._model.batch(rows, [self._change] * 2)
        shapes = {(len(one.source_ids), len(one.target_ids)) for one in traces}
        if len(shapes) == 1:  # padded ones, with all rows
            self._traces = traces
            if self._chosen:
                best = np.stack([one.logits.argmax(-1) for one in traces])
                surest = np.stack([softmax(one.logits).max(-1) for one in traces])
                given = ids_of(traces, "target")
                self._seen = replace(self._seen, given=given, best=best, surest=surest)
            if padding(self.seen()) is not None:  # their rows can only differ
                raise InputError("The rows of the batch read padding.")
        self._compare(rows={0: self._distance(traces[0])})

    def _distance(self, trace: Trace) -> float:
        """Return how far the rows of the sentence's own pass are from another's."""
        own, n = self._own, len(self._own.trace)
        read = trace.encoder_rows[: len(self._source.ids)]
        written = _apart(trace.logits[:n], own.logits) if n else 0.0
        return max(written, _apart(read, own.trace.encoder_rows))

    def _equal_rows(self) -> None:
        row = BatchRow(self._source, self._target)
        traces = self._model.batch([row] * 3, [self._change] * 3)
        n = len(self._own.trace)
        apart = [
            _apart(x.logits[:n], self._own.logits)
            if n
            else _apart(x.encoder_rows, self._own.trace.encoder_rows)
            for x in traces
        ]
        self._compare(alike=tuple(apart))

    def _other_source(self) -> None:
        if not self._two:
            raise InputError("It has no decoder that reads a source.")
        other = [id - 1 if id else id + 1 for id in self._source.ids]
        self._compare(used=_apart(self._full(other).logits, self._own.logits))

    def _other_order(self) -> None:
        """Compare with the source in reverse, but for what ends it."""
        *words, last = self._source.ids
        turned = [*words[::-1], last]
        if self._native is not None and self._native.positions == "none":
            raise InputError("The model is declared to have no positions.")
        if not self._two or turned == self._source.ids:
            raise InputError("There is no source whose tokens can change places.")
        self._compare(reordered=_apart(self._full(turned).logits, self._own.logits))

    def _search(self) -> None:
        """Search with one beam and with several, as far as a few steps."""
        ends = self._model.ends

        limit = min(LENGTH, len(self._chosen))

        def searched(beams: int) -> Any:
            run = self._model.begin(self._source, self._change, limit)
            return run, exhausted(search_run(run, beams, ends))

        (run, one), (_run, several) = searched(1), searched(BEAMS)
        sums = np.nan_to_num(several.sums[:, : several.beams], neginf=-1e30)
        above = np.argwhere(np.diff(sums, axis=1) > 1e-4)
        steps = min(len(one.best), limit - 1)  # at the limit other rules may hold
        differ = [at for at in range(steps) if one.best[at] != self._chosen[at]]
        score = None
        pad = self._model.facts.pad in several.best
        if several.finished and not run.rules.restricts and several.best and not pad:
            ids = [*run.given, *several.best]
            logits = self._full(target=ids[:-1]).logits[len(run.given) - 1 :]
            own = log_softmax(logits)[np.arange(len(several.best)), several.best]
            score = abs(float(own.sum()) - several.ranked()[0].logprob)
        first = tuple(map(int, above[0])) if len(above) else None
        if first is not None:
            first = (first[0], first[1] + 1)
        self._compare(
            beams=BeamsSeen(cast(Any, first), differ[0] if differ else None, score)
        )

    def _layouts(self) -> None:
        """Measure how sure the model is with the sinusoids in either order."""
        known = self._model.facts.known
        if known is None or known.positions not in LAYOUTS:
            raise InputError("Its positions are no sinusoids.")
        if self._drawn:
            raise InputError("No sentence was given: ids were drawn.")
        others = [one for one in self._change if not isinstance(one, PositionChange)]
        own = "" if len(others) < len(self._change) else LAYOUTS[known.positions]
        found = []
        for form in LAYOUTS.values():
            if form == own:
                continue
            change = Intervention(*others, PositionChange(form))
            self._model.can(change, self._source)
            found.append((self._surprise(change), form))
        logs = log_softmax(self._stepped)[range(len(self._chosen)), self._chosen]
        self._compare(layouts=LayoutsSeen(-float(logs.mean()), *min(found)))

    def _surprise(self, change: Intervention) -> float:
        """Return the mean of -log p of a greedy run, in nats."""
        run = self._model.begin(self._source, change, 2 * LENGTH)
        found = exhausted(search_run(run, 1, self._model.ends))
        (best,) = found.ranked()[:1] or (None,)
        return math.inf if best is None else -best.logprob / (best.step + 1)

    def _compare(self, **found: Any) -> None:
        self._compared = replace(self._compared, **found)


_LOOKS: dict[str, Callable[[_Checked], None]] = {  # what there is to do, in this order
    "ran": _Checked._run,
    "best": _Checked._pass,
    "repeated": _Checked._again,
    "cached": _Checked._steps,
    "prefix": _Checked._prefix,
    "rows": _Checked._batch,
    "alike": _Checked._equal_rows,
    "used": _Checked._other_source,
    "reordered": _Checked._other_order,
    "beams": _Checked._search,
    "layouts": _Checked._layouts,
}


def _drawn(model: Model) -> SourceTokens:
    """Return a source of ids that the model has, none of them special."""
    facts, size = model.facts, model.vocabulary.numbers or model.vocabulary.size
    special = {facts.pad, facts.bos, facts.eos, facts.source_pad, *model.ends}
    known = facts.known
    if known is not None:
        size = known.source_vocabulary
    length = LENGTH if known is None else min(LENGTH, known.max_positions - 2)
    if known is not None and known.encoder_norm_length:
        length = known.encoder_norm_length
    ids = [id for id in range(size) if id not in special] or [*range(size)]
    drawn = np.random.default_rng(0).choice(ids, max(1, length)).tolist()
    try:
        return model.vocabulary.read(drawn)
    except InputError:  # of a model that cannot be stepped
        return SourceTokens(drawn)


def _shortened(
    facts: ModelFacts, source: SourceTokens, target: Sequence[int] | None
) -> tuple[SourceTokens, Sequence[int] | None, tuple[CheckResult, ...]]:
    """Return as much of a source and a target as has room, and notes of what has not.

    A source keeps the token that ends it.
    """
    heads = sum(facts.layers(kind) * facts.heads(kind) for kind in facts.kinds)
    most = math.isqrt(MOST_WEIGHTS // (2 * max(1, heads)))  # a batch has two rows
    normed = facts.known is not None and facts.known.encoder_norm_length
    remedy = _("Check a shorter text to have all of it read.")
    notes = list[CheckResult]()
    if len(source.ids) > most and not normed:
        ids, tokens, first = source.ids, source.tokens, most - 1
        source = SourceTokens([*ids[:first], ids[-1]], (*tokens[:first], *tokens[-1:]))
        title = _("All of the source is read")
        what = _(
            "The checks look at every weight, so of a source as long as this one they "
            "read the first {n} tokens and the last.",
            n=first,
        )
        notes.append(CheckResult("source-shortened", title, "note", "", what, remedy))
    if target is not None and len(target) > most and not normed:
        target, title = target[:most], _("All of the target is read")
        what = _(
            "The checks look at every weight, so of a target as long as this one they "
            "read the first {n} tokens.",
            n=most,
        )
        notes.append(CheckResult("target-shortened", title, "note", "", what, remedy))
    return source, target, tuple(notes)


def _is_unknown(token: str) -> bool:
    return token.lower().startswith(("<unk", "[unk"))


def _ended(logits: Floats, ends: Sequence[int], steps: int, ended: bool) -> RunSeen:
    """Return how likely the end of a sentence was in rows [n, V]."""
    p = softmax(logits)[:, [*ends]].max(1)  # [n]
    row = int(np.nan_to_num(p, nan=-1).argmax())
    rank = 1 + int((logits[row] > logits[row, [*ends]].max()).sum())
    return RunSeen(steps, ended, float(p[row]), row, rank, logits.shape[1])


def _apart(one: Floats, other: Floats) -> float:
    """Return the largest difference, of the largest magnitude, at least 1."""
    if not one.size:
        return 0.0
    size = max(1.0, float(np.abs(other).max()))
    return float(np.abs(one - other).max() / size)


# ---- what is known of the parameters -------------------------------------------------


def module_state(
    model: nn.Module, ties: Sequence[tuple[str, Tensor, str, Tensor]] = ()
) -> ModelState:
    """Return what is known of a module; ``ties`` are tables declared to be one."""
    return ModelState(
        broken=tuple(broken_tensors(model)),
        dropping=tuple(
            name
            for name, one in model.named_modules()
            if one.training and (getattr(one, "rate", 0) or _rate(one))
        ),
        gated=is_gated(model),
        tied=bool(ties),
        ties=len(ties),
        broken_ties=tuple(
            BrokenTie(name, other, _apart_tables(first, second))
            for name, first, other, second in ties
            if first is not second
        ),
    )


def _rate(module: nn.Module) -> float:
    return float(module.p) if isinstance(module, nn.modules.dropout._DropoutNd) else 0.0


def _apart_tables(first: Tensor, second: Tensor) -> float:
    if first.shape != second.shape:
        return math.inf
    return float((first - second).detach().abs().max())


def is_gated(model: nn.Module) -> bool:
    """Whether a parameter that is no bias is all 0, as gates begin."""
    return any(
        not name.endswith("bias") and not bool(x.any())
        for name, x in model.named_parameters()
        if not x.is_meta and x.layout == torch.strided
    )


def broken_tensors(
    model: nn.Module, *, harmless: bool = False
) -> Iterable[BrokenTensor]:
    """Yield parameters that are not finite, and buffers that contain NaN.

    If the output is fine (``harmless``), frozen parameters may contain NaN. Masks
    (0 and -inf) are never reported.
    """
    parameters = dict(model.named_parameters())
    for name, tensor in [*parameters.items(), *model.named_buffers()]:
        if not tensor.is_floating_point() or tensor.layout != torch.strided:
            continue
        if tensor.is_nested or tensor.dtype.itemsize == 1:  # has no sum
            continue
        if tensor.is_meta or torch.isfinite(tensor.detach().sum()):
            continue  # all finite, but the sum overflowed
        mask = (tensor == 0) | (tensor == -torch.inf)
        if mask.all() or (harmless and not tensor.requires_grad):
            continue
        bad = ~torch.isfinite(tensor) if name in parameters else tensor.isnan()
        if count := int(bad.sum()):
            yield BrokenTensor(name, count, tensor.numel())
