"""Compare two runs: the first place where their attention differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from visformer.language import _
from visformer.values.arrays import Floats, Ids, log_softmax
from visformer.values.step import Step
from visformer.values.trace import Trace
from visformer.values.watched_attention import WatchedAttention, WatchedKind
from visformer.watching.watcher import Watched

SAME = 1e-4  # weights that differ by less are the same
LEAST = 1e-30  # smaller probabilities are too inaccurate to compare
_GIVEN = "given"  # the layout of weights that have no queries, keys and values
ComparedRun = Watched | Sequence[Trace]
AttentionLayer = tuple[WatchedKind, int]
SAME_OUTPUT = 1e-3  # log-probabilities that differ by less are the same
STACKS: tuple[tuple[WatchedKind, ...], ...] = (
    *(("encoder",), ("decoder", "cross"), ("merged",), ("other",)),
)


class _WatchedSide:
    """All attention of a watched run, including what fits into no Trace."""

    def __init__(self, watched: Watched) -> None:
        self._found: dict[WatchedKind, list[WatchedAttention]] = {}
        for one in watched.last_run if watched.found else ():
            self._found.setdefault(one.kind, []).append(one)

    def layers(self, kind: WatchedKind) -> int:
        return len(self._found.get(kind, ()))

    def weights(self, place: AttentionLayer) -> list[Floats]:
        return [*self._at(place).weights]

    def read(self, place: AttentionLayer) -> list[Floats]:
        one = self._at(place)
        shared = one.weights.shape[1] // one.values.shape[1]
        return [*(one.weights @ one.values.repeat(shared, 1))]

    def ids(self, place: AttentionLayer) -> list[tuple[Ids | None, Ids | None]]:
        one, rows = self._at(place), len(self.weights(place))
        sides = (one.query_ids, one.key_ids)
        queries, keys = ([None] * rows if x is None else [*x] for x in sides)
        return [*zip(queries, keys, strict=True)]

    def _at(self, place: AttentionLayer) -> WatchedAttention:
        kind, layer = place
        return self._found[kind][layer]


class _TraceSide:
    """The attention stored in Traces, one for each row."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = traces

    def layers(self, kind: WatchedKind) -> int:
        found = {one.layers(kind) if kind in one.kinds else 0 for one in self._traces}
        return min(found, default=0)

    def weights(self, place: AttentionLayer) -> list[Floats]:
        return [one.attention(*place) for one in self._traces]  # type: ignore[arg-type]

    def read(self, place: AttentionLayer) -> list[Floats]:
        if any(one.model.layout == _GIVEN for one in self._traces):
            return []
        made, (kind, _layer) = [], place
        for one in self._traces:
            values = [one.values(*place, head) for head in range(one.heads(kind))]  # type: ignore[arg-type]
            made.append(np.stack([*map(np.matmul, one.attention(*place), values)]))  # type: ignore[arg-type]
        return made

    def ids(self, place: AttentionLayer) -> list[tuple[Ids | None, Ids | None]]:
        kind, _layer = place
        made = []
        for one in self._traces:
            sides = _known(one.source_ids), _known(one.target_ids)
            queries = sides[0] if kind == "encoder" else sides[1]
            made.append((queries, sides[1] if kind == "decoder" else sides[0]))
        return made


ComparedSide = _WatchedSide | _TraceSide


def _known(ids: Ids) -> Ids | None:
    """Return ids, or None for the zeros that stand for unknown ids in a Trace."""
    return ids if ids.any() else None


def first_difference(one: ComparedSide, other: ComparedSide) -> Comparison:
    """Return the first difference, in order of computation."""
    heads = (0, 0)
    for place in _places(one, other):
        found = _without_layer(one, other, place) or _at(one, other, place)
        if found.kind is not None:
            return found
        heads = heads if any(heads) else found.heads
    return Comparison(None, heads=heads)


def compared(one: ComparedRun, other: ComparedRun) -> Comparison:
    """Return the first difference between two runs, compared row by row.

    If one side has a single row, it is compared with the row that reads the same ids.
    """
    mine, theirs = _rows(one), _rows(other)
    if isinstance(one, Watched) and isinstance(other, Watched):
        return _with_output(
            first_difference(_WatchedSide(one), _WatchedSide(other)), mine, theirs
        )
    if len(mine) != len(theirs):
        mine, theirs = _like(mine, theirs), _like(theirs, mine)
    sides = (_TraceSide([x.trace for x in rows]) for rows in (mine, theirs))
    return _with_output(first_difference(*sides), mine, theirs)


class _ComparedRow(NamedTuple):
    trace: Trace
    logits: Floats | None  # [T, V]


def _rows(run: ComparedRun) -> list[_ComparedRow]:
    """Return the rows of a run, with logits if they are known."""
    traces = run.traces if isinstance(run, Watched) else run
    return [
        _ComparedRow(
            one, one.logits if one.output_weight is not None else one.own_logits
        )
        for one in traces
    ]


def _like(rows: list[_ComparedRow], others: list[_ComparedRow]) -> list[_ComparedRow]:
    """If the other run has a single row, return only the row with the same ids."""
    if len(others) != 1:
        return rows
    return [x for x in rows if _reads(x.trace) == _reads(others[0].trace)][:1] or rows


def _with_output(
    found: Comparison, mine: list[_ComparedRow], theirs: list[_ComparedRow]
) -> Comparison:
    if len(mine) != len(theirs):
        return found
    gaps = [_log_probabilities(a, b) for a, b in zip(mine, theirs, strict=True)]
    return replace(found, log_probabilities=max(gaps, default=math.nan))


def _log_probabilities(one: _ComparedRow, other: _ComparedRow) -> float:
    """Return the largest difference between next-token log-probabilities."""
    first, second = one.logits, other.logits
    with np.errstate(all="ignore"):
        if first is not None and second is not None and first.shape == second.shape:
            gaps = np.abs(log_softmax(first) - log_softmax(second))
        else:  # a file stores only the best ones
            steps = zip(one.trace.steps, other.trace.steps, strict=False)
            pairs = [(_best(a), _best(b)) for a, b in steps if a.id == b.id]
            if not pairs:
                return math.nan
            gaps = np.concatenate([_logs_apart(a, b) for a, b in pairs])
    return float(np.nan_to_num(gaps, nan=math.inf).max())


def _best(step: Step) -> Floats:
    """Return the probabilities of a step's choice and of its candidates."""
    return np.array([step.probability, *step.candidates.numbers[1]], np.float32)


def _logs_apart(one: Floats, other: Floats) -> Floats:
    count = min(len(one), len(other))
    logs: Floats = np.log(np.stack([one[:count], other[:count]]).clip(LEAST))
    gaps: Floats = np.abs(logs[0] - logs[1])
    return gaps


def _reads(trace: Trace) -> tuple[object, ...]:
    ids = trace.source_ids.tolist(), trace.target_ids.tolist()
    return (*ids, trace.source, trace.target) if not any(map(any, ids)) else ids


def _places(one: ComparedSide, other: ComparedSide) -> Iterator[AttentionLayer]:
    for kinds in STACKS:
        counts = {kind: max(one.layers(kind), other.layers(kind)) for kind in kinds}
        for layer in range(max(counts.values())):
            yield from ((kind, layer) for kind in kinds if layer < counts[kind])


def _without_layer(
    one: ComparedSide, other: ComparedSide, place: AttentionLayer
) -> Comparison | None:
    kind, layer = place
    counts = one.layers(kind), other.layers(kind)
    if layer < min(counts):
        return None
    problem = _(
        "They have {first} and {second} layers of {kind} attention.",
        first=counts[0],
        second=counts[1],
        kind=kind,
    )
    return Comparison(kind, layer, difference=math.inf, problem=problem)


def _at(one: ComparedSide, other: ComparedSide, place: AttentionLayer) -> Comparison:
    """Return the first difference at a place that both runs have."""
    first, second = one.weights(place), other.weights(place)
    heads = len(first[0]), len(second[0])
    found = Comparison(*place, difference=math.inf, heads=heads)
    if problem := _misfit(one, other, place, first, second):
        return replace(found, problem=problem)
    if heads[0] != heads[1]:
        problem = _(
            "They have {first} and {second} heads in {kind} attention, layer {layer}.",
            first=heads[0],
            second=heads[1],
            kind=place[0],
            layer=place[1] + 1,
        )
        return replace(found, problem=problem)
    return (
        _apart(found, first, second)
        or _apart(found, one.read(place), other.read(place), in_values=True)
        or Comparison(None, heads=heads)
    )


def _misfit(
    one: ComparedSide,
    other: ComparedSide,
    place: AttentionLayer,
    first: Sequence[Floats],
    second: Sequence[Floats],
) -> str:
    """Explain why two arrays cannot be compared; "" if they can."""
    where = {"kind": place[0], "layer": place[1] + 1}
    if len(first) != len(second):
        return _(
            "In {kind} attention, layer {layer}, their batches have {first} and "
            "{second} rows, and no row is in both.",
            first=len(first),
            second=len(second),
            **where,
        )
    for a, b in zip(first, second, strict=True):
        if a.shape[1:] != b.shape[1:]:
            return _(
                "In {kind} attention, layer {layer}, they have {first} and {second} "
                "queries and keys.",
                first=" x ".join(map(str, a.shape[1:])),
                second=" x ".join(map(str, b.shape[1:])),
                **where,
            )
    rows = zip(one.ids(place), other.ids(place), strict=True)
    for row, (mine, theirs) in enumerate(rows):
        for a_ids, b_ids in zip(mine, theirs, strict=True):
            if a_ids is not None and b_ids is not None and (a_ids != b_ids).any():
                at = int((a_ids != b_ids).argmax())
                return _(
                    "In {kind} attention, layer {layer}, they read different tokens: "
                    "token {at} of row {row} is {first} and {second}.",
                    at=at + 1,
                    row=row + 1,
                    first=int(a_ids[at]),
                    second=int(b_ids[at]),
                    **where,
                )
    return ""


def _apart(
    found: Comparison,
    first: Sequence[Floats],
    second: Sequence[Floats],
    *,
    in_values: bool = False,
) -> Comparison | None:
    """Return the first head whose arrays, [H, Q, .] for each row, differ; else None."""
    pairs = [(a, b) for a, b in zip(first, second, strict=False) if a.shape == b.shape]
    if not pairs:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.stack([_largest(a - b) for a, b in pairs])  # [rows, H]
        sizes = np.stack([np.maximum(_largest(a), _largest(b)) for a, b in pairs])
        same = gaps < SAME * np.maximum(sizes, 1)  # False where something is NaN
    if same.all():
        return None
    head = int((~same.all(0)).argmax())
    gap = gaps[:, head]
    row = int(np.nan_to_num(gap, nan=math.inf).argmax())
    problem = ""
    if math.isnan(gap[row]):
        problem = _(
            "In {kind} attention, layer {layer}, head {head}, row {row} of the batch, "
            "some numbers are NaN or infinite.",
            kind=found.kind,
            layer=found.layer + 1,
            head=head + 1,
            row=row + 1,
        )
    return replace(
        found,
        head=head,
        row=row,
        difference=float(gap[row]),
        in_values=in_values,
        problem=problem,
    )


def _largest(array: Floats) -> Floats:
    made: Floats = np.abs(array).max((1, 2), initial=0)
    return made


# ---- Comparison: where the attention of two runs first differs -----------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first difference between the attention of two runs.

    ``kind`` is None if nothing differs. ``layer``, ``head`` and ``row`` (the row of the
    batch with the largest difference) count from 0. ``difference`` is the largest
    difference there: NaN if values are NaN, infinite if shapes differ, which
    ``problem`` explains. With ``in_values`` the weights agree, but the values that they
    are applied to do not. ``heads`` are the numbers of heads of both.

    ``remedy`` is the call that disables dropout, such as ``"a.eval()"``, if that alone
    removes the difference. ``log_probabilities`` is the largest
    difference between log-probabilities of the next token, ``output`` between the
    outputs of two watched models, relative to max(1, row magnitude); both are NaN if
    unknown for either run.
    """

    kind: WatchedKind | None
    layer: int = 0
    head: int = 0
    difference: float = 0.0
    heads: tuple[int, int] = (0, 0)
    log_probabilities: float = math.nan
    remedy: str = ""
    row: int = 0
    in_values: bool = False
    problem: str = ""
    output: float = math.nan
    certifiable: bool = False  # at least one side is a module

    @property
    def same_output(self) -> bool:
        """Whether the next tokens' probabilities agree, or are unknown."""
        return not self.log_probabilities > SAME_OUTPUT

    @property
    def progress(self) -> tuple[float, ...]:
        """The position of the difference in the order of computation, as a sort key."""
        if self.kind is None:
            return (math.inf,)
        stack = next(at for at, kinds in enumerate(STACKS) if self.kind in kinds)
        inside = STACKS[stack].index(self.kind)
        gap = math.inf if math.isnan(self.difference) else self.difference
        return stack, self.layer, inside, self.in_values, self.head, -gap

    def __str__(self) -> str:
        """Describe the difference in a few sentences."""
        said = [self.problem or self._place()]
        if self.row and not self.problem:
            said.append(_("It is largest in row {row} of the batch.", row=self.row + 1))
        if self.remedy:
            said.append(_("It vanishes with {remedy}.", remedy=self.remedy))
        if self.certifiable and not self.remedy and self.kind is not None:
            said.append(
                _(
                    "visformer.watch(module).certify(source, target) looks for faults "
                    "in a module's forward pass."
                )
            )
        return " ".join(said)

    def _place(self) -> str:
        if self.kind is None:
            return self._after()
        where = {
            "kind": self.kind,
            "layer": self.layer + 1,
            "head": self.head + 1,
            "difference": self.difference,
        }
        if self.in_values:
            return _(
                "They differ first in {kind} attention, layer {layer}, head {head}, by "
                "{difference:.2g}: its weights are the same, but the values that they "
                "weight are not.",
                **where,
            )
        return _(
            "They differ first in {kind} attention, layer {layer}, head {head}, by "
            "{difference:.2g}.",
            **where,
        )

    def _after(self) -> str:
        """Report that all attention agrees, and whether the output does."""
        if self.log_probabilities > SAME_OUTPUT:
            return _(
                "Attention is the same in every head, but the logarithms of the "
                "probabilities differ by {difference:.2g}: look after the last "
                "attention.",
                difference=self.log_probabilities,
            )
        if math.isnan(self.log_probabilities) and self.output > SAME_OUTPUT:
            return _(
                "Attention is the same in every head, but the outputs differ by "
                "{difference:.2g}: look after the last attention.",
                difference=self.output,
            )
        if math.isnan(self.log_probabilities) and math.isnan(self.output):
            return _(
                "Attention is the same in every head. What follows it was not "
                "compared: the logits of both are not known."
            )
        return _("Attention is the same in every head, and so is what follows it.")
