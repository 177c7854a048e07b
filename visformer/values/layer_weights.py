"""The weights of one layer as plain numbers (numpy only): asked of the engine.

Arrays are read-only float32. Letters: ``D`` model width, ``F`` feed-forward width. A
token is a row, so a projection is ``x @ weight + bias``.
"""

from dataclasses import dataclass, replace

from visformer.values.arrays import Floats
from visformer.values.facts import Description, ModelFacts, StackName


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A projection."""

    weight: Floats  # [in, out]
    bias: Floats | None  # [out]

    def __call__(self, x: Floats) -> Floats:
        """Project rows: [..., in] -> [..., out]."""
        product: Floats = x @ self.weight
        return product if self.bias is None else product + self.bias


@dataclass(frozen=True, slots=True, eq=False)
class NormWeights:
    """A layer norm's own numbers; its rule and eps are the model's (ModelFacts)."""

    gamma: Floats  # [D]
    beta: Floats | None  # [D]; None where the norm only scales


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AttentionWeights:
    """One attention sublayer; columns h d .. (h + 1) d of q, k, v are head h's."""

    query: Linear  # [D, D]
    key: Linear
    value: Linear
    output: Linear  # W_O
    norm: NormWeights


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FeedForwardWeights:
    """One feed-forward sublayer."""

    w1: Linear  # [D, F]
    gate: Linear | None  # [D, F]; multiplies what is activated
    w2: Linear  # [F, D]
    norm: NormWeights


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LayerParameters:
    """All weights of one layer, and the model that they are of."""

    model: ModelFacts
    stack: StackName
    layer: int
    self_attention: AttentionWeights
    cross_attention: AttentionWeights | None  # None in the encoder
    feed_forward: FeedForwardWeights

    @property
    def size(self) -> int:
        """How many weights these are; biases and norms, which are few, not counted."""
        attention = (self.self_attention, self.cross_attention)
        linears = [
            linear
            for part in attention
            if part is not None
            for linear in (part.query, part.key, part.value, part.output)
        ]
        feed = self.feed_forward
        linears += [one for one in (feed.w1, feed.gate, feed.w2) if one is not None]
        return sum(linear.weight.size for linear in linears)

    def belong_to(self, model: ModelFacts) -> bool:
        """Tell whether these are weights of that model, however it ran."""
        return same_model(self.model, model)


def same_model(one: ModelFacts, other: ModelFacts) -> bool:
    """Tell whether two descriptions are of one model.

    It may run on another device, in part, or with another value for masked scores.
    """
    if one.known is not None and other.known is not None:
        config = replace(one.known, masked_value=other.known.masked_value)
        one = replace(one, **Description.of(config, other.kinds)._asdict())
    return replace(one, device=other.device) == other
