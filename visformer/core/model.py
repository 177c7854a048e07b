"""The encoder-decoder Transformer of "Attention Is All You Need", every step kept."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from visformer.core.mask_rules import make_masks
from visformer.core.parts import Attention, Dropout, FeedForward, Projections, make_norm
from visformer.core.position_rules import PASS, Places, fixed_table
from visformer.values.config import ModelConfig

Side = Literal["source", "target"]
LayerMasks = Tensor | Sequence[Tensor]  # one for all layers, or one a layer


class StackRecord(NamedTuple):
    """Everything one stack computed for a batch."""

    hidden: list[Tensor]  # L + 1 of [B, T, D]: the input, then each layer's output
    attention: list[Projections]  # L of them: self-attention
    cross: list[Projections]  # L of them in a decoder that reads an encoder, else none
    output: Tensor  # [B, T, D], after the final norm where there is one


def norm_length(config: ModelConfig, *, cross: bool) -> int:
    """Return how many tokens a norm of the encoder, or the decoder, runs over."""
    return config.decoder_norm_length if cross else config.encoder_norm_length


class Layer(nn.Module):
    """Self-attention, in a decoder cross attention, feed-forward; residuals, norms."""

    def __init__(self, config: ModelConfig, dropout: float, *, cross: bool) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        biases = config.decoder_bias if cross else config.encoder_bias
        sizes = (config.d_model, config.heads, config.masked_value, dropout)
        length = norm_length(config, cross=cross)
        self.self_attention = Attention(*sizes, biases=biases)
        self.self_attention_norm = make_norm(config, length)
        if cross:
            self.cross_attention = Attention(*sizes, biases=biases)
            self.cross_attention_norm = make_norm(config, length)
        self.feed_forward = FeedForward(config, dropout)
        self.feed_forward_norm = make_norm(config, length)
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Return what a sublayer reads from the residual stream ``x``."""
        result: Tensor = norm(x) if self.norm_first else x
        return result

    def leave(self, x: Tensor, added: Tensor, norm: nn.Module) -> Tensor:
        """Return the residual stream after a sublayer ``added`` to it."""
        x = x + self.dropout(added)
        return x if self.norm_first else norm(x)

    def attend(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Projections]:
        """Self-attention sublayer: [B, T, D] -> [B, T, D]."""
        normed = self.enter(x, self.self_attention_norm)
        added, made = self.self_attention(normed, normed, mask)
        return self.leave(x, added, self.self_attention_norm), made

    def attend_across(
        self, x: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Projections]:
        """Cross attention sublayer: [B, T, D] reads the encoder output [B, S, D]."""
        normed = self.enter(x, self.cross_attention_norm)
        added, made = self.cross_attention(normed, memory, mask)
        return self.leave(x, added, self.cross_attention_norm), made

    def feed(self, x: Tensor) -> Tensor:
        """Feed-forward sublayer: [B, T, D] -> [B, T, D]."""
        added = self.feed_forward(self.enter(x, self.feed_forward_norm))
        return self.leave(x, added, self.feed_forward_norm)


class Stack(nn.Module):
    """The layers of the encoder or of the decoder, and their final norm."""

    def __init__(self, config: ModelConfig, dropout: float, *, cross: bool) -> None:
        super().__init__()
        count = config.decoder_layers if cross else config.encoder_layers
        self.layers = nn.ModuleList(
            Layer(config, dropout, cross=cross) for _ in range(count)
        )
        self.norm: nn.Module = nn.Identity()
        if config.final_norm:
            self.norm = make_norm(config, norm_length(config, cross=cross))

    def __iter__(self) -> Iterator[Layer]:
        """Go through the layers, from the first to the last."""
        return iter(cast("Iterator[Layer]", self.layers))


class Transformer(nn.Module):
    """Encoder, decoder, embeddings and output projection of one ``ModelConfig``."""

    def __init__(self, config: ModelConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.target_embedding = nn.Embedding(config.target_vocabulary, config.d_model)
        self.source_embedding = (
            self.target_embedding
            if config.shared_embedding
            else nn.Embedding(config.source_vocabulary, config.d_model)
        )
        self.encoder = Stack(config, dropout, cross=False)
        self.decoder = Stack(config, dropout, cross=True)
        self.output = nn.Linear(
            config.d_model, config.target_vocabulary, bias=config.output_bias
        )
        if config.tied_output:
            self.output.weight = self.target_embedding.weight
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0
        if config.positions == "learned":
            shape = (config.max_positions, config.d_model)
            self.source_positions = nn.Parameter(torch.zeros(shape))
            self.target_positions = nn.Parameter(torch.zeros(shape))
        self.register_buffer("positions", fixed_table(config), persistent=False)
        self.positions: Tensor

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw fresh weights: Xavier uniform; tables normal, deviation D^-0.5."""
        for name, parameter in self.named_parameters():
            if "embedding" in name or "positions" in name:
                nn.init.normal_(parameter, std=self.config.d_model**-0.5)
            elif parameter.dim() > 1 and "norm" not in name:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def replace_positions(self, table: Tensor) -> None:
        """Take a stored table [P, D] in place of the computed one; float32."""
        shape = (self.config.max_positions, self.config.d_model)
        if table.shape != shape:
            raise ValueError(f"positions are {list(table.shape)}, not {list(shape)}")
        self.positions = table.to(self.output.weight.device, torch.float32)

    def position_table(self, side: Side) -> Tensor:
        """Return the positions that a side's tokens get, [P, D]; zeros where none."""
        if self.config.positions != "learned":
            return self.positions
        return self.source_positions if side == "source" else self.target_positions

    def embed(
        self, side: Side, ids: Tensor, start: int = 0, *, places: Places | None = None
    ) -> Tensor:
        """Embed and scale, add position (section 3.4): ids [B, T] -> [B, T, D].

        ``places`` says which positions; by default those of a whole pass.
        """
        tables = {"source": self.source_embedding, "target": self.target_embedding}
        choose = places or PASS[self.config.position_axis]
        times = slice(start, start + ids.shape[1])
        placed = choose(self.position_table(side), len(ids), times)
        result: Tensor = self.dropout(tables[side](ids) * self.scale + placed)
        return result

    def encode(self, ids: Tensor, mask: LayerMasks) -> StackRecord:
        """Run the encoder over ids [B, S]; masks broadcast to [B, S, S]."""
        hidden, made = [self.embed("source", ids)], []
        for layer, allowed in zip(self.encoder, self._each(mask), strict=False):
            x, projections = layer.attend(hidden[-1], allowed)
            hidden.append(layer.feed(x))
            made.append(projections)
        return StackRecord(hidden, made, [], self.encoder.norm(hidden[-1]))

    def decode(
        self,
        ids: Tensor,
        memory: Tensor | None,
        self_mask: LayerMasks,
        cross_mask: LayerMasks,
        places: Places | None = None,
    ) -> StackRecord:
        """Run the decoder over ids [B, T] given the encoder output [B, S, D].

        The masks broadcast to [B, T, T] and [B, T, S]; ``places`` as in ``embed``.
        Without a memory the cross attention is skipped, its residual and norm too.
        """
        hidden, made, crossed = [self.embed("target", ids, places=places)], [], []
        masks = zip(self._each(self_mask), self._each(cross_mask), strict=False)
        for layer, (own, across) in zip(self.decoder, masks, strict=False):
            x, projections = layer.attend(hidden[-1], own)
            made.append(projections)
            if memory is not None:
                x, projections = layer.attend_across(x, memory, across)
                crossed.append(projections)
            hidden.append(layer.feed(x))
        return StackRecord(hidden, made, crossed, self.decoder.norm(hidden[-1]))

    @staticmethod
    def _each(mask: LayerMasks) -> Iterable[Tensor]:
        """Return a mask for every layer."""
        return itertools.repeat(mask) if isinstance(mask, Tensor) else mask

    def forward(self, source: Tensor, target: Tensor, pad: int) -> Tensor:
        """Teacher-force source [B, S], target [B, T] -> decoder output [B, T, D].

        The config's mask rule applies, with right padding where it goes by lengths. The
        output projection is left to the caller, who may want some positions only.
        """
        masks = make_masks(self.config.mask_rule, source != pad, target != pad)
        memory = self.encode(source, masks.encoder).output
        return self.decode(target, memory, masks.decoder, masks.cross).output
