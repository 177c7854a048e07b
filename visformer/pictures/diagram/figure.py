"""A figure built downwards: the inside of a block, with words around it."""

from __future__ import annotations

from visformer.pictures.diagram.blocks import Counts, lengths
from visformer.pictures.diagram.columns import BLOCK, Arrow, Box, Style, paragraph, text
from visformer.values.facts import ModelFacts
from visformer.values.trace import Trace

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
    ) -> list[Box]:
        """Put blocks side by side: (left, right, title), the edges as shares."""
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
            )
            for left, right, name in blocks
        ]
        self.boxes += boxes
        self.y += BLOCK
        return boxes

    def up(self, *at: float, words: str = "", height: float = STEP) -> None:
        """Put arrows from the next row up to the last one, at shares of the width."""
        for share in at:
            x = self.x + share * self.width
            points = (x, self.y + height), (x, self.y)
            self.arrows.append(Arrow(points=points))
        if words:
            beside = at[-1] if at[-1] < 0.75 else at[len(at) // 2]
            x = self.x + beside * self.width + 1
            room = self.x + self.width - x
            self.boxes.append(text(x, self.y, room, words, height=height, small=True))
        self.y += height

    def labels(self, *names: tuple[float, str]) -> None:
        """Put labels centred at shares of the width."""
        for share, name in names:
            wide = len(name) + 2.0
            x = self.x + share * self.width - wide / 2
            self.boxes.append(text(x, self.y, wide, name))
        self.y += 1.1
