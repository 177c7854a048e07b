"""Checks of a whole run: its numbers, words, order, search and end."""

from __future__ import annotations

from visformer.analysis.checks.observation import Observation
from visformer.language import _, ngettext
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
