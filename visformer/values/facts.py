"""The facts of a model that its Traces need: kinds of attention, stacks, sizes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Self

from msgspec import Meta

from visformer.arguments import one_of
from visformer.errors import InputError
from visformer.values.config import ModelConfig

Kind = Literal["encoder", "decoder", "cross"]
StackName = Literal["encoder", "decoder"]
SentenceSide = Literal["source", "target"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
STACKS: tuple[StackName, ...] = ("encoder", "decoder")
SIDES: dict[Kind, tuple[SentenceSide, SentenceSide]] = {  # of its queries, of its keys
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}
STACK_OF: dict[Kind, StackName] = {  # whose rows are its queries
    "encoder": "encoder",
    "decoder": "decoder",
    "cross": "decoder",
}
# what a file may hold
ShortText = Annotated[str, Meta(max_length=1000)]
Width = Annotated[int, Meta(ge=1, le=16_384)]
HeadCount = Annotated[int, Meta(ge=1, le=256)]
ParameterCount = Annotated[int, Meta(ge=0, le=1 << 50)]
SpecialId = Annotated[int, Meta(ge=-1, lt=1 << 31)]  # -1: none


class BlockParameters(NamedTuple):
    """How many parameters one block of a model has of its own."""

    block: ShortText  # "encoder.0.self_attention", "output" ...
    parameters: ParameterCount  # without what it shares
    shared: ShortText = ""  # the block that counts the shared ones; "" for none


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionFacts:
    """One kind of attention: what its layers have in common, and each layer's scale."""

    scales: tuple[float, ...]  # of each layer: what q.k is multiplied by
    heads: HeadCount
    key_heads: HeadCount  # of keys and values: divides ``heads``; fewer if grouped
    head_size: Width  # numbers in one query or key
    value_size: Width  # numbers in one value
    masked_value: float  # replaces masked scores, after scaling and adding

    @property
    def layers(self) -> int:
        """How many layers have it."""
        return len(self.scales)

    def is_root(self, scale: float) -> bool:
        """Whether a scale is 1 / sqrt(d) of the queries' width, as in the paper."""
        return math.isclose(scale * math.sqrt(self.head_size), 1, rel_tol=1e-6)

    def key_head(self, head: int) -> int:
        """Return which of the ``key_heads`` a head reads: neighbours share one."""
        return head // (self.heads // self.key_heads)

    def read_by(self, head: int | None) -> slice | list[int]:
        """Return which of the ``key_heads`` one head reads, or each of all heads."""
        if head is not None:
            at = self.key_head(head)
            return slice(at, at + 1)
        if self.key_heads == self.heads:
            return slice(None)
        return [self.key_head(one) for one in range(self.heads)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """What a Trace keeps of a stack's residual stream."""

    d_model: Width
    hidden: int  # layers + 1: before the first, after each; 0 where it was not kept
    output: bool  # kept apart, since a final norm makes it differ from the last hidden
    # of a watched model: its own norm and projection make its logits of the last hidden
    read_out: bool = False


WATCHED = "watched"  # the layout of a model that runs in a program of the user's


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of the model that made a Trace."""

    attention: Mapping[Kind, AttentionFacts]  # of the kinds that it has
    stacks: Mapping[StackName, StackFacts]
    known: ModelConfig | None  # None: what it computes beside attention is not known
    name: ShortText
    digest: (
        ShortText  # SHA-256 of the weights as they lie on disk; "" for a fresh model
    )
    layout: ShortText  # of the file; WATCHED where there is none
    device: ShortText
    parameters: ParameterCount
    pad: SpecialId
    bos: SpecialId
    eos: SpecialId
    source_pad: SpecialId | None = None  # where it is not ``pad``
    blocks: tuple[BlockParameters, ...] = ()  # sum to ``parameters``; () in old files

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that it has, in the order of ``KINDS``."""
        return tuple(kind for kind in KINDS if kind in self.attention)

    @property
    def config(self) -> ModelConfig:
        """Its sizes and choices; InputError where they are not known."""
        if self.known is None:
            raise InputError(
                "Only the attention of “{model}” is known, not its other blocks.",
                model=self.name,
            )
        return self.known

    def layers(self, kind: Kind) -> int:
        """Return the number of layers that have attention of this kind; 0 for none."""
        facts = self._of(kind)
        return len(facts.scales) if facts is not None else 0

    def heads(self, kind: Kind) -> int:
        """Return the number of heads of each layer of this kind; 0 without layers."""
        facts = self._of(kind)
        return facts.heads if facts is not None and facts.scales else 0

    def _of(self, kind: Kind) -> AttentionFacts | None:
        facts = self.attention.get(kind) if isinstance(kind, str) else None
        if facts is None:
            one_of("kind", kind, KINDS)
        return facts


class Description(NamedTuple):
    """The facts of a model that follow from its config."""

    attention: Mapping[Kind, AttentionFacts]
    stacks: Mapping[StackName, StackFacts]
    known: ModelConfig

    @classmethod
    def of(cls, config: ModelConfig, kinds: Sequence[Kind] = KINDS) -> Self:
        """Describe a model with this config that ran with these kinds of attention."""
        layers = {
            "encoder": config.encoder_layers,
            "decoder": config.decoder_layers,
            "cross": config.decoder_layers,
        }
        attention: dict[Kind, AttentionFacts] = {
            kind: AttentionFacts(
                scales=(1 / math.sqrt(config.head_size),) * layers[kind],
                heads=config.heads,
                key_heads=config.heads,
                head_size=config.head_size,
                value_size=config.head_size,
                masked_value=config.masked_value,
            )
            for kind in KINDS
            if kind in kinds
        }
        stacks: dict[StackName, StackFacts] = {
            stack: StackFacts(
                d_model=config.d_model,
                hidden=layers[stack] + 1,
                output=config.final_norm,
            )
            for stack in STACKS
            if stack in kinds
        }
        return cls(attention, stacks, config)
