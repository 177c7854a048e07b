"""Two runs side by side: how tokens align, where they part, how far heads differ.

Sides are ``a`` and ``b``. Rows, layers, heads and steps count from 0; logarithms of
probabilities are natural, divergences in bits.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from visformer.arguments import one_of
from visformer.values.arrays import Floats
from visformer.values.attention_heads import ALL, AttentionHeads
from visformer.values.facts import SIDES, Kind
from visformer.values.step import Step
from visformer.values.trace import Trace

PART = 1 << 18  # weights of a layer that are compared at once: some milliseconds
SAME_BITS = 1e-6  # divergences that are not larger are rounding
SAME_LOG_P = 1e-3  # nats by which log p may differ by rounding
MOST_WORDS = 2000  # of two sentences that are aligned by their words
By = Literal["characters", "position"]
Group = tuple[tuple[int, ...], tuple[int, ...]]  # tokens of a, and of b


class TokenAlignment(NamedTuple):
    """Which tokens of two sequences stand for one another."""

    groups: tuple[Group, ...]  # in the order of a
    rest: Group  # the tokens that stand for none

    @property
    def one_to_one(self) -> bool:
        """Whether both sequences are one token by token."""
        whole = all(
            one == other == (at,) for at, (one, other) in enumerate(self.groups)
        )
        return whole and not any(self.rest)


class StepPair(NamedTuple):
    """A step of each run, after tokens that both have read alike."""

    steps: tuple[int, int]
    tokens: tuple[str, str]  # that were written
    log_p: tuple[float, float]  # of these, each in its own run
    # Jensen-Shannon, of the next tokens: of the candidates that both keep, and of all
    # others as one, so that it is never more than that of the whole vocabulary
    divergence: float


class ReferenceToken(NamedTuple):
    """A token of the common reference, or pieces that cover the same characters."""

    tokens: tuple[str, ...]
    log_p: tuple[float, float]  # in both runs; NaN where it is not known


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RunComparison:
    """How two runs differ; see the module for units and counts.

    ``parted`` are the steps at which they first write different tokens, None where they
    never do. ``divergences`` has, for each kind that both have, [L, H] of the layers
    and heads that both have: the mean over aligned rows of the Jensen-Shannon
    divergence of the two rows of weights, in [0, 1]; NaN where a weight is. Weights of
    keys that are aligned as one are added, and those of keys without a counterpart.
    ``sizes`` are layers and heads of both by kind, (0, 0) for none.
    """

    names: tuple[str, str]
    models: tuple[str, str]
    digests: tuple[str, str]
    sources: tuple[str, str]
    texts: tuple[str, str]
    source: TokenAlignment
    target: TokenAlignment  # of the decoder's rows before they part
    parted: tuple[int, int] | None
    steps: tuple[StepPair, ...]
    reference: tuple[ReferenceToken, ...]
    divergences: Mapping[Kind, Floats]
    sizes: Mapping[Kind, tuple[tuple[int, int], tuple[int, int]]]

    @property
    def broken(self) -> bool:
        """Whether a number compared is NaN: of a head, or of a step."""
        numbers = [step.divergence for step in self.steps]
        heads = any(np.isnan(grid).any() for grid in self.divergences.values())
        return heads or any(map(math.isnan, numbers))

    def same_heads(self, kind: Kind) -> bool:
        """Whether no head of a kind differs by more than rounding."""
        return bool((self.divergences[kind] <= SAME_BITS).all())

    @property
    def equal(self) -> bool:
        """Whether they read and write the same and all heads and steps agree."""
        pairs = [one.log_p for one in self.steps]
        pairs += [one.log_p for one in self.reference]
        sizes = all(
            one == other and len(self.divergences.get(kind, ())) == one[0]
            for kind, (one, other) in self.sizes.items()
        )
        return (
            sizes
            and self.sources[0] == self.sources[1]
            and self.texts[0] == self.texts[1]
            and self.source.one_to_one
            and self.target.one_to_one
            and all(map(self.same_heads, self.divergences))
            and all(step.divergence <= SAME_BITS for step in self.steps)
            and all(a == b or abs(a - b) <= SAME_LOG_P for a, b in pairs)
        )

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, as ``visformer compare --json`` prints it.

        There, steps count from 1.
        """

        def from_one(steps: tuple[int, int]) -> tuple[int, int]:
            return steps[0] + 1, steps[1] + 1

        sides = [
            {"name": n, "model": m, "digest": d, "source": s, "text": t}
            for n, m, d, s, t in zip(
                *(self.names, self.models, self.digests, self.sources, self.texts),
                strict=True,
            )
        ]
        return {
            "equal": self.equal,
            "a": sides[0],
            "b": sides[1],
            "parted": self.parted and from_one(self.parted),
            "source": self.source._asdict(),
            "target": self.target._asdict(),
            "steps": [
                one._replace(steps=from_one(one.steps))._asdict() for one in self.steps
            ],
            "reference": [token._asdict() for token in self.reference],
            "divergences": {k: grid.tolist() for k, grid in self.divergences.items()},
            "layers_and_heads": dict(self.sizes),
        }


def compare_runs(
    a: Trace,
    b: Trace,
    *,
    names: tuple[str, str] = ("A", "B"),
    by: By = "characters",
    fed: tuple[Trace, Trace] | None = None,
) -> RunComparison:
    """Compare two runs; sources of other tokens are aligned ``by`` one of two ways.

    ``fed``: both models' runs over one text, whose tokens are the common reference;
    without them it is what ``a`` wrote, as far as ``b`` has read the same.
    """
    pairing = pair(a, b, names=names, by=by, fed=fed)
    rows: dict[Kind, list[Floats]] = {}
    for kind, _layer, heads in head_divergences(pairing, a, b):
        if heads is not None:
            rows.setdefault(kind, []).append(heads)
    return with_heads(pairing, rows)


def pair(
    a: Trace,
    b: Trace,
    *,
    names: tuple[str, str] = ("A", "B"),
    by: By = "characters",
    fed: tuple[Trace, Trace] | None = None,
) -> RunComparison:
    """Compare two runs but for their heads, which take longer."""
    target = align_targets(a, b)
    over, along = (a, b) if fed is None else fed, target
    if fed is not None:
        along = align_targets(*fed)
    kinds = dict.fromkeys((*a.kinds, *b.kinds))
    return RunComparison(
        names=names,
        models=(a.model.name, b.model.name),
        digests=(a.model.digest, b.model.digest),
        sources=(a.source_text, b.source_text),
        texts=(a.text, b.text),
        source=align_sources(a, b, by),
        target=target,
        parted=_parted(a, b, target),
        steps=tuple(_step_pairs(a, b, target)),
        reference=tuple(_reference(*over, along)),
        divergences={},
        sizes={k: (_size(a, k), _size(b, k)) for k in kinds},
    )


def with_heads(
    pairing: RunComparison, rows: Mapping[Kind, Sequence[Floats]]
) -> RunComparison:
    """Return it with divergences of heads: of each kind a row [H] for each layer."""
    made = {kind: np.stack(layers) for kind, layers in rows.items()}
    return replace(pairing, divergences=made)


def _size(trace: Trace, kind: Kind) -> tuple[int, int]:
    has = kind in trace.kinds
    return (trace.layers(kind), trace.heads(kind)) if has else (0, 0)


# ---- alignment -------------------------------------------------------------------


def align_sources(a: Trace, b: Trace, by: By = "characters") -> TokenAlignment:
    """Align source tokens: by their place, or by the characters that they cover.

    Tokens without characters, such as the end of a sentence, stand for those of their
    name. Of different sentences those words are aligned that a shortest edit keeps.
    """
    placed = one_of("by", by, get_args(By)) == "position" or a.source == b.source
    if placed or not (a.source_spans and b.source_spans):
        return _in_order(len(a.source), len(b.source))
    texts = a.source_text, b.source_text
    covered = [_covered(trace) for trace in (a, b)]
    links = {
        (covered[0][mine], covered[1][theirs])
        for mine, theirs in _same_characters(*texts)
        if mine in covered[0] and theirs in covered[1]
    }
    links |= {*_same_names(a, b, covered)}
    return _grouped(links, len(a.source), len(b.source))


def _in_order(a: int, b: int) -> TokenAlignment:
    both = min(a, b)
    groups = tuple(((at,), (at,)) for at in range(both))
    return TokenAlignment(groups, (tuple(range(both, a)), tuple(range(both, b))))


def _covered(trace: Trace) -> dict[int, int]:
    """Return the token of each character that is no space."""
    text = trace.source_text
    return {
        at: token
        for token, (start, stop) in enumerate(trace.source_spans)
        for at in range(start, stop)
        if not text[at : at + 1].isspace()
    }


def _same_characters(one: str, other: str) -> Iterator[tuple[int, int]]:
    """Yield the places of characters of words that occur in both, in their order."""
    if one == other:
        yield from ((at, at) for at in range(len(one)))
        return
    mine, theirs = _words(one), _words(other)
    if len(mine) + len(theirs) > MOST_WORDS:
        return
    texts = ([one[s:t] for s, t in mine], [other[s:t] for s, t in theirs])
    for block in SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks():
        for at in range(block.size):
            start, stop = mine[block.a + at]
            there = theirs[block.b + at][0]
            yield from ((c, there + c - start) for c in range(start, stop))


def _words(text: str) -> list[tuple[int, int]]:
    """Return the places of words; characters without upper case stand alone."""
    found: list[tuple[int, int]] = []
    for at, one in enumerate(text):
        joins = one.isdigit() or one.lower() != one.upper()
        if joins and found and found[-1][1] == at and _joins(text[at - 1]):
            found[-1] = found[-1][0], at + 1
        elif not one.isspace():
            found.append((at, at + 1))
    return found


def _joins(one: str) -> bool:
    return one.isdigit() or one.lower() != one.upper()


def _same_names(
    a: Trace, b: Trace, covered: Sequence[Mapping[int, int]]
) -> Iterator[tuple[int, int]]:
    """Pair the tokens that cover no character, by name and in order."""
    bare = [
        sorted({*range(len(trace.source))} - {*of.values()})
        for trace, of in zip((a, b), covered, strict=True)
    ]
    for name in dict.fromkeys(a.source[at] for at in bare[0]):
        mine = (at for at in bare[0] if a.source[at] == name)
        yield from zip(
            mine, (at for at in bare[1] if b.source[at] == name), strict=False
        )


def _grouped(links: set[tuple[int, int]], a: int, b: int) -> TokenAlignment:
    """Join tokens that are linked, through others too, into groups."""
    root = [*range(a + b)]  # those of b after those of a

    def top(at: int) -> int:
        while root[at] != at:
            at = root[at]
        return at

    for mine, theirs in links:
        root[max(top(mine), top(a + theirs))] = min(top(mine), top(a + theirs))
    groups: dict[int, list[int]] = {}
    for at in range(a + b):
        groups.setdefault(top(at), []).append(at)
    split = [
        (tuple(at for at in group if at < a), tuple(at - a for at in group if at >= a))
        for group in groups.values()
    ]
    rest = (
        [at for one, other in split for at in one if not other],
        [at for one, other in split for at in other if not one],
    )
    whole = sorted(group for group in split if all(group))
    return TokenAlignment(tuple(whole), (tuple(rest[0]), tuple(rest[1])))


def align_targets(a: Trace, b: Trace) -> TokenAlignment:
    """Align the rows that have read the same: token by token, or the same characters.

    Both begin with what starts a target.
    """
    i = j = 0
    groups: list[Group] = []
    while i < len(a) and j < len(b):
        if a.target[i] == b.target[j] or i == j == 0:
            ends = i + 1, j + 1
        elif (found := _same_text(a, b, i, j)) is not None:
            ends = found
        else:
            break
        groups.append((tuple(range(i, ends[0])), tuple(range(j, ends[1]))))
        i, j = ends
    rest = tuple(range(i, len(a))), tuple(range(j, len(b)))
    return TokenAlignment(tuple(groups), rest)


def _same_text(a: Trace, b: Trace, i: int, j: int) -> tuple[int, int] | None:
    """Return after how many tokens both have read the same text, from i and j on."""
    i, j = i + 1, j + 1
    while i <= min(len(a), len(a.steps)) and j <= min(len(b), len(b.steps)):
        one, other = _read(a, i), _read(b, j)
        if one == other:
            return i, j
        if other.startswith(one):
            i += 1
        elif one.startswith(other):
            j += 1
        else:
            return None
    return None


def _read(trace: Trace, count: int) -> str:
    """Return the text of the first ``count`` tokens, of which one starts the target."""
    return trace.steps[count - 2].text if count > 1 else ""


# ---- where they part, and how likely their tokens are ------------------------------


def _ends(target: TokenAlignment) -> tuple[int, int]:
    """Return how many rows of each have read the same."""
    if not target.groups:
        return 0, 0
    one, other = target.groups[-1]
    return one[-1] + 1, other[-1] + 1


def _parted(a: Trace, b: Trace, target: TokenAlignment) -> tuple[int, int] | None:
    i, j = _ends(target)
    if not i or not a.steps or not b.steps:
        return None
    one, other = a.steps[i - 1], b.steps[j - 1]
    return (
        None
        if one.token == other.token or one.text == other.text != ""
        else (i - 1, j - 1)
    )


def _step_pairs(a: Trace, b: Trace, target: TokenAlignment) -> Iterator[StepPair]:
    if not a.steps or not b.steps:
        return
    for mine, theirs in target.groups:
        one, other = a.steps[mine[-1]], b.steps[theirs[-1]]
        yield StepPair(
            (mine[-1], theirs[-1]),
            (one.token, other.token),
            (-one.loss, -other.loss),
            next_divergence(one, other),
        )


def next_divergence(one: Step, other: Step) -> float:
    """Return how far two distributions over the next token differ, at least, in bits.

    NaN where a model's numbers are, or no candidates are kept.
    """
    sides = [{c.token: c.probability for c in step.candidates} for step in (one, other)]
    if not all(sides):
        return math.nan
    both = [token for token in sides[0] if token in sides[1]]
    rows = np.array([[side[token] for token in both] for side in sides], np.float64)
    others = np.clip(1 - rows.sum(1, keepdims=True), 0, 1)
    if np.isnan(rows).any():
        return math.nan
    return float(js_divergence(*np.concatenate([rows, others], 1)))


def _reference(a: Trace, b: Trace, target: TokenAlignment) -> Iterator[ReferenceToken]:
    """Yield what a wrote, while both read the same, and the token after that."""
    if not a.steps or not b.steps:
        return
    given = max(1, a.prompt)
    for mine, theirs in target.groups:
        if mine[0] >= given and theirs[0] >= 1:
            log_p = _sum_log_p(a, mine), _sum_log_p(b, theirs)
            yield ReferenceToken(tuple(a.target[at] for at in mine), log_p)
    i, j = _ends(target)
    if i < max(1, given) or not j:
        return
    last, other = a.steps[i - 1], b.steps[j - 1]
    yield ReferenceToken((last.token,), (-last.loss, log_p_of(last, other)))


def _sum_log_p(trace: Trace, tokens: Sequence[int]) -> float:
    return -math.fsum(trace.steps[at - 1].loss for at in tokens)


def log_p_of(written: Step, step: Step) -> float:
    """Return log p of a token at another run's step; NaN where it is not kept."""
    if written.token == step.token:
        return -step.loss
    for candidate in step.candidates:
        if candidate.token == written.token:
            p = candidate.probability
            return math.log(p) if p > 0 else -math.inf if p == 0 else math.nan
    return math.nan


# ---- heads -------------------------------------------------------------------------


def js_divergence(p: NDArray[Any], q: NDArray[Any]) -> NDArray[Any]:
    """Return the Jensen-Shannon divergence over the last axis, in bits, in [0, 1].

    The mean of KL(p || m) and KL(q || m), m = (p + q) / 2 (Lin 1991); NaN where a
    number is.
    """
    middle = (p + q) / 2

    def from_middle(x: NDArray[Any]) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (x * np.log2(np.where(x > 0, x / middle, 1))).sum(-1)

    found: NDArray[Any] = np.clip((from_middle(p) + from_middle(q)) / 2, 0, 1)
    return found


def head_divergences(
    pairing: RunComparison, a: Trace, b: Trace
) -> Iterator[tuple[Kind, int, Floats | None]]:
    """Yield kind, layer and the divergence [H] of each of its heads, layer by layer.

    A long layer is compared in parts, with None after each but the last.
    """
    for kind, sizes in pairing.sizes.items():
        layers, heads = (min(pair) for pair in zip(*sizes, strict=True))
        for layer in range(layers):
            both = [trace.attention_heads(kind, layer).copied() for trace in (a, b)]
            parts: list[Floats] = []
            for part in _parts(pairing, kind, both):
                if parts:
                    yield kind, layer, None
                rows = [
                    _aligned_rows(pairing, kind, one, side, part)[:heads]
                    for side, one in enumerate(both)
                ]
                same = np.array_equal(rows[0], rows[1])  # and nothing is NaN
                none = np.zeros_like(rows[0][..., 0])
                parts.append(none if same else js_divergence(*rows))
            found = np.concatenate(parts, -1)  # [H, groups of queries]
            empty = np.full(heads, np.nan, np.float32)
            yield kind, layer, found.mean(-1) if found.shape[-1] else empty


def _parts(
    pairing: RunComparison, kind: Kind, both: Sequence[AttentionHeads]
) -> Iterator[slice]:
    """Yield groups of queries whose weights are few enough to be compared at once."""
    count = len(_groups(pairing, kind)[0].groups)
    row = max(one.keys.shape[0] * one.keys.shape[1] for one in both)
    step = max(1, PART // max(1, row))
    yield from (
        slice(at, min(at + step, count)) for at in range(0, max(1, count), step)
    )


def _aligned_rows(
    pairing: RunComparison, kind: Kind, heads: AttentionHeads, side: int, part: slice
) -> Floats:
    """Derive the weights of some groups of queries; see ``aligned_weights``."""
    groups = _groups(pairing, kind)[0].groups[part]
    rows = [at for group in groups for at in group[side]]
    first, stop = (min(rows), max(rows) + 1) if rows else (0, 0)
    weights = heads.weights(slice(first, stop))
    return aligned_weights(pairing, kind, weights, side, part=part, first=first)


def _groups(
    pairing: RunComparison, kind: Kind
) -> tuple[TokenAlignment, TokenAlignment]:
    """Return how the queries of a kind are aligned, and how its keys are."""
    of = {"source": pairing.source, "target": pairing.target}
    queries, keys = (of[name] for name in SIDES[kind])
    return queries, keys


def aligned_weights(
    pairing: RunComparison,
    kind: Kind,
    weights: Floats,
    side: int,
    *,
    part: slice = ALL,
    first: int = 0,
) -> Floats:
    """Return weights [..., Q, K] of a side as [..., groups of queries, and of keys].

    Rows of one group are averaged. Weights of one group of keys are added; the last
    column has what is left for keys without a counterpart. Of a ``part`` of the groups
    the weights of the rows from ``first`` on are enough.
    """
    queries, keys = _groups(pairing, kind)
    rows = [tuple(at - first for at in one[side]) for one in queries.groups[part]]
    made = _joined(weights, rows, -2).astype(np.float32)  # [..., G, K]
    columns = _joined(made, [group[side] for group in keys.groups], -1, total=True)
    rest = made[..., list(keys.rest[side])].sum(-1, keepdims=True)
    found: Floats = np.concatenate([columns, rest], -1)
    return found


def _joined(
    array: Floats, groups: Sequence[tuple[int, ...]], axis: int, *, total: bool = False
) -> Floats:
    """Return the mean, or the total, of each group along an axis."""
    if all(len(group) == 1 for group in groups):
        first: Floats = array.take([group[0] for group in groups], axis)
        return first
    parts = [array.take(group, axis) for group in groups]
    made = [part.sum(axis) if total else part.mean(axis) for part in parts]
    joined: Floats = np.stack(made, axis)
    return joined
