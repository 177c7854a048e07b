"""Look: how attention is shown, and what is done to it first. One frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from visformer.language import N_

Form = Literal["map", "arcs", "text"]
Summary = Literal["head", "mean", "max", "all", "rollout"]
TokenGroup = Literal["special", "pad", "punctuation"]
Order = Literal["place", "entropy", "maximum", "alignment", "cell"]
TokenRole = Literal["query", "key"]

# As named on screen, translated there.
FORMS: dict[Form, str] = {
    "map": N_("map"),
    "arcs": N_("arcs"),
    "text": N_("text"),
}
SUMMARIES: dict[Summary, str] = {
    "head": N_("one head"),
    "mean": N_("mean of heads"),
    "max": N_("maximum of heads"),
    "all": N_("mean of all layers"),
    "rollout": N_("rollout"),
}
TOKEN_GROUPS: dict[TokenGroup, str] = {
    "special": N_("special tokens"),
    "pad": N_("pads"),
    "punctuation": N_("punctuation"),
}
ORDERS: dict[Order, str] = {
    "place": N_("by layer and head"),
    "entropy": N_("by entropy"),
    "maximum": N_("by maximum"),
    "alignment": N_("most in order"),
    "cell": N_("the locked cell"),
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
    ahead: bool = True  # what is decoded but not yet stepped to is shown, faint
    pieces: bool = False  # tokens are shown as their vocabulary has them
    mass: float = 0.9  # arcs: share of each row carried by the fewest keys, in (0, 1]
    by: TokenRole = (
        "query"  # arcs and text: which token of the cell in focus has its weights shown
    )

    @property
    def raw(self) -> bool:
        """Whether the numbers shown are all those of one head, unchanged."""
        return self.summary == "head" and not self.hide and not self.words


DEFAULT_LOOK = Look()
