"""Checks of masks: what a row reads that it must not, and what it cannot read."""

import numpy as np

from visformer.analysis.checks.observation import (
    LayerPlace,
    Observation,
    after,
    decoder_places,
    is_of_itself,
    is_plain,
    largest,
    padded,
    reads,
    real_queries,
)
from visformer.language import _
from visformer.values.arrays import Bools, Floats
from visformer.values.finding import Finding
from visformer.values.watched_attention import WatchedAttention


def multiplied(seen: Observation) -> Finding | None:
    """Report scores that a mask multiplies."""
    found = largest(
        seen.places, lambda one: one.multiplied if one.over == "keys" else None
    )
    if found is None:
        return None
    return Finding(
        "mask-multiplied",
        found.place.words,
        _(
            "Scores are multiplied by a mask, so a masked one counts as 0: row {row} "
            "of head {head} still reads key {key} with weight {weight:.3g} (in {n} of "
            "{all} attentions).",
            **found.fields,
        ),
        _("Replace masked scores: scores.masked_fill(~mask, float('-inf'))."),
        at=found.at,
    )


def inverted(seen: Observation) -> Finding | None:
    """Report a mask that hides what may be read, and shows what may not."""
    wrong = [
        (place, batch)
        for place in seen.places
        if is_plain(place.attention)
        and (batch := _inverted_row(place.attention, seen.pad)) is not None
    ]
    if not wrong:
        return None
    place, batch = wrong[0]
    return Finding(
        "mask-inverted",
        place.words,
        _(
            "The mask is inverted: in batch row {batch}, the queries may read no keys "
            "but those that they must not read (in {n} of {all} attentions).",
            batch=batch + 1,
            n=len(wrong),
            all=len(seen.attentions),
        ),
        _("Exchange True and False in the mask: see which one hides a key."),
        at=place.at(),
    )


def _inverted_row(one: WatchedAttention, pad: int | None) -> int | None:
    """Return the batch row where an attention reads nothing but what it must not."""
    read = reads(one)
    hidden = padded(one, pad)
    rows, _heads, queries, keys = one.weights.shape
    real = real_queries(one, pad)
    pads = np.zeros((rows, keys), bool) if hidden is None else hidden
    rules = [pads[:, None, None, :] & np.ones((queries, keys), bool)]
    if one.kind != "cross" and queries == keys > 2:
        rules.append(rules[0] | after(one))
    for forbidden in rules:
        for row in range(rows):
            asks = real[row]
            mine, no = read[row][:, asks], forbidden[row][:, asks]
            if not no.any() or no.all() or (mine & ~no).any():
                continue
            if (mine & no).any():
                return row
    return None


def off_by_one(seen: Observation) -> Finding | None:
    """Report causal masks that let every row read one token ahead."""
    places, known = decoder_places(seen)
    alone = not known and not (seen.source and seen.target)
    wrong = [p for p in (seen.places if alone else places) if _is_ahead(p.attention)]
    if not wrong:
        return None
    place = wrong[0]
    _batch, head, row, key = np.argwhere(
        reads(place.attention) & after(place.attention)
    )[0]
    given = {
        "row": int(row) + 1,
        "head": int(head) + 1,
        "key": int(key) + 1,
        "n": len(wrong),
        "all": len(seen.attentions),
    }
    what = _(
        "The causal mask is off by one: every row reads one token ahead, as row {row} "
        "of head {head} reads key {key} (in {n} of {all} attentions).",
        **given,
    )
    if not known:
        what = _(
            "If this is a decoder, its causal mask is off by one: every row reads one "
            "token ahead, as row {row} of head {head} reads key {key} (in {n} of {all} "
            "attentions).",
            **given,
        )
    return Finding(
        "causal-off-by-one",
        place.words,
        what,
        _("Hide the key after each row too: torch.triu(…, diagonal=1) is hidden."),
        "fault" if known else "note",
        place.at(int(head), int(row), int(key)),
    )


def _is_ahead(one: WatchedAttention) -> bool:
    """Whether rows read the token after their own, and none read a later one."""
    queries = one.weights.shape[2]
    if not is_plain(one) or not is_of_itself(one) or queries < 4:
        return False
    read = reads(one)
    one_ahead = after(one) & ~after(one, 2)
    asked = read.any(-1, keepdims=True) & one_ahead  # a padded key may be hidden
    may = ~(one.masked.all(2, keepdims=True)) & asked
    ahead: Bools = read & one_ahead
    return bool(
        ahead.any() and (ahead == may).all() and not (read & after(one, 2)).any()
    )


def future(seen: Observation) -> Finding | None:
    """Report rows of a decoder that read keys after them."""
    places, known = decoder_places(seen)

    def ahead(one: WatchedAttention) -> Bools | None:
        if not is_plain(one) or not is_of_itself(one):
            return None
        if not known and one.query_ids is None:  # objects are asked for all at once
            return None
        wrong = reads(one) & after(one)
        labels = seen.labels
        if labels is not None and labels.shape == (len(wrong), wrong.shape[2]):
            wrong = wrong & (labels >= 0)[:, None, :, None]  # a prefix predicts nothing
        return wrong

    found = largest(places, ahead)
    if found is None:
        return None
    what = _(
        "The causal mask is missing, or does not hide: row {row} of head {head} reads "
        "key {key}, which comes after it, with weight {weight:.3g} (in {n} of {all} "
        "attentions).",
        **found.fields,
    )
    if not known:
        what = _(
            "If this is a decoder, its causal mask is missing, or does not hide: row "
            "{row} of head {head} reads key {key}, which comes after it, with weight "
            "{weight:.3g} (in {n} of {all} attentions).",
            **found.fields,
        )
    return Finding(
        "not-causal",
        found.place.words,
        what,
        _("Mask the keys after each row, for example with torch.tril."),
        "fault" if known else "note",
        found.at,
    )


def future_weight(seen: Observation) -> tuple[str, float] | None:
    """Say what the largest weight on a later key is."""
    several = [x.attention for x in decoder_places(seen)[0]]
    own = [x.weights * after(x) for x in several if is_plain(x) and is_of_itself(x)]
    if not own:
        return None
    most = _most(own)
    return _("The largest weight on a later key is {weight:.2g}.", weight=most), most


def padding_weight(seen: Observation) -> tuple[str, float] | None:
    """Say what the largest weight of a real token on padding is."""
    several = []
    for one in seen.attentions:
        hidden = padded(one, seen.pad)
        if hidden is not None and is_plain(one):
            real = real_queries(one, seen.pad)[:, None, :, None]
            several.append(one.weights * (real & hidden[:, None, None, :]))
    if not several:
        return None
    most = _most(several)
    return _(
        "The largest weight on a padding token is {weight:.2g}.", weight=most
    ), most


def _most(weights: list[Floats]) -> float:
    return max(float(np.nan_to_num(x).max(initial=0)) for x in weights)


def padding(seen: Observation) -> Finding | None:
    """Report real tokens that read padding."""

    def pads(one: WatchedAttention) -> Bools | None:
        hidden = padded(one, seen.pad)
        if hidden is None or not is_plain(one):
            return None
        real = real_queries(one, seen.pad)[:, None, :, None]
        return reads(one) & real & hidden[:, None, None, :]

    found = largest(seen.places, pads)
    if found is None:
        return None
    return Finding(
        "padding-read",
        found.place.words,
        _(
            "Padding is not masked, or its mask does not hide: in batch row {batch}, "
            "row {row} of head {head} reads key {key}, a padding token, with weight "
            "{weight:.3g} (in {n} of {all} attentions).",
            **found.fields,
        ),
        _("Mask the keys that are padding: (ids != pad)[:, None, None, :]."),
        at=found.at,
    )


def no_key(seen: Observation) -> Finding | None:
    """Report rows that may read nothing, unless they are padding."""
    notes = []
    for place in seen.places:
        one = place.attention
        if one.mixed or not is_plain(one) or one.added is None:
            continue
        nothing = one.masked.all(-1)  # [B, H, Q]
        if not nothing.any():
            continue
        broken = nothing & np.isnan(one.weights).any(-1)
        wrong = broken | (nothing & ~_is_padding(one, seen.pad))
        whole = nothing.all(-1, keepdims=True) & (one.weights == 0).all(-1)
        if wrong.any():
            return _without_key(place, wrong)
        if whole.any():  # a sentence of padding alone: harmless where it gives zeros
            notes.append((place, whole))
    return _without_key(*notes[0], note=True) if notes else None


def _is_padding(one: WatchedAttention, pad: int | None) -> Bools:
    """Which rows the masks themselves, or their ids, tell to be padding, [B, H, Q]."""
    nothing = np.asarray(one.masked.all(-1))
    padding = ~real_queries(one, pad)[:, None, :] | nothing.all(-1, keepdims=True)
    if one.kind != "cross" and one.weights.shape[2] == one.weights.shape[3]:
        hidden: Bools = padding | one.masked.all(2)  # as keys, nobody may read them
        return hidden
    before = np.logical_and.accumulate(nothing, 2)
    behind = np.logical_and.accumulate(nothing[..., ::-1], 2)[..., ::-1]
    ends: Bools = padding | before | behind
    return ends


def _without_key(place: LayerPlace, rows: Bools, *, note: bool = False) -> Finding:
    batch, head, row = map(int, np.argwhere(rows)[0])
    weights = place.attention.weights[batch, head, row]
    given = {"row": row + 1, "head": head + 1, "batch": batch + 1}
    if np.isnan(weights).any():
        what = _(
            "In batch row {batch}, row {row} of head {head} may read no key, so its "
            "weights are NaN.",
            **given,
        )
    elif not weights.any():
        what = _(
            "In batch row {batch}, row {row} of head {head} may read no key, so its "
            "result is 0.",
            **given,
        )
    else:
        what = _(
            "In batch row {batch}, row {row} of head {head} may read no key, so it "
            "reads all of them, with weight {weight:.3g} at most.",
            **given,
            weight=float(weights.max()),
        )
    return Finding(
        "no-key",
        place.words,
        what,
        _("Leave each row a key: with a causal mask, its own token."),
        "note" if note else "fault",
        place.at(head, row),
    )
