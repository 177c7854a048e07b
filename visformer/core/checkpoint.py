"""Checkpoint: a model with its weights, tokenizer and what is known about both."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch

from visformer.core.counting import count_blocks
from visformer.core.generation import Generation
from visformer.core.model import Transformer
from visformer.core.packed import PackedDecoder
from visformer.errors import InputError
from visformer.tokenizers.tokenizer import Tokenizer
from visformer.values.config import ModelConfig
from visformer.values.facts import ModelFacts
from visformer.values.finding import Finding
from visformer.values.trace import Columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Checkpoint:
    """An open checkpoint, ready to run: ``model`` is in eval mode on its device."""

    name: str
    layout: str
    config: ModelConfig
    model: Transformer
    tokenizer: Tokenizer
    digest: str  # SHA-256 of the weights file; "" for a fresh model
    assumed: tuple[
        str, ...
    ] = ()  # what the file did not tell and was taken for granted
    findings: tuple[Finding, ...] = ()  # what is unusual or wrong
    generation: Generation = field(default_factory=Generation)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a sentence."""
        return (self.tokenizer.eos, *self.generation.ends)

    def most_tokens(self, source: int) -> int:
        """Return how many tokens are made at most for a source of so many tokens."""
        own = self.generation.max_tokens
        return min(2 * source + 50 if own is None else own, self.config.max_positions)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.output.weight.device

    @cached_property
    def packed(self) -> PackedDecoder:
        """The decoder's weights, packed for decoding: read once, when first asked."""
        return PackedDecoder(self.model, Columns(self.facts))

    @cached_property
    def facts(self) -> ModelFacts:
        """What a Trace says about its model."""
        config, tokenizer = self.config, self.tokenizer
        return ModelFacts(
            name=self.name,
            digest=self.digest,
            layout=self.layout,
            device=str(self.device),
            d_model=config.d_model,
            heads=config.heads,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            feed_forward=config.feed_forward,
            source_vocabulary=config.source_vocabulary,
            target_vocabulary=config.target_vocabulary,
            max_positions=config.max_positions,
            parameters=sum(p.numel() for p in self.model.parameters()),
            norm_first=config.norm_first,
            final_norm=config.final_norm,
            mask_fill=config.mask_fill,
            pad=tokenizer.pad,
            bos=tokenizer.bos,
            eos=tokenizer.eos,
            source_pad=tokenizer.source_pad,
            norm=config.norm,
            norm_eps=config.norm_eps,
            embedding_scale=config.embedding_scale,
            positions=config.positions,
            position_form=config.position_form,
            position_axis=config.position_axis,
            encoder_bias=config.encoder_bias,
            decoder_bias=config.decoder_bias,
            activation=config.activation,
            gated=config.gated,
            output_bias=config.output_bias,
            softmax_output=config.softmax_output,
            mask_rule=config.mask_rule,
            expand_bias=config.expand_bias,
            gate_bias=config.gate_bias,
            contract_bias=config.contract_bias,
            blocks=count_blocks(self.model),
        )


def available_devices() -> tuple[str, ...]:
    """Return the names of the devices this computer has, the best first."""
    found = []
    if torch.cuda.is_available():
        found = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return (*found, "cpu")


def choose_device(wanted: str | None = None) -> torch.device:
    """Return the device asked for, or the best there is: cuda, then mps, then cpu.

    Raises InputError for a device that this computer does not have.
    """
    there = available_devices()
    if not wanted:
        return torch.device(there[0])
    if not any(name == wanted or name.split(":")[0] == wanted for name in there):
        raise InputError(
            f"there is no device “{wanted}” here: choose from {', '.join(there)}."
        )
    return torch.device(wanted)
