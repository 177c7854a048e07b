"""Checks of the softmax: its axis, the sums of its rows, its scale, dead heads."""

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from visformer.analysis.checks.observation import READ, LayerPlace, Observation
from visformer.language import N_, _
from visformer.values.arrays import Floats
from visformer.values.attention_heads import NO_WEIGHT
from visformer.values.finding import Finding
from visformer.values.watched_attention import HALF_TOLERANCE, WatchedAttention

SUMS = 2e-3  # how far a row's sum may be from one; half precision: ten times that
SAME = 1e-4  # of scales, relative
ALIKE = 0.8  # the least of the sizes of queries, keys and values, of the largest
NORMS = 1e-3  # of queries and keys that were normalised, relative


def axis(seen: Observation) -> Finding | None:
    """Report a softmax that runs over something else than the keys."""
    wrong = [
        place
        for place in seen.places
        if place.attention.over != "keys" and _furthest(place.attention) is not None
    ]
    if not wrong:
        return None
    place = wrong[0]
    _off, (batch, head, row) = _furthest(place.attention) or (0.0, (0, 0, 0))
    sums = np.nan_to_num(place.attention.weights).sum(-1)
    return Finding(
        "softmax-axis",
        place.words,
        _(
            "The softmax runs over the {axis}, not over the keys: row {row} of head "
            "{head} sums to {sum:.3g} (in {n} of {all} attentions).",
            axis=place.attention.over,
            row=row + 1,
            head=head + 1,
            sum=float(sums[batch, head, row]),
            n=len(wrong),
            all=len(seen.attentions),
        ),
        _("Take the softmax over the axis of the keys, mostly dim=-1."),
        at=place.at(head, row),
    )


def _furthest(one: WatchedAttention) -> tuple[float, tuple[int, int, int]] | None:
    """Return how far a row's sum is from one, and where; None if all are close."""
    sums = one.weights.sum(-1)
    off = np.abs(sums - 1)
    off[(one.weights == 0).all(-1) & one.masked.all(-1)] = 0  # reads nothing at all
    off = np.nan_to_num(off, nan=0.0)
    if not off.size:
        return None
    at = np.unravel_index(int(off.argmax()), off.shape)
    most = SUMS * (10 if one.tolerance >= HALF_TOLERANCE else 1)
    batch, head, row = map(int, at)
    return (float(off[at]), (batch, head, row)) if off[at] > most else None


def rows(seen: Observation) -> Finding | None:
    """Report rows that do not sum to one, or are NaN."""
    worst: tuple[float, LayerPlace, tuple[int, int, int]] | None = None
    for place in seen.places:
        one = place.attention
        if np.isnan(one.weights).any():
            return _not_a_number(place)
        if one.dropout or one.mixed or one.over != "keys" or _is_alike(one):
            continue
        found = _furthest(one)
        if found is not None and (worst is None or found[0] > worst[0]):
            worst = found[0], place, found[1]
    if worst is None:
        return None
    _off, place, (batch, head, row) = worst
    return Finding(
        "rows-not-one",
        place.words,
        _(
            "Row {row} of head {head} sums to {sum:.3g}, not to 1.",
            row=row + 1,
            head=head + 1,
            sum=float(place.attention.weights[batch, head, row].sum()),
        ),
        _("Mask before the softmax: what is set to 0 after it is missing in the sum."),
        at=place.at(head, row),
    )


def sums(seen: Observation) -> tuple[str, float] | None:
    """Say how far a row's sum is from one at most."""
    off = 0.0
    for one in seen.attentions:
        reads = ~((one.weights == 0).all(-1) & one.masked.all(-1))
        off = max(off, float((np.abs(one.weights.sum(-1) - 1) * reads).max(initial=0)))
    return _("Their sums are within {off:.2g} of 1.", off=off), off


def _is_alike(one: WatchedAttention) -> bool:
    """Whether all rows of a head have one sum, as of softmaxes that are subtracted."""
    sums = one.weights.sum(-1)
    several = sums.shape[0] * sums.shape[2] > 1
    return several and float(np.ptp(sums, axis=(0, 2)).max()) < SUMS


def _not_a_number(place: LayerPlace) -> Finding:
    _batch, head, row, _key = map(
        int, np.argwhere(np.isnan(place.attention.weights))[0]
    )
    return Finding(
        "rows-not-one",
        place.words,
        _(
            "Row {row} of head {head} is NaN, and so is all that reads it.",
            row=row + 1,
            head=head + 1,
        ),
        _("Look for NaN in what this layer is given: here it is seen first."),
        at=place.at(head, row),
    )


# --- the scale ---
# what a scale may be instead, of d: head size, w: that of all heads together, k: keys
_ScaleFormula = tuple[str, Callable[[int, int, int], float]]
_FORMS: tuple[_ScaleFormula, ...] = (
    ("1/sqrt({w})", lambda d, w, k: w**-0.5),
    ("sqrt({d})", lambda d, w, k: d**0.5),
    ("1/{w}", lambda d, w, k: 1 / w),
    ("sqrt({w})", lambda d, w, k: w**0.5),
    ("{d}", lambda d, w, k: float(d)),
)
_CHOICES: tuple[_ScaleFormula, ...] = (  # as muP has it; and as no model should
    ("1/{d}", lambda d, w, k: 1 / d),
    ("1/sqrt({k})", lambda d, w, k: k**-0.5),
)


def not_scaled(seen: Observation) -> Finding | None:
    """Report scores that are not divided by sqrt(d)."""
    unscaled = [p for p in _judged(seen) if _is(p.attention.scale, 1.0)]
    wrong = [p for p in unscaled if not _is_biased(p.attention)]
    # a model with learned biases beside scores of scale 1, as T5, means it so
    if not wrong or len(wrong) < len(unscaled):
        return None
    # dot attention of one head has no scale
    sure = [
        place
        for place in wrong
        if place.attention.weights.shape[1] > 1
        and place.attention.module not in seen.state.perhaps_normed
        and not _makes_up(place.attention)
    ]
    if not (_others_are_scaled(seen) or _are_projected_alike(wrong)):
        sure = []
    place = (sure or wrong)[0]
    width = place.attention.queries.shape[3]
    top = np.nan_to_num(place.attention.weights).max(-1)
    at = np.unravel_index(int(top.argmax()), top.shape)
    what = _(
        "The scores are not divided by sqrt({d}) = {root:.3g}: their scale is "
        "{scale:.3g}, and row {row} of head {head} gives one key {weight:.3g} (in "
        "{n} of {all} attentions).",
        d=width,
        root=width**0.5,
        scale=place.attention.scale,
        row=int(at[2]) + 1,
        head=int(at[1]) + 1,
        weight=float(top[at]),
        n=len(wrong),
        all=len(seen.attentions),
    )
    if not sure:
        what = _(
            "If neither weights nor norms make up for it, a division by sqrt({d}) is "
            "missing: the scale of the scores is 1 (in {n} of {all} attentions).",
            d=width,
            n=len(wrong),
            all=len(seen.attentions),
        )
    return Finding(
        "not-scaled",
        place.words,
        what,
        _("Divide the scores by sqrt(d) before the softmax.")
        if sure
        else _("Leave it if weights or norms make up for it; else divide by sqrt(d)."),
        "fault" if sure else "note",
        place.at(),
    )


def wrong_scale(seen: Observation) -> Finding | None:
    """Report scales that come from another number than the head size.

    One that may be a choice, as muP's 1/d or a number of a configuration, is a note.
    """
    wrong = [
        place
        for place in _judged(seen)
        if not _is_biased(place.attention) and _is_other(place.attention)
    ]
    known = [place for place in wrong if _formula(place.attention, _FORMS)]
    if not wrong:
        return None
    place = (known or wrong)[0]
    one = place.attention
    width = one.queries.shape[3]
    times = f"{one.scale * width**0.5:.3g}/sqrt({width})"
    return Finding(
        "wrong-scale",
        place.words,
        _(
            "The scale of the scores is {scale:.3g} = {found}; for heads of {d} it "
            "ought to be 1/sqrt({d}) = {right:.3g} (in {n} of {all} attentions).",
            scale=one.scale,
            found=_formula(one, (*_FORMS, *_CHOICES)) or times,
            d=width,
            right=width**-0.5,
            n=len(known or wrong),
            all=len(seen.attentions),
        ),
        _("Divide the scores by the root of the size of one head.")
        if known
        else _("Leave it if it is meant so, as in muP; else divide by sqrt(d)."),
        "fault" if known else "note",
        place.at(),
    )


def scales(seen: Observation) -> tuple[str, float] | None:
    """Say what the scale is."""
    found = sorted({one.scale for one in seen.attentions})
    if not found:
        return None
    return _("The scale of the scores is {scale:.3g}.", scale=found[0]), found[0]


def _is(scale: float, other: float) -> bool:
    return abs(scale - other) <= SAME * other


def _is_other(one: WatchedAttention) -> bool:
    right = one.queries.shape[3] ** -0.5
    return one.scale > 0 and not (_is(one.scale, right) or _is(one.scale, 1.0))


def _formula(one: WatchedAttention, forms: Iterable[_ScaleFormula]) -> str:
    """Return the first formula that gives the scale; "" where none does."""
    d = one.queries.shape[3]
    w, k = d * one.weights.shape[1], one.weights.shape[3]
    known = (
        words.format(d=d, w=w, k=k) for words, x in forms if _is(one.scale, x(d, w, k))
    )
    return next(known, "")


def _judged(seen: Observation) -> Iterator[LayerPlace]:
    """Yield the attentions whose scale was read and ought to be 1/sqrt(d)."""
    scales: dict[int, list[float]] = {}
    for one in seen.attentions:
        scales.setdefault(one.queries.shape[3], []).append(one.scale)
    for place in seen.places:
        one = place.attention
        width = one.queries.shape[3]
        own = scales[width]
        each = len(own) > 2 and len({round(x, 6) for x in own}) == len(own)
        known = one.linear or one.multiplied is not None or one.over != "keys"
        if not known or width < 2 or each or one.module in seen.state.own_scale:
            continue
        if one.masked.all() or _are_same(one):
            continue
        if _are_normalised(one.queries) and _are_normalised(one.keys):
            continue  # their scale is a temperature
        yield place


def _are_normalised(vectors: Floats) -> bool:
    """Whether the rows of [B, H, N, d] have one norm but for gains and a bias.

    Then sum(a x^2 + b x) = 1 for all of them: of heads alike, each, or of all as one.
    """
    heads = np.moveaxis(vectors.astype(np.float64), 1, 0)
    whole = np.moveaxis(heads, 0, 2)
    norms = np.linalg.norm(heads, axis=-1)
    if norms.size > 4 and norms.min() > 0 and np.ptp(norms) < NORMS * norms.max():
        return True
    return any(
        all(_fits(x.reshape(-1, width)) for x in several)
        for several, width in (
            (heads[None], heads.shape[3]),
            (heads, heads.shape[3]),
            (whole[None], whole.shape[2] * whole.shape[3]),
        )
    )


def _fits(x: Floats) -> bool:
    few = 2 * x.shape[1] + 4
    if len(x) < few:  # finding those that differ takes long
        return False
    x = np.unique(x.round(5), axis=0)
    size = float(np.sqrt((x * x).mean())) if x.size else 0.0
    if len(x) < few or not size or not np.isfinite(size):
        return False  # any numbers would fit
    terms = np.concatenate([(x / size) ** 2, x / size], 1)
    found: Floats = np.linalg.lstsq(terms, np.ones(len(x)), rcond=None)[0]
    return float(np.abs(terms @ found - 1).max()) < NORMS


def _makes_up(one: WatchedAttention) -> bool:
    """Whether queries and keys are of sizes as unequal as a scale in the weights is."""
    sizes = _sizes(one)[:2]
    return min(sizes) < max(sizes) / math.sqrt(math.sqrt(one.queries.shape[3]))


def _sizes(one: WatchedAttention) -> list[float]:
    return [
        float(np.sqrt((x.astype(np.float64) ** 2).mean()))
        for x in (one.queries, one.keys, one.values)
    ]


def _others_are_scaled(seen: Observation) -> bool:
    """Whether the model divides scores by sqrt(d) elsewhere."""
    return any(_is(one.scale, one.queries.shape[3] ** -0.5) for one in seen.attentions)


def _are_projected_alike(places: list[LayerPlace]) -> bool:
    """Whether each layer's queries, keys and values are of one size.

    So they are of weights that are not trained, where no scale is multiplied in. A
    trained model learned with its scale, or carries it in its weights: to divide its
    scores once more would break it. Cross attention reads states of another size.
    """
    own = [x.attention for x in places if x.attention.kind != "cross"]
    several = [_sizes(one) for one in own or [x.attention for x in places]]
    return all(min(sizes) > ALIKE * max(sizes) for sizes in several)


def _are_same(one: WatchedAttention) -> bool:
    """Whether keys are the values: attention to states, without projections."""
    return one.keys.shape == one.values.shape and np.array_equal(one.keys, one.values)


def _is_biased(one: WatchedAttention) -> bool:
    if one.added is None:
        return False
    return bool(((one.added > NO_WEIGHT) & (np.abs(one.added) > READ)).any())


# --- dead heads ---
def dead_heads(seen: Observation) -> Finding | None:
    """Report heads that add nothing, or whose weights do not see the tokens."""
    heads = sum(one.weights.shape[1] for one in seen.attentions)
    dead = [found for place in seen.places for found in _dead_of(place, seen)]
    if not dead or len(dead) >= heads:
        return None  # all of them: as a model begins that starts from zero
    place, what, fields = dead[0]
    return Finding(
        "dead-head",
        place.words,
        _(what, **fields, n=len(dead), all=heads),
        _("Nothing to do if it was pruned; else look at how its weights are made."),
        "note",
        place.at(int(str(fields["head"])) - 1),
    )


_UNREAD = N_("Columns of “{name}” are 0, so head {head} adds nothing ({n} of {all}).")
_DEAD = {  # what of a head is 0 throughout
    "values": N_(
        "The values of head {head} are all 0, so it adds nothing ({n} of {all})."
    ),
    "queries": N_(
        "The queries of head {head} are all 0, so it reads keys alike ({n} of {all})."
    ),
    "keys": N_(
        "The keys of head {head} are all 0, so it reads them alike ({n} of {all})."
    ),
}


def _dead_of(
    place: LayerPlace, seen: Observation
) -> Iterator[tuple[LayerPlace, str, dict[str, object]]]:
    one = place.attention
    if one.over != "keys" or one.mixed:
        return
    count = one.weights.shape[1]
    unread = {x.head: x.weight for x in seen.state.unread if x.module == one.module}
    for head in range(count):
        if head in unread:
            yield place, _UNREAD, {"head": head + 1, "name": unread[head]}
            continue
        for name, what in _DEAD.items():
            if name != "values" and _is_biased(one):
                continue  # what is added to the scores tells keys apart
            numbers = getattr(one, name)
            if not numbers[:, head * numbers.shape[1] // count].any():
                yield place, what, {"head": head + 1}
                break
