"""What a model is, as far as its Traces tell it, and the kinds of its attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from visformer.values.config import ModelConfig

Kind = Literal["encoder", "decoder", "cross"]
SentenceSide = Literal["source", "target"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")


class BlockParameters(NamedTuple):
    """How many parameters one block of a model has of its own."""

    block: str  # as core/counting.py names it: "encoder.0.self_attention", "output"
    parameters: int  # without what it shares
    shared: str = ""  # the block that counts the parameters it shares; "" for none


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of the model that made a Trace."""

    config: ModelConfig
    name: str
    digest: str  # SHA-256 of the weights as they lie on disk; "" for a fresh model
    layout: str
    device: str
    parameters: int
    pad: int
    bos: int
    eos: int
    source_pad: int | None = None  # where it is not ``pad``
    cross: bool = True  # False: the decoder ran alone, without an encoder
    blocks: tuple[BlockParameters, ...] = ()  # sum to ``parameters``; () in old files

    def layers(self, kind: Kind) -> int:
        """Return the number of layers that have attention of this kind; 0 for none."""
        if kind == "decoder":
            return self.config.decoder_layers
        if not self.cross:
            return 0
        config = self.config
        return config.encoder_layers if kind == "encoder" else config.decoder_layers
