"""The encoder-decoder Transformer of "Attention Is All You Need"; keeps every step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from visformer.core.mask_rules import make_masks
from visformer.core.parts import (
    Attention,
    Dropout,
    FeedForward,
    Projections,
    make_norm,
    through_sublayers,
)
from visformer.core.pauses import part
from visformer.core.position_rules import fixed_table
from visformer.values.changes.run_change import UNCHANGED
from visformer.values.config import ModelConfig
from visformer.values.encodings import PASS_LOOKUP, Lookup
from visformer.values.facts import SentenceSide
from visformer.values.intervention import NO_CHANGES

LayerMasks = Tensor | Sequence[Tensor]  # one for all layers, or one per layer


class StackRecord(NamedTuple):
    """Everything one stack computed for a batch."""

    hidden: list[Tensor]  # L + 1 of [B, T, D]: the input, then each layer's output
    attention: list[Projections]  # L of them: self-attention
    cross: list[Projections]  # L of them in a decoder that reads an encoder, else none
    output: Tensor  # [B, T, D], after the final norm if there is one


def norm_length(config: ModelConfig, *, cross: bool) -> int:
    """Return how many tokens a norm of the encoder or the decoder covers."""
    return config.decoder_norm_length if cross else config.encoder_norm_length


class Layer(nn.Module):
    """Self-attention, cross attention in a decoder, feed-forward; residuals, norms."""

    def __init__(
        self,
        *,
        self_attention: Attention,
        self_attention_norm: nn.Module,
        cross_attention: Attention | None = None,
        cross_attention_norm: nn.Module | None = None,
        feed_forward: FeedForward,
        feed_forward_norm: nn.Module,
        norm_first: bool,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.self_attention = self_attention
        self.self_attention_norm = self_attention_norm
        if cross_attention is not None and cross_attention_norm is not None:
            self.cross_attention = cross_attention
            self.cross_attention_norm = cross_attention_norm
        self.feed_forward = feed_forward
        self.feed_forward_norm = feed_forward_norm
        self.dropout = Dropout(dropout)
        self.changes = UNCHANGED  # of a modified run

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memory: Tensor | None = None,
        cross_mask: Tensor | None = None,
    ) -> tuple[Tensor, list[Projections]]:
        """[B, T, D] -> [B, T, D], and the projections of each attention.

        The masks broadcast to [B, T, T] and [B, T, S]. Without the encoder's output
        ``memory`` [B, S, D] there is no cross attention.
        """
        projected: list[Projections] = []
        drop: Callable[[Tensor], Tensor] = self.dropout

        def attend(x: Tensor) -> Tensor:
            added, projections = self.self_attention(x, x, mask)  # [B, T, D]
            projected.append(projections)
            return drop(added)

        def attend_across(x: Tensor) -> Tensor:
            added, projections = self.cross_attention(x, memory, cross_mask)
            projected.append(projections)
            return drop(added)

        def feed(x: Tensor) -> Tensor:
            return drop(self.feed_forward(x))

        sublayers = [(attend, self.self_attention_norm)]
        if memory is not None:
            sublayers.append((attend_across, self.cross_attention_norm))
        sublayers.append((feed, self.feed_forward_norm))
        made = through_sublayers(x, sublayers, norm_first=self.norm_first)  # [B, T, D]
        return self.changes.apply("stream", made, beside=x), projected


class Stack(nn.Module):
    """The layers of the encoder or of the decoder, and their final norm."""

    def __init__(self, layers: Iterable[Layer], norm: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def __iter__(self) -> Iterator[Layer]:
        """Iterate over the layers, from the first to the last."""
        return iter(cast("Iterator[Layer]", self.layers))

    def forward(
        self,
        x: Tensor,
        mask: LayerMasks,
        memory: Tensor | None = None,
        cross_mask: LayerMasks = (),
    ) -> StackRecord:
        """Run [B, T, D] through all layers; the rest is as in ``Layer``."""
        hidden, attention, cross = [x], [], []
        masks = itertools.zip_longest(_each(mask), _each(cross_mask))
        for at, (layer, (self_mask, cross_mask)) in enumerate(
            zip(self, masks, strict=False)
        ):
            with part(at, len(self.layers)):
                x, projected = layer(x, self_mask, memory, cross_mask)  # [B, T, D]
            hidden.append(x)
            attention.append(projected[0])
            cross.extend(projected[1:])
        return StackRecord(hidden, attention, cross, self.norm(x))


def _each(mask: LayerMasks) -> Iterable[Tensor]:
    """Return one mask per layer."""
    return itertools.repeat(mask) if isinstance(mask, Tensor) else mask


def make_stack(config: ModelConfig, *, cross: bool, dropout: float) -> Stack:
    """Build a config's decoder, which has cross attention, or its encoder."""
    count = config.decoder_layers if cross else config.encoder_layers
    length = norm_length(config, cross=cross)

    def attention() -> Attention:
        return Attention(
            d_model=config.d_model,
            heads=config.heads,
            masked_value=config.masked_value,
            biases=config.decoder_bias if cross else config.encoder_bias,
            dropout=dropout,
        )

    def norm() -> nn.Module:
        return make_norm(
            config.norm,
            d_model=config.d_model,
            eps=config.norm_eps,
            bias=config.norm_bias,
            length=length,
        )

    def layer() -> Layer:
        return Layer(
            self_attention=attention(),
            self_attention_norm=norm(),
            cross_attention=attention() if cross else None,
            cross_attention_norm=norm() if cross else None,
            feed_forward=FeedForward(
                d_model=config.d_model,
                inner=config.feed_forward,
                activation=config.activation,
                gated=config.gated,
                w1_bias=config.w1_bias,
                w2_bias=config.w2_bias,
                gate_bias=config.gate_bias,
                dropout=dropout,
            ),
            feed_forward_norm=norm(),
            norm_first=config.norm_first,
            dropout=dropout,
        )

    final = norm() if config.final_norm else nn.Identity()
    return Stack((layer() for _layer in range(count)), final)


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
        self.encoder = make_stack(config, cross=False, dropout=dropout)
        self.decoder = make_stack(config, cross=True, dropout=dropout)
        self.output = nn.Linear(
            config.d_model, config.target_vocabulary, bias=config.output_bias
        )
        if config.tied_output:
            self.output.weight = self.target_embedding.weight
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0
        self.changes = NO_CHANGES  # of a modified run
        if config.positions == "learned":
            shape = (config.max_positions, config.d_model)  # [P, D]
            self.source_positions = nn.Parameter(torch.zeros(shape))
            self.target_positions = nn.Parameter(torch.zeros(shape))
        self.register_buffer("positions", fixed_table(config), persistent=False)
        self.positions: Tensor

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw fresh weights: Xavier uniform; tables normal with deviation D^-0.5."""
        for name, parameter in self.named_parameters():
            if "embedding" in name or "positions" in name:
                nn.init.normal_(parameter, std=self.config.d_model**-0.5)
            elif parameter.dim() > 1 and "norm" not in name:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def replace_positions(self, table: Tensor) -> None:
        """Use a stored table [P, D] instead of the computed one; float32."""
        shape = (self.config.max_positions, self.config.d_model)
        if table.shape != shape:
            raise ValueError(f"positions are {list(table.shape)}, not {list(shape)}")
        self.positions = table.to(self.output.weight.device, torch.float32)

    def position_table(self, side: SentenceSide) -> Tensor:
        """Return the positions of a side's tokens, [P, D]; zeros if there are none."""
        if self.config.positions != "learned":
            return self.positions
        return self.source_positions if side == "source" else self.target_positions

    def embed(
        self,
        side: SentenceSide,
        ids: Tensor,
        start: int = 0,
        *,
        lookup: Lookup | None = None,
    ) -> Tensor:
        """Embed, scale and add positions (section 3.4): ids [B, T] -> [B, T, D].

        ``lookup`` chooses the positions; by default those of a whole pass.
        """
        tables = {"source": self.source_embedding, "target": self.target_embedding}

        def embedded(ids: Tensor | Sequence[int]) -> Tensor:
            given = torch.as_tensor(ids, device=self.output.weight.device)  # [..., T]
            rows: Tensor = tables[side](given) * self.scale  # [..., D]
            return rows

        rows_of = lookup or PASS_LOOKUP[self.config.position_axis]
        times = slice(start, start + ids.shape[1])
        placed = rows_of(self.position_table(side), len(ids), times)
        x = self.changes.at(side).apply(
            "embedding", embedded(ids), first=start, beside=embedded
        )  # [B, T, D]
        result: Tensor = self.dropout(x + placed)
        return result

    def encode(self, ids: Tensor, mask: LayerMasks) -> StackRecord:
        """Run the encoder over ids [B, S]; masks broadcast to [B, S, S]."""
        record: StackRecord = self.encoder(self.embed("source", ids), mask)
        return record

    def decode(
        self,
        ids: Tensor,
        memory: Tensor | None,
        self_mask: LayerMasks,
        cross_mask: LayerMasks,
        lookup: Lookup | None = None,
    ) -> StackRecord:
        """Run the decoder over ids [B, T] given the encoder output [B, S, D].

        The masks broadcast to [B, T, T] and [B, T, S]; ``lookup`` as in ``embed``.
        Without a memory the cross attention is skipped, its residual and norm too.
        """
        x = self.embed("target", ids, lookup=lookup)  # [B, T, D]
        record: StackRecord = self.decoder(x, self_mask, memory, cross_mask)
        return record

    def forward(self, source: Tensor, target: Tensor, pad: int) -> Tensor:
        """Teacher-force source [B, S], target [B, T] -> decoder output [B, T, D].

        The config's mask rule applies, with right padding if it masks by lengths. The
        output projection is left to the caller, who may need only some positions.
        """
        masks = make_masks(self.config.mask_rule, source != pad, target != pad)
        memory = self.encode(source, masks.encoder).output  # [B, S, D]
        return self.decode(target, memory, masks.decoder, masks.cross).output


def work(model: Transformer, tokens: int, sentences: int = 1) -> float:
    """Return roughly how many multiplications a pass over ``tokens`` tokens takes.

    ``tokens`` is the number per sentence. Every weight is used once per token, and
    attention compares every pair of tokens.
    """
    config = model.config
    layers = config.encoder_layers + config.decoder_layers
    weights = layers * config.d_model * (4 * config.d_model + 2 * config.feed_forward)
    scores = 2 * layers * config.d_model * tokens
    return float(sentences * tokens * (weights + scores))
