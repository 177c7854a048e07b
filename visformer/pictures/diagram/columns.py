"""Placed boxes, arrows and words; x in characters, y in lines downwards."""

import re
import textwrap
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypedDict

from visformer.pictures.picture import AttentionRole
from visformer.values.facts import Kind

Style = Literal[
    "block",
    "norm",
    "layer",
    "frame",
    "add",
    "token",
    "row",
    "outside",
    "mask",
    "text",
    "head",
]
Line = Literal["flow", "residual", "memory", "next"]
Point = tuple[float, float]

BLOCK = 1.3  # lines: the height of a block
SMALL = 0.8  # relative size of words beside arrows


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A block with its name on the left and, if there is room, a detail."""

    x: float  # left, in characters
    y: float  # top, in lines
    width: float
    height: float = BLOCK
    title: str = ""
    detail: str = ""  # on the right; omitted if both do not fit
    style: Style = "block"
    id: str = ""  # of a selectable block, named as in the parameters
    words: str = ""  # description for screen readers
    strong: bool = False  # on the current step's path
    stack: int = 1  # how many copies are drawn, one behind the other
    role: AttentionRole = ""

    @property
    def centre(self) -> Point:
        return self.x + self.width / 2, self.y + self.height / 2

    def holds(self, x: float, y: float) -> bool:
        """Whether a point is inside."""
        return (
            self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A line through points, with a head at its end."""

    points: tuple[Point, ...]
    line: Line = "flow"
    strong: bool = False
    head: bool = True
    role: AttentionRole = ""  # of the data that flow along it


class Goal(TypedDict, total=False):
    """Where a block's numbers are: the tab, and what to select in it."""

    tab: str
    stage: str
    kind: Kind
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A whole diagram, from back to front."""

    width: float  # in characters
    height: float  # in lines
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    beside: float = 0.0  # left edge of the chosen block's inside, in characters
    chosen: str = ""  # the block whose inside is shown
    path: tuple[Point, ...] = ()  # the path of the current step's newest row
    sentence: str = ""  # describes the current step
    goes: Mapping[str, Goal] = field(default_factory=dict)  # by block id

    def at(self, x: float, y: float) -> str:
        """Return the id of the topmost box at a point; "" if there is none."""
        ids = (box.id for box in reversed(self.boxes) if box.id and box.holds(x, y))
        return next(ids, "")

    def box(self, id: str) -> Box | None:
        return next((box for box in self.boxes if box.id == id), None)

    def walk(self, id: str, across: int, down: int) -> str:
        """Return the nearest block in a direction, or the same one if there is none."""
        blocks = [box for box in self.boxes if box.id]
        start = self.box(id)
        if start is None:
            return blocks[0].id if blocks else ""
        here = start.centre

        def distance(box: Box) -> float:
            x, y = (there - mine for there, mine in zip(box.centre, here, strict=True))
            along, sideways = (x / 4, y * 3) if across else (y, x / 4)
            ahead = along * (across or down)
            return ahead + 2 * abs(sideways) if ahead > 0.2 else float("inf")

        best = min(blocks, key=distance)
        return best.id if distance(best) < float("inf") else id


@dataclass(slots=True)
class Column:
    """Builds a column upwards, as data flow: each part is put on top of the last."""

    x: float  # left edge
    width: float
    gap: float  # lines: length of an arrow with words beside it
    y: float  # the bottom of the next part; decreases upwards
    strong: bool = False
    gaps: int = 0  # number of arrows of length ``gap``
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    @property
    def spine(self) -> float:
        """The x of the arrows in the middle."""
        return self.x + self.width / 2

    def box(
        self,
        title: str,
        id: str = "",
        *,
        detail: str = "",
        height: float = BLOCK,
        style: Style = "block",
        words: str = "",
        inset: float = 0.0,
        stack: int = 1,
    ) -> Box:
        """Put a block on top."""
        self.y -= height
        box = Box(
            x=self.x + inset,
            y=self.y,
            width=self.width - 2 * inset,
            height=height,
            title=title,
            detail=detail,
            style=style,
            id=id,
            words=words,
            strong=self.strong,
            stack=stack,
        )
        self.boxes.append(box)
        return box

    def up(self, words: str = "", *, by: float | None = None) -> None:
        """Put an arrow on top, with words to its right."""
        if by is None:
            by, self.gaps = self.gap, self.gaps + 1
        ends = (self.spine, self.y), (self.spine, self.y - by)
        self.arrows.append(Arrow(points=ends, strong=self.strong))
        self.y -= by
        if words:
            self.beside(words, by)

    def beside(self, words: str, height: float) -> None:
        """Put small words to the right of the part on top."""
        room = self.x + self.width - self.spine - 4
        self.boxes.append(
            text(self.spine + 1.8, self.y, room, words, height=height, small=True)
        )

    def add(self, id: str, start: float, lane: float, words: str) -> Box:
        """Put the residual's + on top; its line leaves the spine at y = ``start``.

        ``lane`` is the x at which the line runs up.
        """
        self.y -= ADD
        middle = self.y + ADD / 2
        bend = (self.spine, start), (lane, start), (lane, middle)
        end = (self.spine + RADIUS, middle)
        self.arrows.append(
            Arrow(points=(*bend, end), line="residual", strong=self.strong)
        )
        box = Box(
            x=self.spine - RADIUS,
            y=self.y,
            width=2 * RADIUS,
            height=ADD,
            title="+",
            style="add",
            id=id,
            words=words,
            strong=self.strong,
        )
        self.boxes.append(box)
        return box


ADD = 1.1  # lines: the height of a residual's +
RADIUS = 1.3  # characters, of the +


def text(
    x: float,
    y: float,
    width: float,
    words: str,
    *,
    height: float = 1.0,
    small: bool = False,
    strong: bool = False,
) -> Box:
    """Return text without a box; small text is faint."""
    detail = words if small else ""
    title = "" if small else words
    style: Style = "head" if strong else "text"
    return Box(
        x=x, y=y, width=width, height=height, title=title, detail=detail, style=style
    )


def paragraph(
    x: float, y: float, width: float, words: str, *, strong: bool = False
) -> list[Box]:
    """Return text broken into lines; strong text is wider."""
    room = max(8, int(width * (0.84 if strong else 0.96)))
    return [
        text(x, y + 1.05 * at, width, line, strong=strong)
        for at, line in enumerate(_wrapped(words, room))
    ]


# what is not broken: a word, or a Chinese character, with its brackets and stops
_PIECE = re.compile(r"\s*[（“]*(?:[^\s\u2e80-\uffef“”]+|.)[，。：；？！、）”…]*")


@lru_cache(maxsize=256)  # most words recur from step to step
def _wrapped(words: str, width: int) -> tuple[str, ...]:
    if characters(words) == len(words):
        return tuple(textwrap.wrap(words, width))
    lines = [""]
    for piece in _PIECE.findall(words):
        if lines[-1] and characters(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return tuple(lines)


def characters(token: str) -> int:
    """Return a token's width in characters: East Asian wide ones count twice."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in token)


def chips(
    tokens: tuple[str, ...],
    x: float,
    y: float,
    width: float,
    *,
    strong: int,
    joined: frozenset[int],
) -> list[Box]:
    """Return as many of the last tokens as fit, side by side.

    The token at ``strong`` is emphasised; tokens in ``joined`` touch the previous one.
    An ellipsis stands for omitted tokens.
    """
    sizes = [min(14.0, characters(token) + 2.5) for token in tokens]
    if sizes and 0 <= strong < len(sizes):
        sizes[strong] = min(16.0, 1.2 * sizes[strong])  # bold letters
    gaps = [0.0 if at in joined else 0.5 for at in range(1, len(tokens) + 1)]
    first, room = len(tokens), width - 3
    while first > 0 and sizes[first - 1] + gaps[first - 1] <= room:
        first -= 1
        room -= sizes[first] + gaps[first]
    shown, boxes = sizes[first:], []
    left = x + (width - sum(shown) - sum(gaps[first:])) / 2
    if first:
        left = x + 3
        boxes.append(text(x, y, 2.5, "…", height=BLOCK))
    for at, size in enumerate(shown, first):
        boxes.append(
            Box(
                x=left,
                y=y,
                width=size,
                title=tokens[at],
                style="token",
                strong=at == strong,
            )
        )
        left += size + gaps[at]
    return boxes
