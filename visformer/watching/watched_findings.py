"""What is wrong with the attention of a watched model: one function a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from visformer.language import _
from visformer.values.arrays import Bools, Ids
from visformer.values.finding import Finding
from visformer.watching.row_tokens import ids_of
from visformer.values.watched_attention import WatchedAttention

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched

READ = 1e-6  # a weight above this reads its key
SUMS = 2e-3  # how far a row's sum may be from one; half precision: ten times that


class LayerPlace(NamedTuple):
    """An attention, and which layer of its kind it is, from 1."""

    attention: WatchedAttention
    layer: int


class WeightCell(NamedTuple):
    """Where in [B, H, Q, K]; counted from 1 on screen."""

    batch: int
    head: int
    row: int
    key: int


def findings_of(watched: Watched) -> list[Finding]:
    """Return what is wrong, each fault once, with the place where it shows most."""
    places = _places(watched)
    found = [
        finding
        for look in (_over, _multiplied, _future, _padding, _scale, _rows)
        if (finding := look(watched, places)) is not None
    ]
    found += [x for x in (_dropout(watched), _not_shifted(watched)) if x is not None]
    return found


def _places(watched: Watched) -> list[LayerPlace]:
    counts: dict[str, int] = {}
    places = []
    for one in watched.last_run:
        if one.verified:
            counts[one.kind] = counts.get(one.kind, 0) + 1
            places.append(LayerPlace(one, counts[one.kind]))
    return places


def _largest(
    places: list[LayerPlace], bad: Callable[[WatchedAttention], Bools | None]
) -> tuple[LayerPlace, dict[str, float]] | None:
    """Return where the largest of the bad weights is, and the fields that say so.

    Batch, head, row and key count from 1; n of all attentions have a bad weight.
    """
    best: tuple[float, LayerPlace, WeightCell] | None = None
    count = 0
    for place in places:
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
    return place, {**counted, "weight": weight, "n": count, "all": len(places)}


def _where(place: LayerPlace) -> str:
    return _(
        "{kind} layer {layer} ({module})",
        kind=place.attention.kind,
        layer=place.layer,
        module=place.attention.module or "forward",
    )


def _is_over_keys(one: WatchedAttention) -> bool:
    return one.over == "keys"


def _over(watched: Watched, places: list[LayerPlace]) -> Finding | None:
    wrong = [place for place in places if not _is_over_keys(place.attention)]
    if not wrong:
        return None
    place = wrong[0]
    sums = np.nan_to_num(place.attention.weights).sum(-1)
    at = np.unravel_index(int(np.abs(sums - 1).argmax()), sums.shape)
    return Finding(
        "softmax-axis",
        _where(place),
        _(
            "The softmax runs over the {axis}, not over the keys: row {row} of head "
            "{head} sums to {sum:.3g} (in {n} of {all} attentions).",
            axis=place.attention.over,
            row=int(at[2]) + 1,
            head=int(at[1]) + 1,
            sum=float(sums[at]),
            n=len(wrong),
            all=len(places),
        ),
        _("Take the softmax over the axis of the keys, mostly dim=-1."),
    )


def _multiplied(watched: Watched, places: list[LayerPlace]) -> Finding | None:
    found = _largest(places, lambda one: one.multiplied if _is_over_keys(one) else None)
    if found is None:
        return None
    place, fields = found
    return Finding(
        "mask-multiplied",
        _where(place),
        _(
            "Scores are multiplied by a mask, so a masked one counts as 0: row {row} "
            "of head {head} still reads key {key} with weight {weight:.3g} (in {n} of "
            "{all} attentions).",
            **fields,
        ),
        _("Replace masked scores: scores.masked_fill(~mask, float('-inf'))."),
    )


def _future(watched: Watched, places: list[LayerPlace]) -> Finding | None:
    if not (watched.sources and watched.targets) and not _predicts_next(watched):
        return None

    def later(one: WatchedAttention) -> Bools | None:
        queries, keys = one.weights.shape[2:]
        if one.multiplied is not None or not _is_over_keys(one) or keys < queries:
            return None
        after = np.triu(np.ones((queries, keys), bool), 1 + keys - queries)
        reads: Bools = (np.nan_to_num(one.weights) > READ) & after
        # a row that is masked everywhere, as padding is, may do what it likes
        return reads & ~one.masked.all(-1, keepdims=True)

    wanted = "decoder" if watched.targets and watched.sources else None
    mine = [p for p in places if wanted is None or p.attention.kind == wanted]
    found = _largest(mine, later)
    if found is None:
        return None
    place, fields = found
    return Finding(
        "not-causal",
        _where(place),
        _(
            "The causal mask is missing: row {row} of head {head} reads key {key}, "
            "which comes after it, with weight {weight:.3g} (in {n} of {all} "
            "attentions).",
            **fields,
        ),
        _("Mask the keys after each row, for example with torch.tril."),
    )


def _padding(watched: Watched, places: list[LayerPlace]) -> Finding | None:
    pad = watched.watcher.pad
    if pad is None:
        return None
    source, target = watched.source_ids, watched.target_ids
    alone = target or source
    sides = {
        "encoder": (source, source),
        "decoder": (alone, alone),
        "cross": (target, source),
    }

    def pads(one: WatchedAttention) -> Bools | None:
        rows, _heads, queries, keys = one.weights.shape
        if one.kind not in sides or one.multiplied is not None:
            return None
        of_queries, of_keys = (
            ids_of(given, rows, length, watched.time_axis)
            for given, length in zip(sides[one.kind], (queries, keys), strict=True)
        )
        if of_keys is None or not _is_over_keys(one):
            return None
        real = (
            np.ones((rows, queries), bool)
            if of_queries is None
            else (of_queries != pad).numpy()
        )
        padded: Bools = (of_keys == pad).numpy()
        if one.kind != "encoder" and padded[:, 0].all():  # it begins, as T5's does
            padded[:, 0] = False
        where = real[:, None, :, None] & padded[:, None, None, :]
        reads: Bools = (np.nan_to_num(one.weights) > READ) & where
        return reads & ~one.masked.all(-1, keepdims=True)

    found = _largest(places, pads)
    if found is None:
        return None
    place, fields = found
    return Finding(
        "padding-read",
        _where(place),
        _(
            "Padding is not masked: in batch row {batch}, row {row} of head {head} "
            "reads key {key}, a padding token, with weight {weight:.3g} (in {n} of "
            "{all} attentions).",
            **fields,
        ),
        _("Mask the keys that are padding: (ids != pad)[:, None, None, :]."),
    )


def _scale(watched: Watched, places: list[LayerPlace]) -> Finding | None:
    unscaled = [place for place in places if _is_unscaled(place.attention)]
    wrong = [place for place in unscaled if not _is_biased(place.attention)]
    # a model with learned biases beside scores of scale 1, as T5, means it so
    if not wrong or len(wrong) < len(unscaled):
        return None
    place = wrong[0]
    width = place.attention.queries.shape[3]
    top = np.nan_to_num(place.attention.weights).max(-1)
    at = np.unravel_index(int(top.argmax()), top.shape)
    return Finding(
        "not-scaled",
        _where(place),
        _(
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
            all=len(places),
        ),
        _("Divide the scores by sqrt(d) before the softmax."),
    )


def _is_unscaled(one: WatchedAttention) -> bool:
    told = one.linear or one.multiplied is not None or not _is_over_keys(one)
    return told and one.queries.shape[3] > 1 and abs(one.scale - 1) < 1e-4


def _is_biased(one: WatchedAttention) -> bool:
    if one.added is None:
        return False
    return bool(((one.added > -1e4) & (np.abs(one.added) > READ)).any())


def _rows(watched: Watched, places: list[LayerPlace]) -> Finding | None:
    worst: tuple[float, LayerPlace, tuple[int, ...]] | None = None
    for place in places:
        one = place.attention
        if one.dropout or one.mixed or not _is_over_keys(one):
            continue
        sums = one.weights.sum(-1)
        off = np.abs(sums - 1)
        off[(one.weights == 0).all(-1)] = 0  # reads nothing at all
        off[np.isnan(off)] = np.inf
        at = np.unravel_index(int(off.argmax()), off.shape) if off.size else ()
        most = SUMS * (10 if one.tolerance > 1e-3 else 1)
        if at and off[at] > most and (worst is None or off[at] > worst[0]):
            worst = float(off[at]), place, tuple(map(int, at))
    if worst is None:
        return None
    _off, place, (_batch, head, row) = worst
    return Finding(
        "rows-not-one",
        _where(place),
        _(
            "Row {row} of head {head} sums to {sum:.3g}, not to 1.",
            row=row + 1,
            head=head + 1,
            sum=float(place.attention.weights[worst[2]].sum()),
        ),
        _("Mask before the softmax, and never mask a whole row with -inf."),
    )


def _dropout(watched: Watched) -> Finding | None:
    dropped = [one for one in watched.last_run if one.dropout]
    if not dropped and not watched.dropout:
        return None
    modules = list(watched.dropout) or [dropped[0].module]
    if dropped:
        off = np.abs(dropped[0].weights.sum(-1) - 1)
        at = np.unravel_index(int(off.argmax()), off.shape)
        return Finding(
            "dropout-on",
            dropped[0].module,
            _(
                "Dropout is on: row {row} of head {head} sums to {sum:.3g}, and every "
                "call gives other numbers (in {n} of {all} attentions).",
                row=int(at[2]) + 1,
                head=int(at[1]) + 1,
                sum=float(dropped[0].weights[at].sum()),
                n=len(dropped),
                all=len(watched.last_run),
            ),
            _("Call model.eval() before you look at its numbers."),
        )
    return Finding(
        "dropout-on",
        modules[0] or "forward",
        _(
            "Dropout is on in {n} modules, so every call gives other numbers.",
            n=len(modules),
        ),
        _("Call model.eval() before you look at its numbers."),
    )


def _labelled(watched: Watched) -> tuple[Ids, Ids] | None:
    """Return what the decoder was given and what it is to predict, both [B, T]."""
    labels, given = watched.watcher.labels, watched.target_ids or watched.source_ids
    if labels is None or not given or given[-1].is_floating_point():
        return None
    ids, wanted = given[-1], labels.detach().cpu()
    if wanted.dim() == 1 and wanted.numel() == ids.numel():  # as a loss takes them
        wanted = wanted.reshape(ids.shape)
    if wanted.shape != ids.shape and wanted.T.shape == ids.shape:
        wanted = wanted.T
    if wanted.shape != ids.shape or ids.dim() != 2:
        return None
    if watched.time_axis == 0:
        ids, wanted = ids.T, wanted.T
    return ids.numpy(), wanted.numpy()


def _is_next(ids: Ids, wanted: Ids, real: Bools) -> bool:
    """Whether each row is to predict the token that the next one is given."""
    same = (ids[:, 1:] == wanted[:, :-1])[real[:, :-1]]
    return bool(same.mean() > 0.9) if same.size else False


def _real(wanted: Ids, watched: Watched) -> Bools:
    pad = watched.watcher.pad
    return (wanted >= 0) & (True if pad is None else wanted != pad)


def _predicts_next(watched: Watched) -> bool:
    """Whether labels say that each row is to predict the token after it."""
    pair = _labelled(watched)
    if pair is None or watched.targets or pair[0].shape[-1] < 3:
        return False
    return _is_next(*pair, _real(pair[1], watched))


def _not_shifted(watched: Watched) -> Finding | None:
    pair = _labelled(watched)
    if pair is None:
        return None
    ids, wanted = pair
    real = _real(wanted, watched)
    same = (ids == wanted) & real
    # a model that fills in or tags sees its labels; one with a target does not
    if not watched.targets or real.sum() == 0 or same.sum() < 0.9 * real.sum():
        return None
    if ids.shape[1] == 1 or _is_next(ids, wanted, real):  # the same token again
        return None
    return Finding(
        "not-shifted",
        _("labels"),
        _(
            "The target is not shifted: {n:,} of {all:,} labels are the very token "
            "that their row is given, so there is nothing to predict.",
            n=int(same.sum()),
            all=int(real.sum()),
        ),
        _("Give the decoder target[:, :-1] and compare with target[:, 1:]."),
    )
