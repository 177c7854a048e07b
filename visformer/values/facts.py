"""What a model is, as far as its Traces tell it, and the kinds of its attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")


class BlockParameters(NamedTuple):
    """How many parameters one block of a model has of its own."""

    block: str  # as core/counting.py names it: "encoder.0.self_attention", "output"
    parameters: int  # without what it shares
    shared: str = ""  # the block that counts the parameters it shares; "" for none


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of the model that made a Trace."""

    name: str
    digest: str  # SHA-256 of the weights as they lie on disk; "" for a fresh model
    layout: str
    device: str
    d_model: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    feed_forward: int
    source_vocabulary: int
    target_vocabulary: int
    max_positions: int
    parameters: int
    norm_first: bool
    final_norm: bool
    mask_fill: float  # replaces masked scores after scaling
    pad: int
    bos: int
    eos: int
    source_pad: int | None = None  # where it is not ``pad``
    norm: str = "layer"
    norm_eps: float = 1e-5
    embedding_scale: bool = True
    positions: str = "sinusoidal"
    position_form: str = "exp"
    position_axis: str = "time"
    encoder_bias: str = "all"
    decoder_bias: str = "all"
    activation: str = "relu"
    gated: bool = False
    output_bias: bool = False
    softmax_output: bool = False  # logits are then log-probabilities
    mask_rule: str = "keys"
    expand_bias: bool = True  # of the feed-forward's W1
    gate_bias: bool = True
    contract_bias: bool = True  # of W2
    cross: bool = True  # False: the decoder ran alone, without an encoder
    blocks: tuple[BlockParameters, ...] = ()  # sum to ``parameters``; () in old files

    @property
    def head_size(self) -> int:
        """Width of one head's query, key and value."""
        return self.d_model // self.heads

    def layers(self, kind: Kind) -> int:
        """Return the number of layers that have attention of this kind."""
        if kind == "encoder":
            return self.encoder_layers
        return self.decoder_layers if self.cross or kind == "decoder" else 0
