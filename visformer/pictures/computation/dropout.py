"""Dropout: one row of the feed-forward output in evaluation and in training mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from visformer.language import _, ngettext
from visformer.pictures.computation.stage_picture import (
    Shading,
    StageMap,
    StagePicture,
    difference,
    queries,
    stage_map,
    vectors,
)
from visformer.pictures.computation.subject import Subject
from visformer.pictures.picture import largest
from visformer.values.arrays import Floats
from visformer.words import dimension_words, number

USUAL = 0.1  # of the base model of Vaswani et al. 2017, section 5.4
DRAWS = 1000  # number of draws averaged


def own_rate(rates: tuple[float, ...]) -> float:
    """Return the rate shown first: the model's, if it has a single one above 0."""
    return rates[0] if len(rates) == 1 and rates[0] else USUAL


def rate_words(rates: tuple[float, ...], rate: float | None) -> str:
    """State the origin of the rate: the model's files, the paper, or the user."""
    if rate is not None:
        return _("You chose p = {p}.", p=number(rate))
    if not rates:
        return _(
            "The model's files name no rate: p = {p} is the paper's.", p=number(USUAL)
        )
    if len(rates) > 1:
        return _(
            "The model was trained in stages, with p from {least} to {largest}; shown "
            "is the paper's p = {p}.",
            least=number(rates[0]),
            largest=number(rates[-1]),
            p=number(USUAL),
        )
    if rates[0]:
        return _("The model was trained with p = {p}.", p=number(rates[0]))
    return _(
        "The model was trained without dropout (p = 0); shown is the paper's p = {p}.",
        p=number(USUAL),
    )


def kept(shape: tuple[int, int], rate: float, seed: int) -> Floats:
    """Draw a mask, float32 [rows, D]: 0 with probability ``rate``, otherwise 1.

    Adding rows leaves the earlier ones unchanged.
    """
    drawn = np.random.default_rng(seed).random(shape, np.float32)
    return (drawn >= np.float32(rate)).astype(np.float32)


def dropout_stage(subject: Subject) -> StagePicture:
    """Show what training would drop from the feed-forward output, and the mean."""
    options, at = subject.options, subject.at
    rate = own_rate(subject.dropout) if options.rate is None else options.rate
    added = subject.cut(subject.rows().feed_forward.residual.added)
    mask = kept((len(added), added.shape[1]), rate, options.seed)
    trained = np.where(mask > 0, added / np.float32(1 - rate), np.float32(0))
    shares = kept((DRAWS, added.shape[1]), rate, options.seed).mean(0)
    mean = added[at] * shares / np.float32(1 - rate)
    top = max(largest(added), largest(trained))
    shading = Shading(mask, (_("0 dropped"), _("1 kept")))

    def drawn(one: StageMap) -> StageMap:
        return replace(one, key=(*one.key, rate, options.seed))

    return StagePicture(
        formula=_(
            "evaluation: y = FFN(x); training: y = m ⊙ FFN(x) / (1 − p), where each "
            "number of m is 0 with probability p, otherwise 1, so that the mean of y "
            "is FFN(x)"
        ),
        maps=(
            queries(subject, "", _("FFN(x), in evaluation"), added, top=top),
            drawn(
                stage_map(
                    *(subject, "⊙", _("mask m"), lambda: mask, ("query", "model")),
                    colours=lambda: shading,
                )
            ),
            drawn(
                queries(
                    *(subject, f"÷ {number(1 - rate)} =", _("y, in training"), trained),
                    top=top,
                )
            ),
        ),
        words=_words(subject, rate, added, mask, mean),
        table=replace(
            vectors(
                subject,
                "model",
                (
                    _("FFN(x), in evaluation"),
                    _("kept"),
                    _("y, in training"),
                    _("mean of {n:,} draws", n=DRAWS),
                ),
                [added[at], mask[at], trained[at], mean],
            ),
            flags=(1,),
        ),
    )


def _words(
    subject: Subject, rate: float, added: Floats, mask: Floats, mean: Floats
) -> str:
    """State the origin of p, and what happens to the row and one of its numbers."""
    at, d = subject.at, subject.dimension("model", added.shape[1])
    value = float(added[at, d])
    fields = {
        "token": subject.token("query"),
        "element": f"FFN(x)[{dimension_words(d)}]",
        "value": number(value),
    }
    if mask[at, d]:
        one = _(
            "{token}: {element} = {value} is kept: in training {value} / {left} = "
            "{result}.",
            left=number(1 - rate),
            result=number(value / (1 - rate)),
            **fields,
        )
    else:
        one = _("{token}: {element} = {value} is dropped: in training 0.", **fields)
    row = ngettext(
        "Draw {seed} drops {n:,} number of {width:,} in this row.",
        "Draw {seed} drops {n:,} numbers of {width:,} in this row.",
        int((mask[at] == 0).sum()),
        seed=subject.options.seed,
        width=added.shape[1],
    )
    expected = _(
        "The mean of {draws:,} draws differs from evaluation by at most {difference}.",
        draws=DRAWS,
        difference=difference(mean, added[at]),
    )
    where = rate_words(subject.dropout, subject.options.rate)
    return " ".join((where, one, row, expected))
