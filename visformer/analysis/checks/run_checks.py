"""Checks of a whole run: its numbers, words, order, search, end, and idle heads."""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from visformer.analysis.checks.observation import (
    READ,
    LayerPlace,
    Observation,
    real_queries,
)
from visformer.language import _, ngettext
from visformer.values.arrays import Floats, row_entropy
from visformer.values.finding import EvidencePlace, Finding

# how much surer another layout must be: that of bundled models is never the surer one
NATS, TIMES = 0.05, 3.0
NEVER = 1e-3  # of chance; bundled models end with a probability of 0.9
ROUNDED = 1e-2  # of a sum of log p: a dozen float32 terms, and what precision adds


def broken_results(seen: Observation) -> Finding | None:
    """Report results that are NaN or infinite."""
    if not seen.broken:
        return None
    first = seen.broken[0]
    return Finding(
        "nan-result",
        first.name,
        _(
            "{bad:,} of its {total:,} numbers are NaN or infinite, and so is what "
            "follows from them (broken results: {n}).",
            bad=first.bad,
            total=first.total,
            n=len(seen.broken),
        ),
        _("Look at the layer before it: its weights, its scores, its norm."),
    )


def broken_ties(seen: Observation) -> Finding | None:
    """Report tables that are declared to be one and are two."""
    several = seen.state.broken_ties
    if not several:
        return None
    first = max(several, key=lambda one: one.apart)
    what = _(
        "“{first}” and “{second}” are declared to be one table, but are two that "
        "differ by {apart:.3g}.",
        **first._asdict(),
    )
    if not first.apart:
        what = _(
            "“{first}” and “{second}” are declared to be one table, but are two with "
            "the same numbers, which training would part.",
            **first._asdict(),
        )
    return Finding(
        "not-tied",
        first.second,
        what,
        _("Tie them again: output.weight = embedding.weight."),
        "fault" if first.apart else "note",
    )


def unknown_tokens(seen: Observation) -> Finding | None:
    """Report source tokens that the vocabulary does not have."""
    if not seen.unknown:
        return None
    return Finding(
        "unknown-tokens",
        _("source"),
        ngettext(
            "{n} of {all} source token is unknown to the model (token {first}).",
            "{n} of {all} source tokens are unknown to the model (the first is token "
            "{first}).",
            len(seen.unknown),
            all=seen.words,
            first=seen.unknown[0] + 1,
        ),
        _("See that the text is in the model's language, and the vocabulary its own."),
        "note",
    )


def order_unseen(seen: Observation) -> Finding | None:
    """Report a source whose order makes no difference."""
    compared = seen.compared
    if compared is None or compared.reordered is None:
        return None
    if compared.reordered > compared.limit:
        return None
    return Finding(
        "order-not-seen",
        _("source"),
        _(
            "With the source tokens in another order the output is the same: it "
            "differs by {apart:.2g}.",
            apart=compared.reordered,
        ),
        _("Add the position of each token along its own sentence."),
    )


def other_layout(seen: Observation) -> Finding | None:
    """Report positions in whose place others make the model much surer."""
    layouts = None if seen.compared is None else seen.compared.layouts
    if layouts is None or layouts.own < layouts.other + NATS:
        return None
    if seen.unknown:  # of what it does not know, no model is sure
        return None
    if layouts.own < TIMES * layouts.other:
        return None
    return Finding(
        "position-layout",
        _("positions"),
        _(
            "With sinusoids in the layout “{name}” the model is far surer of what it "
            "writes: its mean -log p is {other:.2g} in place of {own:.2g}.",
            **layouts._asdict(),
        ),
        _("Give it the positions that it was trained with: {name}.", name=layouts.name),
    )


def layout_words(seen: Observation) -> tuple[str, float] | None:
    """Say how sure the model is, as it is and with other positions."""
    layouts = None if seen.compared is None else seen.compared.layouts
    if layouts is None:
        return None
    words = _(
        "The mean -log p of what it writes is {own:.2g}; with the layout “{name}” it "
        "is {other:.2g}.",
        **layouts._asdict(),
    )
    return words, layouts.own


def beam_order(seen: Observation) -> Finding | None:
    """Report beams that are not sorted, not greedy search, or of a wrong score."""
    beams = None if seen.compared is None else seen.compared.beams
    if beams is None:
        return None
    step = None
    if beams.unsorted is not None:
        step, rank = beams.unsorted
        what = _(
            "Beam {rank} of step {step} has a higher score than the one before it.",
            rank=rank + 1,
            step=step + 1,
        )
    elif beams.greedy is not None:
        step = beams.greedy
        what = _(
            "A search with one beam is not greedy search: step {step} is another "
            "token.",
            step=step + 1,
        )
    elif beams.score is not None and not beams.score <= ROUNDED:
        what = _(
            "The best hypothesis has another sum of log p in a pass over its tokens: "
            "they differ by {apart:.3g}.",
            apart=beams.score,
        )
    else:
        return None
    return Finding(
        "beam-order",
        _("search"),
        what,
        _("Sort hypotheses by their score, and choose caches and ids by one index."),
        at=None if step is None else EvidencePlace(row=step),
    )


def beam_words(seen: Observation) -> tuple[str, float] | None:
    """Say how far the best hypothesis's score is from that of a pass."""
    beams = None if seen.compared is None else seen.compared.beams
    if beams is None or beams.score is None:
        return None
    return _(
        "The best hypothesis has the sum of log p that a pass gives, within "
        "{apart:.2g}.",
        apart=beams.score,
    ), beams.score


def no_end(seen: Observation) -> Finding | None:
    """Report an end token that is never likely."""
    ran = seen.ran
    if ran is None or ran.ended or ran.likeliest * ran.vocabulary >= 1:
        return None
    never = ran.likeliest * ran.vocabulary < NEVER
    last = never and ran.least_rank >= ran.vocabulary
    if not last and seen.words is None:  # tokens that are drawn may lead nowhere
        return None
    return Finding(
        "end-never-likely",
        _("output"),
        _(
            "The end token is never likelier than chance: its probability is "
            "{p:.2g} at most, at row {row}, where its rank is {rank:,} of {all:,}.",
            p=ran.likeliest,
            row=ran.row + 1,
            rank=ran.least_rank,
            all=ran.vocabulary,
        ),
        _("See that labels end with it, that its id is right, and no mask hides it."),
        "fault" if last else "note",
        EvidencePlace(row=ran.row),
    )


def at_limit(seen: Observation) -> Finding | None:
    """Report a sentence that ended since no more tokens were allowed."""
    ran = seen.ran
    if ran is None or ran.ended or seen.words is None:
        return None
    return Finding(
        "ended-by-limit",
        _("output"),
        _(
            "The run was ended by its limit of {n:,} tokens, not by the end token, "
            "whose probability is {p:.2g} at most, at row {row}.",
            n=ran.tokens,
            p=ran.likeliest,
            row=ran.row + 1,
        ),
        _("Look where it begins to repeat itself; see whether the limit is too low."),
        "note",
        EvidencePlace(row=ran.row),
    )


def end_words(seen: Observation) -> tuple[str, float] | None:
    """Say how likely the end token gets."""
    ran = seen.ran
    if ran is None:
        return None
    words = _(
        "The end token has the probability {p:.2g} at row {row}; the run has {n} "
        "tokens.",
        p=ran.likeliest,
        row=ran.row + 1,
        n=ran.tokens,
    )
    return words, ran.likeliest


LEAST_KEYS = 3  # that a row may read; with fewer, heads are alike by chance
LEAST_ROWS = 4
UNIFORM = 0.9999  # of the entropy of equal weights; bundled models: 0.98 at most
SAME_HEADS = 1e-3  # the largest difference of weights; bundled models: 0.05 at least
COLLAPSED = 0.05  # bits, the mean of a whole layer (entropy collapse: Zhai et al. 2023)


class HeadSeen(NamedTuple):
    """The rows of one head that tell something: [N, K], and how many keys each has."""

    place: LayerPlace
    head: int
    rows: Floats
    entropy: float  # mean of the rows, in bits
    share: float  # of the entropy of equal weights


def heads_of(seen: Observation) -> list[list[HeadSeen]]:
    """Return the heads of each layer whose rows have enough keys."""
    return [heads for place in seen.places if (heads := [*_heads(place, seen.pad)])]


def _heads(place: LayerPlace, pad: int | None) -> Iterator[HeadSeen]:
    one = place.attention
    if one.over != "keys" or one.mixed or np.isnan(one.weights).any():
        return
    if one.key_ids is not None and len(np.unique(one.key_ids)) == 1:
        return  # of one token over and over, all keys are nearly the same
    everywhere, real = one.masked, real_queries(one, pad)
    for head in range(one.weights.shape[1]):
        masked = everywhere[:, head]  # [B, Q, K]
        may = (~masked).sum(-1)  # [B, Q]
        leaks = (masked & (one.weights[:, head] > READ)).any(-1)
        told = real & (may >= LEAST_KEYS) & ~leaks
        if told.sum() < LEAST_ROWS:
            continue
        rows = one.weights[:, head][told]
        entropies, most = row_entropy(rows), np.log2(may[told])
        mean, share = float(entropies.mean()), float((entropies / most).mean())
        yield HeadSeen(place, head, rows, mean, share)


def uniform(seen: Observation) -> Finding | None:
    """Report heads that read all keys alike, unless all of them do."""
    heads = [head for layer in heads_of(seen) for head in layer]
    found = [head for head in heads if head.share >= UNIFORM]
    if not found or len(found) == len(heads):
        return None  # all of them: as a model begins that is not trained
    first = max(found, key=lambda head: head.share)
    return Finding(
        "uniform-head",
        first.place.words,
        _(
            "Head {head} reads all its keys alike: its entropy is {share:.2%} of the "
            "largest one ({n} of {all} heads).",
            head=first.head + 1,
            share=first.share,
            n=len(found),
            all=len(heads),
        ),
        _("Nothing to do: it adds the mean of the values. It may be pruned."),
        "note",
        first.place.at(first.head),
    )


def duplicate(seen: Observation) -> Finding | None:
    """Report two heads of a layer with the same weights."""
    pairs = [*_pairs(seen)]
    apart, one, other = min(pairs, key=lambda x: x[0], default=(math.inf, None, None))
    if one is None or other is None or apart > SAME_HEADS:
        return None
    return Finding(
        "duplicate-heads",
        one.place.words,
        _(
            "Heads {first} and {second} read the same: their weights differ by "
            "{apart:.2g} at most ({n} such pairs of {all}).",
            first=one.head + 1,
            second=other.head + 1,
            apart=apart,
            n=sum(pair[0] <= SAME_HEADS for pair in pairs),
            all=len(pairs),
        ),
        _("One of them may be pruned, if their values are alike, too."),
        "note",
        one.place.at(one.head),
    )


def _pairs(seen: Observation) -> Iterator[tuple[float, HeadSeen, HeadSeen]]:
    for layer in heads_of(seen):
        told = [x for x in layer if x.entropy > COLLAPSED and x.share < UNIFORM]
        for one, other in itertools.combinations(told, 2):
            if one.rows.shape == other.rows.shape:
                yield float(np.abs(one.rows - other.rows).max()), one, other


def collapsed(seen: Observation) -> Finding | None:
    """Report a layer each of whose heads reads one key at a time."""
    layers = heads_of(seen)
    found = [x for x in layers if max(head.entropy for head in x) < COLLAPSED]
    if not found:
        return None
    place = found[0][0].place
    return Finding(
        "collapsed-entropy",
        place.words,
        _(
            "Each head reads one key at a time: the mean entropy of its rows is "
            "{bits:.2g} bits at most (in {n} of {all} attentions).",
            bits=max(head.entropy for head in found[0]),
            n=len(found),
            all=len(layers),
        ),
        _("If training is unstable, look at its rate and at the size of the scores."),
        "note",
        place.at(),
    )


def entropies(seen: Observation) -> tuple[str, float] | None:
    """Say what the lowest and the highest entropy of a head is."""
    heads = [head for layer in heads_of(seen) for head in layer]
    if not heads:
        return None
    low = min(heads, key=lambda head: head.entropy)
    high = max(heads, key=lambda head: head.share)
    words = _(
        "The mean entropy of a head is {low:.2g} bits at least, and {share:.1%} of "
        "that of equal weights at most.",
        low=low.entropy,
        share=high.share,
    )
    return words, low.entropy


def closest(seen: Observation) -> tuple[str, float] | None:
    """Say how far apart the two heads are that are most alike."""
    apart = min((pair[0] for pair in _pairs(seen)), default=None)
    if apart is None:
        return None
    return _("The two heads most alike differ by {apart:.2g}.", apart=apart), apart
