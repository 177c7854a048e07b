"""Observation: what the checks know of a model and of one pass through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from visformer.language import _
from visformer.values.arrays import Bools, Floats, Ids, later
from visformer.values.attention_heads import bias_rows
from visformer.values.facts import KINDS, STACKS, Kind, SentenceSide
from visformer.values.finding import EvidencePlace
from visformer.values.trace import Trace
from visformer.values.watched_attention import TOLERANCE, WatchedAttention, is_causal

READ = 1e-6  # a weight above this reads its key


class BrokenTensor(NamedTuple):
    """A parameter, buffer or result with numbers that are none; places of a result."""

    name: str  # of a result, its module's
    bad: int  # how many are NaN or infinite
    total: int


class UnreadHead(NamedTuple):
    """A head whose columns of the output projection are 0."""

    module: str  # of the attention
    head: int  # from 0
    weight: str  # the parameter's name


class EqualLayers(NamedTuple):
    """Two modules with the same numbers in tensors of their own."""

    first: str
    second: str
    tensors: int


class BrokenTie(NamedTuple):
    """Two tables that are declared to be one."""

    first: str
    second: str
    apart: float  # the largest difference; 0 of a copy


class StrangeToken(NamedTuple):
    """A token in a cache that is another one in the ids that a loop has."""

    row: int  # from 0, of the batch
    at: int  # from 0, in the row
    cached: int
    now: int


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelState:
    """What is known of the model apart from its numbers in a pass."""

    broken: tuple[BrokenTensor, ...] = ()
    fast_path: BrokenTensor | None = None  # a result of torch's fast path
    dropping: tuple[str, ...] = ()  # modules in training mode that drop numbers
    dropping_always: tuple[str, ...] = ()  # those that do so in evaluation mode
    unread: tuple[UnreadHead, ...] = ()
    equal: tuple[EqualLayers, ...] = ()
    ties: int | None = None  # how many tables are declared to be others; None: unknown
    broken_ties: tuple[BrokenTie, ...] = ()
    gated: bool = False  # a parameter that is no bias is all 0, as gates begin
    tied: bool = False  # something is multiplied by the table of an embedding
    # modules whose scale is a choice: it is no product of their own projections, it
    # comes from a library, or from a number that is learned or configured
    own_scale: frozenset[str] = frozenset()
    perhaps_normed: frozenset[str] = frozenset()  # modules whose heads a norm may scale
    alone: frozenset[str] = frozenset()  # whose result is added to nothing else


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparisons:
    """How far outputs of several calls differ; None where it was not compared.

    Relative to max(1, row magnitude), as ``limit``, which is what they may differ by.
    """

    limit: float
    repeated: float | None = None  # the same call again
    layers_made: tuple[str, ...] = ()  # modules made in ``forward`` meanwhile
    alike: tuple[float, ...] = ()  # each of several equal rows from the row alone
    rows: dict[int, float] | None = None  # each row of the batch from it alone
    prefix: float | None = None  # rows before the last token from one with another
    moved: bool = False  # tokens stand in another order than they were given in
    unused: tuple[str, ...] = ()  # "source", "target": changed, and nothing differs
    cached: tuple[str, int, float] | None = None  # module, row, difference of steps
    strange: StrangeToken | None = None
    restarts: bool = False  # a cached step's queries are those of the first position
    used: float | None = None  # from a pass over another source
    reordered: float | None = None  # from a pass over the source in another order
    beams: BeamsSeen | None = None
    layouts: LayoutsSeen | None = None


class BeamsSeen(NamedTuple):
    """What searches of one sentence gave."""

    unsorted: tuple[int, int] | None  # step and rank of a beam above its predecessor
    greedy: int | None  # the first step where one beam is not greedy search
    score: float | None  # between the best one's sum of log p and that of a pass


class LayoutsSeen(NamedTuple):
    """The mean of -log p of what a model chooses: as it is, and with other positions.

    In nats; ``other`` is the surer one of the two sinusoidal layouts, of that name.
    """

    own: float
    other: float
    name: str


class RunSeen(NamedTuple):
    """One greedy run to its end."""

    tokens: int
    ended: bool
    likeliest: float  # the largest probability of an end token
    row: int  # where
    least_rank: int  # the best of its ranks, from 1
    vocabulary: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Observation:
    """One pass of a model: B rows of a batch, T tokens of the side that predicts."""

    run: tuple[WatchedAttention, ...]  # all of it, in the order in which it ran
    state: ModelState
    pad: int | None = None
    source: bool = False  # whether there is one
    target: bool = False
    given: Ids | None = None  # [B, T] of the target, or of the only side
    labels: Ids | None = None  # [B, T] what each row is to predict; negative: nothing
    rows_out: bool = False  # the output has one row for each of the tokens given
    best: Ids | None = None  # [B, T] likeliest of the output
    surest: Floats | None = None  # [B, T] the probability of it
    next_token: bool = False  # labels say that each row predicts the token after it
    compared: Comparisons | None = None
    watched: bool = False  # whether its operations were, and not only its results
    finite: bool = False  # whether it was looked at the results themselves
    broken: tuple[BrokenTensor, ...] = ()  # results, from the first one on
    words: int | None = None  # how many source tokens a text gave; None: of no text
    unknown: tuple[int, ...] = ()  # which of them are unknown
    ran: RunSeen | None = None
    why: Mapping[str, str] = field(default_factory=dict)  # by field: why it is missing

    @property
    def attentions(self) -> tuple[WatchedAttention, ...]:
        """Those that could be computed again, which most checks look at."""
        return tuple(one for one in self.run if one.verified)

    @property
    def places(self) -> list[LayerPlace]:
        """Each of those with its number among those of its kind."""
        return places_of(self.attentions)


class LayerPlace(NamedTuple):
    """An attention, and which layer of its kind it is, from 1."""

    attention: WatchedAttention
    layer: int

    @property
    def words(self) -> str:
        """Where it is: a finding's ``where``."""
        return _(
            "{kind} layer {layer} ({module})",
            kind=self.attention.kind,
            layer=self.layer,
            module=self.attention.module or "forward",
        )

    def at(self, *of: int) -> EvidencePlace:
        """Return a place in it: head, row and key, as far as they are known, from 0."""
        return EvidencePlace(self.attention.kind, self.layer - 1, *of)


def places_of(attentions: Iterable[WatchedAttention]) -> list[LayerPlace]:
    """Return each attention with its number among those of its kind."""
    counts: dict[str, int] = {}
    places = []
    for one in attentions:
        counts[one.kind] = counts.get(one.kind, 0) + 1
        places.append(LayerPlace(one, counts[one.kind]))
    return places


class WeightCell(NamedTuple):
    """Where in [B, H, Q, K]; counted from 1 on screen."""

    batch: int
    head: int
    row: int
    key: int


class LargestWeight(NamedTuple):
    """The largest of the bad weights; ``fields`` of a sentence say so.

    Batch, head, row and key count from 1; n of all attentions have a bad weight.
    """

    place: LayerPlace
    fields: dict[str, float]

    @property
    def at(self) -> EvidencePlace:
        """The cell."""
        of = (int(self.fields[name]) - 1 for name in ("head", "row", "key"))
        return self.place.at(*of)


def largest(
    places: Iterable[LayerPlace], bad: Callable[[WatchedAttention], Bools | None]
) -> LargestWeight | None:
    """Return the largest of the weights that are bad, [B, H, Q, K]; None for none."""
    best: tuple[float, LayerPlace, WeightCell] | None = None
    count = total = 0
    for place in places:
        total += 1
        where = bad(place.attention)
        if where is None or not where.any():
            continue
        count += 1
        weights = np.where(where, np.nan_to_num(place.attention.weights), -1)
        at = np.unravel_index(int(weights.argmax()), weights.shape)
        if best is None or weights[at] > best[0]:
            best = float(weights[at]), place, WeightCell(*map(int, at))
    if best is None:
        return None
    weight, place, cell = best
    counted = {name: at + 1 for name, at in cell._asdict().items()}
    return LargestWeight(place, {**counted, "weight": weight, "n": count, "all": total})


def is_plain(one: WatchedAttention) -> bool:
    """Whether the softmax is one over the keys, of scores that a mask did not scale."""
    return one.over == "keys" and one.multiplied is None


def reads(one: WatchedAttention) -> Bools:
    """Which keys are read, [B, H, Q, K]; by rows that may read nothing, none."""
    may = ~one.masked.all(-1, keepdims=True)
    return np.asarray((np.nan_to_num(one.weights) > READ) & may)


def is_of_itself(one: WatchedAttention) -> bool:
    """Whether the last keys are of the queries' own tokens, and not learned."""
    queries, keys = one.weights.shape[2:]
    if one.kind == "cross" or keys < queries:
        return False
    if keys == queries:
        return True
    own, theirs = one.query_ids, one.key_ids
    if own is None or theirs is None or theirs.shape[1] != keys:
        return False
    return np.array_equal(own, theirs[:, keys - queries :])


def after(one: WatchedAttention, ahead: int = 1) -> Bools:
    """Which keys come after each query by ``ahead`` tokens or more, [Q, K]."""
    queries, keys = one.weights.shape[2:]
    return later(queries, keys, keys - queries + ahead - 1)


def padded(one: WatchedAttention, pad: int | None) -> Bools | None:
    """Which keys are padding, [B, K]; None where that is not known or none is."""
    ids = one.key_ids
    if pad is None or ids is None or not (ids == pad).any():
        return None
    if ids.shape[1] > 3 and (np.diff(ids, axis=1) == 1).all(1).any():
        return None  # one after the other: perhaps the numbers of places
    return _padding(ids, pad)


def _padding(ids: Ids, pad: int) -> Bools:
    """Which tokens of a batch are padding, [B, T].

    A pad id between other tokens is no padding. Where every row begins or ends with
    one, the first or last of them may be the sign that begins or ends a sentence.
    """
    same = ids == pad
    before = np.logical_and.accumulate(same, 1)
    after = np.logical_and.accumulate(same[:, ::-1], 1)[:, ::-1]
    if before[:, 0].all():
        before[:, 0] = False
    if after[:, -1].all():
        rows = np.arange(len(ids))
        after[rows, after.argmax(1)] = False
    found: Bools = before | after
    return found


def real_queries(one: WatchedAttention, pad: int | None) -> Bools:
    """Which queries are no padding, [B, Q]; all of them where that is not known."""
    rows, _heads, queries, _keys = one.weights.shape
    if pad is None or one.query_ids is None:
        return np.ones((rows, queries), bool)
    return ~_padding(one.query_ids, pad)


def decoder_places(seen: Observation) -> tuple[list[LayerPlace], bool]:
    """Return the attentions that ought to be causal, and whether that is known.

    It is where labels say so, or where a side that is read row by row reads another;
    a single side, or two that do not meet, are not known to be a decoder's.
    """
    own = [place for place in seen.places if place.attention.kind == "decoder"]
    two = seen.source and seen.target
    if seen.next_token:
        return own if two else seen.places, True
    kinds = {place.attention.kind for place in seen.places}
    if two:
        known = seen.given is not None and seen.rows_out
        return (own if "cross" in kinds else []), known
    return _beside_causal(seen.places), False


def _beside_causal(places: list[LayerPlace]) -> list[LayerPlace]:
    """Return the attentions of a single side where some of its layers are causal."""
    causal = {
        (stack_of(place.attention), place.attention.weights.shape[2:])
        for place in places
        if is_causal(place.attention.weights)
    }
    return [
        place
        for place in places
        if (stack_of(place.attention), place.attention.weights.shape[2:]) in causal
    ]


def stack_of(one: WatchedAttention) -> tuple[str, ...]:
    """Return an attention's path without the numbers of its layers."""
    return tuple(x for x in one.module.split(".") if not x.isdigit())


_PART = {"encoder": "self_attention", "decoder": "self_attention"}


def attentions_of(traces: Sequence[Trace]) -> tuple[WatchedAttention, ...]:
    """Return every attention of a batch: a Trace per row, all of one size."""
    first = traces[0]
    places = [
        (layer, kind) for kind in KINDS for layer in range(first.model.layers(kind))
    ]
    encoder = [x for x in places if x[1] == "encoder"]
    others = sorted(
        (x for x in places if x[1] != "encoder"),
        key=lambda x: (x[0], KINDS.index(x[1])),
    )
    return tuple(_attention(traces, kind, layer) for layer, kind in (*encoder, *others))


def ids_of(traces: Sequence[Trace], side: SentenceSide) -> Ids:
    """Return the ids of a side, [B, N]; padding, and nothing else, has the pad id."""
    pad = traces[0].model.pad

    def row(trace: Trace) -> Ids:
        ids = trace.source_ids if side == "source" else trace.target_ids
        return np.where(trace.pads(side), pad, np.where(ids == pad, -2, ids))

    return np.stack([row(trace) for trace in traces])


def _attention(traces: Sequence[Trace], kind: Kind, layer: int) -> WatchedAttention:
    first = traces[0]
    stack = "encoder" if kind == "encoder" else "decoder"
    sides: dict[Kind, tuple[SentenceSide, SentenceSide]] = {
        "encoder": ("source", "source"),
        "decoder": ("target", "target"),
        "cross": ("target", "source"),
    }
    queries, keys = sides[kind]
    captured = first.is_captured(kind, layer)

    def several(name: str) -> Floats:
        made = [getattr(trace, name)(kind, layer) for trace in traces]
        return np.stack(made)

    return WatchedAttention(
        module=f"{stack}.layers.{layer}.{_PART.get(kind, 'cross_attention')}",
        kind=kind,
        weights=several("attention"),
        queries=several("queries"),
        keys=several("keys"),
        values=several("values"),
        scale=first.scale(kind, layer),
        added=np.stack([_added(trace, kind, layer) for trace in traces]),
        difference=0.0,
        tolerance=TOLERANCE,
        linear=not captured,
        # what a watched model made of its heads was judged when it was watched
        mixed=captured and first.certificate is not None,
        query_ids=ids_of(traces, queries),
        key_ids=ids_of(traces, keys),
    )


def _added(trace: Trace, kind: Kind, layer: int) -> Floats:
    """Return what is added to the scores, [H, Q, K]: -inf where nothing may read."""
    heads = range(trace.heads(kind))
    masks = np.stack([trace.mask(kind, layer, head) for head in heads])
    bias, (_heads, *shape) = trace.added(kind, layer), masks.shape
    plus = 0 if bias is None else bias_rows(bias, slice(None), (shape[0], shape[1]))
    added: Floats = np.where(masks, plus, -np.inf).astype(np.float32)
    return added


def broken_results(trace: Trace) -> tuple[BrokenTensor, ...]:
    """Return the results that are not finite, in the order of computation."""
    found = []
    for stack in STACKS:
        facts = trace.model.stacks.get(stack)
        for layer in range(facts.hidden if facts else 0):
            name = _("{stack} layer {layer}", stack=stack, layer=layer)
            found.append((name, trace.hidden(stack, layer)))
    if len(trace):
        found.append((_("output"), trace.logits))
    counts = ((name, int((~np.isfinite(x)).sum()), x.size) for name, x in found)
    return tuple(BrokenTensor(*one) for one in counts if one[1])
