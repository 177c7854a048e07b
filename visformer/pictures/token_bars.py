"""The next token as bars: the best tokens, the step's own, and all others together."""

from __future__ import annotations

import math
from typing import NamedTuple

from visformer.language import _, ngettext
from visformer.pictures.candidates import BEST, rest_of
from visformer.pictures.picture import Table, saved_labels
from visformer.pictures.token_names import candidate, marks, word
from visformer.pictures.words.absent import has_target
from visformer.pictures.words.choices import choice_sentence, is_fed, short_choice
from visformer.values.trace import Trace
from visformer.words import probability


class TokenBar(NamedTuple):
    """One bar: a token, or all that have none of their own."""

    name: str
    p: float  # in [0, 1], or NaN
    rank: int  # from 1; 0 for the others together
    own: bool = False  # the step's token
    fed: bool = False  # it was forced or fed

    @property
    def words(self) -> str:
        """The bar in words."""
        if not self.rank:
            return _("{tokens}: {p} together", tokens=self.name, p=probability(self.p))
        if math.isnan(self.p):
            return _("“{token}”, p = NaN", token=self.name)
        return _(
            "rank {rank:,}: “{token}”, p = {p}",
            rank=self.rank,
            token=self.name,
            p=probability(self.p),
        )


def predicts(trace: Trace | None) -> bool:
    """Tell whether a run has bars at any step, so that they keep their place at 0."""
    if trace is None:
        return True
    return has_target(trace) and (not len(trace.whole) or bool(trace.whole.steps))


def token_bars(trace: Trace | None) -> tuple[TokenBar, ...]:
    """Return the bars of a Trace's last step; none where nothing is predicted."""
    if trace is None or not trace.steps:
        return ()
    step = trace.steps[-1]
    fed, how = is_fed(step), marks(trace, "target")
    bars = [
        TokenBar(candidate(c.token, how), c.probability, rank, c.id == step.id, fed)
        for rank, c in enumerate(step.candidates[:BEST], 1)
    ]
    if not any(bar.own for bar in bars):
        own = candidate(step.token, how)
        bars.append(TokenBar(own, step.probability, step.rank, own=True, fed=fed))
    known = trace.model.known
    others = 0 if known is None else known.target_vocabulary - len(bars)
    if others > 0:
        rest = rest_of(sum(bar.p for bar in bars))
        name = ngettext("{n:,} other", "{n:,} others", others)
        bars.append(TokenBar(name, rest, 0))
    return tuple(bars)


def bars_table(bars: tuple[TokenBar, ...]) -> Table | None:
    """Return the bars for export."""
    if not bars:
        return None
    rows = saved_labels(tuple(bar.name for bar in bars))
    values = tuple((bar.rank, bar.p) for bar in bars)
    return Table(rows, (_("rank"), _("probability")), values)  # type: ignore[arg-type]


def headline(trace: Trace | None) -> str:
    """Say what the last step's token is, and after which; "" where there is none."""
    if trace is None or not trace.steps:
        return ""
    step = trace.steps[-1]
    if math.isnan(step.probability):
        return choice_sentence(trace)
    return _(
        "Step {step}, after “{read}”: {choice}",
        step=len(trace),
        read=word(trace, "target", -1),
        choice=short_choice(trace),
    )
