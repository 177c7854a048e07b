"""The sizes and choices that describe a model completely, apart from its weights."""

from __future__ import annotations

from dataclasses import dataclass

from visformer.errors import CheckpointError

_LIMITS = {  # what a file may claim before anything is allocated for it
    "source_vocabulary": 1_000_000,
    "target_vocabulary": 1_000_000,
    "d_model": 16_384,
    "heads": 256,
    "encoder_layers": 128,
    "decoder_layers": 128,
    "feed_forward": 65_536,
    "max_positions": 65_536,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and choices of one encoder-decoder Transformer.

    The defaults are those of "Attention Is All You Need" (Vaswani et al. 2017,
    sections 3.1 to 3.5) at a size that suits a laptop.
    """

    source_vocabulary: int
    target_vocabulary: int
    d_model: int = 256
    heads: int = 8
    encoder_layers: int = 4
    decoder_layers: int = 4
    feed_forward: int = 1024
    max_positions: int = 512
    norm_first: bool = False  # False: norm(x + f(x)), the paper; True: x + f(norm(x))
    final_norm: bool = False  # one more norm after the last layer of each stack
    norm_eps: float = 1e-5
    shared_embedding: bool = True  # source and target look tokens up in one table
    tied_output: bool = True  # the output projection is the target embedding
    mask_fill: float = -1e9  # replaces a masked score, after scaling

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= limit:
                raise CheckpointError(
                    f"{name} is {value!r}: it must be a whole number from 1 to {limit}."
                )
        if self.d_model % self.heads:
            raise CheckpointError(
                f"{self.heads} heads do not divide d_model = {self.d_model} evenly."
            )
        if self.d_model % 2:
            raise CheckpointError(
                f"d_model is {self.d_model}: sinusoidal positions need an even width."
            )
        if self.shared_embedding and self.source_vocabulary != self.target_vocabulary:
            raise CheckpointError(
                "a shared embedding needs equal vocabularies, not "
                f"{self.source_vocabulary} and {self.target_vocabulary} tokens."
            )

    @property
    def head_size(self) -> int:
        """Width of one head's query, key and value."""
        return self.d_model // self.heads
