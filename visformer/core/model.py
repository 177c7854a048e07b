"""The encoder-decoder Transformer of "Attention Is All You Need", every step kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from visformer.core.config import ModelConfig
from visformer.core.masks import causal_mask, padding_mask
from visformer.core.parts import Attention, Dropout, FeedForward, Projections
from visformer.core.positions import sinusoidal


class StackRecord(NamedTuple):
    """Everything one stack computed for a batch."""

    hidden: list[Tensor]  # L + 1 of [B, T, D]: the input, then each layer's output
    attention: list[Projections]  # L of them: self-attention
    cross: list[Projections]  # L of them in the decoder, none in the encoder
    output: Tensor  # [B, T, D], after the final norm where there is one


class Layer(nn.Module):
    """Self-attention, in a decoder cross attention, feed-forward; residuals, norms."""

    def __init__(self, config: ModelConfig, dropout: float, *, cross: bool) -> None:
        super().__init__()
        width, heads, fill = config.d_model, config.heads, config.mask_fill
        self.norm_first = config.norm_first
        self.self_attention = Attention(width, heads, fill, dropout)
        self.self_attention_norm = nn.LayerNorm(width, eps=config.norm_eps)
        if cross:
            self.cross_attention = Attention(width, heads, fill, dropout)
            self.cross_attention_norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.feed_forward = FeedForward(width, config.feed_forward, dropout)
        self.feed_forward_norm = nn.LayerNorm(width, eps=config.norm_eps)
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
        self.norm = (
            nn.LayerNorm(config.d_model, eps=config.norm_eps)
            if config.final_norm
            else nn.Identity()
        )

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
        self.output = nn.Linear(config.d_model, config.target_vocabulary, bias=False)
        if config.tied_output:
            self.output.weight = self.target_embedding.weight
        self.dropout = Dropout(dropout)
        table = sinusoidal(config.max_positions, config.d_model)
        self.register_buffer("positions", table, persistent=False)
        self.positions: Tensor

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw fresh weights: Xavier uniform; embeddings normal, deviation D^-0.5."""
        for name, parameter in self.named_parameters():
            if "embedding" in name:
                nn.init.normal_(parameter, std=self.config.d_model**-0.5)
            elif parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def embed(self, table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        """Embed times sqrt(D), add position (section 3.4): ids [B, T] -> [B, T, D]."""
        scaled = table(ids) * math.sqrt(self.config.d_model)
        placed = scaled + self.positions[start : start + ids.shape[1]]
        result: Tensor = self.dropout(placed)
        return result

    def encode(self, ids: Tensor, mask: Tensor) -> StackRecord:
        """Run the encoder over ids [B, S]; ``mask`` broadcasts to [B, S, S]."""
        hidden, made = [self.embed(self.source_embedding, ids)], []
        for layer in self.encoder:
            x, projections = layer.attend(hidden[-1], mask)
            hidden.append(layer.feed(x))
            made.append(projections)
        return StackRecord(hidden, made, [], self.encoder.norm(hidden[-1]))

    def decode(
        self, ids: Tensor, memory: Tensor, self_mask: Tensor, cross_mask: Tensor
    ) -> StackRecord:
        """Run the decoder over ids [B, T] given the encoder output [B, S, D].

        The masks broadcast to [B, T, T] and [B, T, S].
        """
        hidden, made, crossed = [self.embed(self.target_embedding, ids)], [], []
        for layer in self.decoder:
            x, projections = layer.attend(hidden[-1], self_mask)
            made.append(projections)
            x, projections = layer.attend_across(x, memory, cross_mask)
            crossed.append(projections)
            hidden.append(layer.feed(x))
        return StackRecord(hidden, made, crossed, self.decoder.norm(hidden[-1]))

    def forward(self, source: Tensor, target: Tensor, pad: int) -> Tensor:
        """Teacher-force source [B, S], target [B, T] -> decoder output [B, T, D].

        Padded keys are hidden everywhere, and the decoder is causal. The output
        projection is left to the caller, who may want it for some positions only.
        """
        readable = padding_mask(source, pad)
        memory = self.encode(source, readable).output
        causal = causal_mask(target.shape[1], target.device)
        allowed = causal & padding_mask(target, pad)
        return self.decode(target, memory, allowed, readable).output
