"""A figure built downwards: the inside of a block, with text around it."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from visformer.language import N_, _, ngettext
from visformer.pictures.diagram.blocks import Counts, lengths
from visformer.pictures.diagram.columns import (
    BLOCK,
    Arrow,
    Box,
    Column,
    Style,
    paragraph,
    text,
)
from visformer.pictures.picture import AttentionRole
from visformer.pictures.token_names import chosen_name, names, word
from visformer.pictures.words.absent import without_steps_words
from visformer.pictures.words.choices import choice_sentence, has_fed, short_choice
from visformer.values.facts import ModelFacts, SentenceSide
from visformer.values.reading_order import reads_later
from visformer.values.step import Origin
from visformer.values.trace import Trace
from visformer.words import probability

FigureRoles = Sequence[AttentionRole]
STEP = 0.95  # lines: length of an arrow


class Figure:
    """Builds a figure downwards; its arrows point up, as the data flow."""

    def __init__(
        self, trace: Trace | None, model: ModelFacts, x: float, width: float
    ) -> None:
        self.trace, self.model = trace, model
        self.counts = Counts(model)
        self.x, self.width, self.y = x, width, 0.5
        self.boxes: list[Box] = []
        self.arrows: list[Arrow] = []
        self.source, self.target = lengths(self.trace)

    def head(self, words: str) -> None:
        """Write a heading."""
        lines = paragraph(self.x, self.y, self.width, words, strong=True)
        self.boxes += lines
        self.y += 1.05 * len(lines) + 0.2

    def say(self, words: str) -> None:
        """Write a sentence, broken into lines."""
        lines = paragraph(self.x, self.y, self.width, words)
        self.boxes += lines
        self.y += 1.05 * len(lines) + 0.25

    def say_parameters(self, id: str) -> None:
        """Write how many parameters a block has, if known."""
        if parameters := self.counts.words(id):
            self.say(parameters)

    def row(
        self,
        *blocks: tuple[float, float, str],
        style: Style = "block",
        id: str = "",
        stack: int = 1,
        roles: FigureRoles = (),
    ) -> list[Box]:
        """Put blocks side by side: (left, right, title), edges as shares of the width.

        ``roles`` has one entry per block, or none.
        """
        boxes = [
            Box(
                x=self.x + left * self.width,
                y=self.y,
                width=(right - left) * self.width,
                title=name,
                style=style,
                id=id,
                words=name,
                stack=stack,
                role=role,
            )
            for (left, right, name), role in zip(
                blocks, _each(roles, len(blocks)), strict=True
            )
        ]
        self.boxes += boxes
        self.y += BLOCK
        return boxes

    def up(
        self, *at: float, words: str = "", height: float = STEP, roles: FigureRoles = ()
    ) -> None:
        """Put arrows from the next row up to the last one, at shares of the width.

        ``roles`` has one entry per arrow, or none.
        """
        for share, role in zip(at, _each(roles, len(at)), strict=True):
            x = self.x + share * self.width
            points = (x, self.y + height), (x, self.y)
            self.arrows.append(Arrow(points=points, role=role))
        if words:
            beside = at[-1] if at[-1] < 0.75 else at[len(at) // 2]
            x = self.x + beside * self.width + 1
            room = self.x + self.width - x
            self.boxes.append(text(x, self.y, room, words, height=height, small=True))
        self.y += height

    def labels(self, *names: tuple[float, str], roles: FigureRoles = ()) -> None:
        """Put labels centred at shares of the width, each in the hue of its role."""
        for (share, name), role in zip(names, _each(roles, len(names)), strict=True):
            wide = len(name) + 2.0
            x = self.x + share * self.width - wide / 2
            self.boxes.append(replace(text(x, self.y, wide, name), role=role))
        self.y += 1.1


def _each(roles: FigureRoles, count: int) -> FigureRoles:
    none: list[AttentionRole] = [""] * count
    return roles or none


MOST_TOKENS = 60  # tokens listed with their ids
MOST_ROWS = 16  # predictions listed
_FED: dict[Origin, str] = {
    "forced": N_("forced: “{token}”"),
    "reference": N_("fed: “{token}”"),
}
_APPENDS = N_("Each step appends the token chosen in the step before.")
_FED_TOO = N_(
    "Each step appends the token of the step before, chosen, forced or fed from the "
    "reference."
)
_GIVEN = N_("The tokens were given: none was chosen in the step before.")


def token_list(side: SentenceSide) -> Callable[[Figure], None]:
    """Return a function that lists a side's tokens with their ids."""

    def show(figure: Figure) -> None:
        if figure.trace is None:
            figure.say(_("No sentence has been run yet."))
            return
        tokens = names(figure.trace, side)
        ids = figure.trace.source_ids if side == "source" else figure.trace.target_ids
        named = (
            f"{token} ({id})" for token, id in zip(tokens, ids.tolist(), strict=True)
        )
        listed = "  ".join(itertools.islice(named, MOST_TOKENS))
        if (more := len(tokens) - MOST_TOKENS) > 0:
            listed = _("{tokens} … and {more:,} more", tokens=listed, more=more)
        figure.say(
            ngettext(
                "{n:,} token (id in brackets): {tokens}",
                "{n:,} tokens (ids in brackets): {tokens}",
                len(tokens),
                tokens=listed,
            )
        )
        if side == "target":
            figure.say(_appends(figure.trace))

    return show


def _appends(trace: Trace) -> str:
    """Explain where the target's tokens came from."""
    if len(trace) and not trace.steps:
        return _(_GIVEN)
    if has_fed(trace.steps):
        return _(_FED_TOO)
    if trace.prompt > 1:
        return ngettext(
            "The first {n:,} token was given; each step appends the token of the step "
            "before.",
            "The first {n:,} tokens were given; each step appends the token of the "
            "step before.",
            trace.prompt,
        )
    return _(_APPENDS)


def list_predictions(figure: Figure) -> None:
    """List each row of the decoder's output with the token after it."""
    trace = figure.trace
    if trace is None or not len(trace):
        figure.say(_("Nothing has been decoded yet."))
        return
    if not trace.steps:
        figure.say(without_steps_words(trace))
        return
    first = max(0, len(trace) - MOST_ROWS)
    if first:
        figure.say(_("… rows 1 to {last}", last=first))
    causal = not reads_later(trace)
    for row in range(first, len(trace)):
        knows = _("tokens 1 to {last}", last=row + 1) if causal else _("possibly all")
        figure.boxes.append(
            Box(
                x=figure.x,
                y=figure.y,
                width=figure.width,
                height=1.2,
                title=_(
                    "row {row} “{read}” → {choice}",
                    row=row + 1,
                    read=word(trace, "target", row),
                    choice=short_choice(trace, row),
                ),
                detail=knows,
                style="head" if row == len(trace) - 1 else "text",
            )
        )
        figure.y += 1.2
    figure.say(_("On the right: the target tokens that a row depends on."))


def put_prediction(column: Column, trace: Trace | None) -> None:
    """Put the current step's token on top of a column."""
    if trace is None or not len(trace):
        column.box(_("no token yet"), "prediction", style="outside", inset=8)
        return
    if not trace.steps:
        words = _("next token: not in this trace")
        column.box(words, "prediction", style="outside", inset=8)
        return
    step = trace.steps[-1]
    column.box(
        _(_FED.get(step.origin, N_("“{token}”")), token=chosen_name(trace)),
        "prediction",
        detail=probability(step.probability),
        style="token",
        words=_(
            "Step {step}. {choice}", step=len(trace), choice=choice_sentence(trace)
        ),
        inset=8,
    )
