"""Look: how attention is shown, and what is done to it before. One frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["map", "arcs", "text"]
Summary = Literal["head", "mean", "max", "all", "rollout"]
TokenGroup = Literal["special", "pad", "punctuation"]
Order = Literal["place", "entropy", "maximum", "alignment"]
TokenRole = Literal["query", "key"]

# As named on screen.
FORMS: dict[Form, str] = {"map": "heat map", "arcs": "arcs", "text": "tinted text"}
SUMMARIES: dict[Summary, str] = {
    "head": "one head",
    "mean": "mean of heads",
    "max": "maximum of heads",
    "all": "mean of all layers",
    "rollout": "rollout",
}
TOKEN_GROUPS: dict[TokenGroup, str] = {
    "special": "special tokens",
    "pad": "pads",
    "punctuation": "punctuation",
}
ORDERS: dict[Order, str] = {
    "place": "layer and head",
    "entropy": "entropy",
    "maximum": "maximum",
    "alignment": "alignment",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The default shows one head's weights as the model has them."""

    form: Form = "map"
    summary: Summary = "head"
    hide: frozenset[TokenGroup] = frozenset()
    renormalise: bool = False  # rows sum to 1 again after hiding
    words: bool = False  # subwords merged: sum over keys, mean over queries
    order: Order = "place"  # of the overview
    mass: float = 0.9  # arcs: share of each row that the fewest keys carry, in (0, 1]
    by: TokenRole = (
        "query"  # arcs and text: whose weights stand out, of the cell in focus
    )

    @property
    def raw(self) -> bool:
        """Tell whether the numbers shown are one head's own, all of them."""
        return self.summary == "head" and not self.hide and not self.words


DEFAULT_LOOK = Look()
