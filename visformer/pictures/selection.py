"""Selection: the part of a Trace that is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from visformer.language import N_
from visformer.values.facts import Kind
from visformer.values.measured import AttributionName, Attributions

Scale = Literal["fixed", "head", "row", "log"]
SCALES: dict[Scale, str] = {  # as named on screen, translated when shown
    "fixed": N_("0 to 1, linear"),
    "head": N_("each head's own maximum"),
    "row": N_("each row's own maximum"),
    "log": N_("0.0001 to 1, logarithmic"),
}
SCALE_TIPS: dict[Scale, str] = {
    "fixed": N_(
        "One colour scale from 0 to 1 for all heads, layers and steps: they can be "
        "compared, but small weights are pale."
    ),
    "head": N_(
        "The largest weight of each head has the strongest colour: what a pale head "
        "does is visible, but two heads cannot be compared."
    ),
    "row": N_(
        "The largest weight of each row has the strongest colour: what each token "
        "reads most is visible, but two rows cannot be compared."
    ),
    "log": N_(
        "Equal steps of colour are equal factors: ten times the weight is the same "
        "step everywhere, in all heads, so small weights are visible too."
    ),
}


class AttentionCell(NamedTuple):
    """One query and one key of a kind of attention."""

    kind: Kind
    query: int
    key: int


@dataclass(frozen=True, slots=True)
class StageOptions:
    """The user's choices for single stages of the computation."""

    rate: float | None = None  # dropout rate, in [0, 0.9]; None: the model's own
    seed: int = 1  # of dropout's random numbers


AT_FIRST = StageOptions()


ALIGNED: dict[str, str] = {  # as named on screen, translated when shown
    "characters": N_("by characters"),
    "position": N_("by position"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """The state of single views; "" is a view's first option."""

    pages: Mapping[str, str] = field(default_factory=dict)  # by tab name
    mask_layer: int | None = None  # whose masks the lab changes; None: all layers
    positions: tuple[int, int] | None = None  # first, last; None: the sentence's
    likeness: str = ""  # measure of similarity between positions
    side: str = ""  # of the sentence, whose input is shown
    lens: str = ""  # what the cells of the lens of all steps show
    embedding: str = ""  # the side whose table of embeddings is looked up
    beams: int = 4  # that a sentence is searched by, where others choose its tokens
    token: int | str = ""  # looked up, by id or name; "": the longest of the sentence
    compare_all: bool = False  # also what does not differ between two runs
    aligned: str = "characters"  # how tokens of two sources are compared
    beside: bool = False  # the run that is compared with stands beside the one shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One kind, layer and head, the cell in focus, and the scale of its colours."""

    kind: Kind  # the focused one
    layer: int
    head: int
    cell: AttentionCell | None = None  # in focus
    scale: Scale = "fixed"
    attributions: Attributions | None = None  # what tokens do, as far as measured


Form = Literal["map", "arcs", "text"]
Summary = Literal["head", "mean", "max", "all", "rollout", AttributionName]
TokenGroup = Literal["special", "pad", "punctuation"]
Order = Literal["place", "entropy", "maximum", "alignment", "cell"]
TokenRole = Literal["query", "key"]

# As named on screen, translated when shown.
FORMS: dict[Form, str] = {
    # i18n: forms of a picture of attention
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
    "zeroing": N_("value zeroing"),
    "norms": N_("norms of a v Wₒ"),
    "gradient": N_("gradient × input"),
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
    """How attention is shown; by default, one head's unchanged weights."""

    form: Form = "map"
    summary: Summary = "head"
    hide: frozenset[TokenGroup] = frozenset()
    renormalise: bool = False  # rows sum to 1 again after hiding
    words: bool = False  # subwords merged: sum over keys, mean over queries
    order: Order = "place"  # of the overview
    ahead: bool = True  # tokens decoded after the current step are shown, faint
    pieces: bool = False  # tokens are shown as in the vocabulary
    mass: float = 0.9  # arcs: share of each row covered by its top keys, in (0, 1]
    by: TokenRole = (
        "query"  # arcs and text: which token of the cell in focus has its weights shown
    )

    @property
    def raw(self) -> bool:
        """Whether all numbers shown are those of one head, unchanged."""
        return self.summary == "head" and not self.hide and not self.words


DEFAULT_LOOK = Look()
