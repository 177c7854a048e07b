"""A figure built downwards: the inside of a block, with words around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from visformer.pictures.diagram.blocks import Counts, lengths
from visformer.pictures.diagram.columns import BLOCK, Arrow, Box, Style, paragraph, text
from visformer.pictures.picture import AttentionRole
from visformer.values.facts import ModelFacts
from visformer.values.trace import Trace

FigureRoles = Sequence[AttentionRole]
STEP = 0.95  # lines: the length of an arrow


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
        """Write how many parameters a block has, if that is known."""
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
        """Put blocks side by side: (left, right, title), the edges as shares.

        ``roles``: of each block; () for none.
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
        self,
        *at: float,
        words: str = "",
        height: float = STEP,
        roles: FigureRoles = (),
    ) -> None:
        """Put arrows from the next row up to the last one, at shares of the width.

        ``roles``: of each arrow; () for none.
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
        """Put labels centred at shares of the width, each in its role's hue."""
        for (share, name), role in zip(names, _each(roles, len(names)), strict=True):
            wide = len(name) + 2.0
            x = self.x + share * self.width - wide / 2
            self.boxes.append(replace(text(x, self.y, wide, name), role=role))
        self.y += 1.1


def _each(roles: FigureRoles, count: int) -> FigureRoles:
    """Return a role for each of ``count`` things; none where none are given."""
    none: list[AttentionRole] = [""] * count
    return roles or none
