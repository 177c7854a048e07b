"""The stages from queries and keys to a cell's weight."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from visformer.language import _, ngettext, p_, sentences
from visformer.pictures.computation.scale_stage import (
    added_to,
    head_of,
    only,
    products_of,
    scores_name,
    scores_of,
)
from visformer.pictures.computation.stage_picture import (
    Shading,
    StagePicture,
    queries,
    stage_map,
    terms,
    vectors,
    weights_map,
)
from visformer.pictures.computation.subject import Subject, sharing_words
from visformer.values.arrays import Bools, Floats
from visformer.values.not_finite import nan_row_words
from visformer.words import masked_value_text, number, probability


def product_stage(subject: Subject) -> StagePicture:
    """Show every query times every key."""
    q, k = _pair(subject)
    total = float(q.astype(np.float64) @ k)
    keys = subject.trace.keys(subject.kind, subject.layer, subject.head)
    maps = (
        queries(subject, "", "Q", _block_queries(subject), "head", role="query"),
        stage_map(subject, "×", "Kᵀ", lambda: keys.T, ("head", "key"), role="key"),
        stage_map(subject, "=", "QKᵀ", lambda: products_of(subject), ("query", "key")),
    )
    return StagePicture(
        formula=_("QKᵀ: the dot product of every query with every key"),
        maps=maps,
        words=sentences(
            filter(
                None,
                (f"q·k = {terms(q, k)} = {number(total)}.", sharing_words(subject)),
            )
        ),
        table=vectors(subject, "head", ("q", "k", "q × k"), [q, k, q * k]),
    )


def mask_stage(subject: Subject) -> StagePicture:
    """Show which scores are replaced by the masked value."""
    scores, mask, masked = scores_of(subject), _mask(subject), _masked(subject)
    flags = mask.astype(np.float32)
    maps = (
        stage_map(subject, "", scores_name(subject), lambda: scores, ("query", "key")),
        stage_map(
            subject,
            p_("between pictures", "and"),
            _("mask"),
            lambda: flags,
            ("query", "key"),
            forbidden=~mask,
            colours=lambda: Shading(flags, ("False", "True"), boolean=True),
        ),
        stage_map(
            subject,
            "→",
            _("masked scores"),
            lambda: masked,
            ("query", "key"),
            forbidden=~mask,
        ),
    )
    score = float(scores[subject.at, subject.key])
    rows = np.stack([scores[subject.at], flags[subject.at], masked[subject.at]])
    names = _("score"), _("may attend"), _("masked score")
    return StagePicture(
        formula=_mask_formula(subject, mask),
        maps=maps,
        words=_mask_words(subject, score, mask[subject.at]),
        table=replace(vectors(subject, "key", names, rows), flags=(1,)),
    )


def _mask_formula(subject: Subject, mask: Bools) -> str:
    """Say how masking changes a score, and what weight masked keys have."""
    value = masked_value_text(subject.facts.masked_value)
    kept = subject.weights[subject.queries][~mask]
    if not kept.size:
        return _(
            "Where the mask is False, the score is replaced by {value}; here it is "
            "False nowhere",
            value=value,
        )
    if np.isnan(kept).any():
        return _(
            "Where the mask is False, the score is replaced by {value}; some rows of "
            "weights are NaN",
            value=value,
        )
    return _(
        "Where the mask is False, the score is replaced by {value}; the largest weight "
        "of a masked key is {most}",
        value=value,
        most=probability(float(kept.max())),
    )


def _mask_words(subject: Subject, score: float, allowed: Bools) -> str:
    """Say what happens to the cell's score; ``allowed`` [K] is the query's mask."""
    reads = ngettext(
        "This query may attend to {allowed:,} of {n:,} key.",
        "This query may attend to {allowed:,} of {n:,} keys.",
        len(allowed),
        allowed=int(allowed.sum()),
    )
    if allowed[subject.key]:
        outcome = _(
            "The query may attend to this key: the score stays {score}.",
            score=number(score),
        )
    else:
        outcome = _(
            "The query may not attend to this key: the score {score} is replaced by "
            "{value}.",
            score=number(score),
            value=masked_value_text(subject.facts.masked_value),
        )
    return sentences((outcome, reads))


def softmax_stage(subject: Subject) -> StagePicture:
    """Show how the masked scores become weights, and check the result."""
    forbidden, masked = ~_mask(subject), _masked(subject)
    exact = _exact_row(subject)
    if np.isnan(subject.weights[subject.query]).any():  # recomputing cannot match them
        exact = masked[subject.at].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        exponents = np.exp(exact - exact.max())
        chain = exponents / exponents.sum()
    rows = [exact, exponents, chain]
    names = [_("masked score"), _("exp(score − maximum)"), _("weight")]
    if subject.captured:
        names[-1:] = [_("softmax"), _("captured weight")]
        rows.append(subject.weights[subject.query])
        words, sign = _captured_words(subject, chain), p_("between pictures", "and")
        formula = _(
            "The weights were captured while the model ran: they are not just the "
            "softmax of these scores"
        )
    elif subject.changed("weights"):
        names[-1:] = [_("softmax"), _("changed weight")]
        rows.append(subject.weights[subject.query])
        words, sign = (
            _softmax_words(subject, exact, exponents, chain),
            p_("between pictures", "and"),
        )
        formula = _(
            "softmax over each row, then changed by {changes}",
            changes=subject.changed("weights"),
        )
    else:
        words, sign = _softmax_words(subject, exact, exponents, chain), "→ softmax"
        formula = _(
            "softmax over each row: exp(score − the row's maximum) / the row's sum, so "
            "that a row of numbers sums to 1"
        )
    return StagePicture(
        formula=formula,
        maps=(
            stage_map(
                subject,
                "",
                _("masked scores"),
                lambda: masked,
                ("query", "key"),
                forbidden=forbidden,
            ),
            weights_map(subject, sign),
        ),
        words=words,
        table=vectors(subject, "key", names, np.stack(rows).astype(np.float32)),
    )


def _captured_words(subject: Subject, chain: np.ndarray) -> str:
    """Compare the cell's captured weight with the softmax of its row, [K]."""
    return _(
        "The captured weight is {weight}; the softmax of the masked scores would be "
        "{softmax}.",
        weight=probability(float(subject.weights[subject.query, subject.key])),
        softmax=probability(float(chain[subject.key])),
    )


def _exact_row(subject: Subject) -> np.ndarray:
    """Return the query's masked scores, [K], recomputed in double precision."""
    where = subject.kind, subject.layer, subject.head
    q = subject.trace.queries(*where)[subject.query].astype(np.float64)
    scores = subject.trace.keys(*where).astype(np.float64) @ q  # [K]
    scores *= subject.trace.scale(subject.kind, subject.layer)
    bias = added_to(subject, slice(subject.query, subject.query + 1))
    if bias is not None:
        scores += bias[0]
    allowed = subject.trace.mask(*where)[subject.query]
    masked: np.ndarray = np.where(allowed, scores, subject.facts.masked_value)
    return masked


def _softmax_words(
    subject: Subject, row: np.ndarray, exponents: np.ndarray, chain: np.ndarray
) -> str:
    at, shown = subject.key, float(subject.weights[subject.query, subject.key])
    computed = float(chain[at])
    if math.isnan(shown):
        return nan_row_words(subject.trace, *subject.row)
    maximum = _score_text(subject, row.max())
    return _(
        "exp({score} − {maximum}) = {exponential}; divided by the row's sum, {sum}, "
        "this is {weight}. The weight on the Attention tab is {shown} (difference "
        "{difference}).",
        score=_score_text(subject, row[at]),
        maximum=f"({maximum})" if row.max() < 0 else maximum,
        exponential=number(exponents[at]),
        sum=number(exponents.sum()),
        weight=probability(computed),
        shown=probability(shown),
        difference=number(abs(computed - shown), 1),
    )


def _score_text(subject: Subject, value: float) -> str:
    masked = subject.facts.masked_value
    return masked_value_text(masked) if value == masked else number(value)


def _pair(subject: Subject) -> tuple[Floats, Floats]:
    """Return the cell's query and key, [d] each."""
    where = subject.kind, subject.layer, subject.head
    q = subject.trace.queries(*where)[subject.query]
    return q, subject.trace.keys(*where)[subject.key]


def _block_queries(subject: Subject) -> Floats:
    where = subject.kind, subject.layer, subject.head
    return subject.trace.queries(*where)[subject.queries]


def _mask(subject: Subject) -> Bools:
    where = subject.kind, subject.layer, subject.head
    return subject.trace.mask(*where)[subject.queries]


def _masked(subject: Subject) -> Floats:
    return only(head_of(subject).masked(subject.queries))
