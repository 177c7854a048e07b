"""Checkpoint: a model with its weights and tokenizer, and what is known about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch

from visformer.core.counting import count_blocks
from visformer.core.generation import Generation
from visformer.core.model import Transformer
from visformer.core.packed import PackedDecoder
from visformer.errors import InputError
from visformer.language import _
from visformer.tokenizers.tokenizer import Tokenizer
from visformer.values.config import ModelConfig
from visformer.values.facts import Description, ModelFacts
from visformer.values.finding import Finding
from visformer.values.row_columns import Columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Checkpoint:
    """An open checkpoint, ready to run: ``model`` is in eval mode on its device."""

    name: str
    layout: str
    config: ModelConfig
    model: Transformer
    tokenizer: Tokenizer
    digest: str  # SHA-256 of the weights file; "" for a fresh model
    assumed: tuple[str, ...] = ()  # what the file did not say, one line each
    findings: tuple[Finding, ...] = ()  # what is unusual or wrong
    generation: Generation = field(default_factory=Generation)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a sentence."""
        return (self.tokenizer.eos, *self.generation.ends)

    def most_tokens(self, source: int) -> int:
        """Return the most target tokens for a source of this many tokens."""
        most = self.generation.max_tokens
        return min(2 * source + 50 if most is None else most, self.config.max_positions)

    @property
    def device(self) -> torch.device:
        """The device that holds the weights."""
        return self.model.output.weight.device

    @cached_property
    def packed(self) -> PackedDecoder:
        """The decoder's weights, packed for decoding once, when first needed."""
        return PackedDecoder(self.model, Columns(self.facts))

    @cached_property
    def facts(self) -> ModelFacts:
        """What a Trace says about its model."""
        tokenizer = self.tokenizer
        return ModelFacts(
            **Description.of(self.config)._asdict(),
            name=self.name,
            digest=self.digest,
            layout=self.layout,
            device=str(self.device),
            parameters=sum(p.numel() for p in self.model.parameters()),
            pad=tokenizer.pad,
            bos=tokenizer.bos,
            eos=tokenizer.eos,
            source_pad=tokenizer.source_pad,
            blocks=count_blocks(self.model),
        )


def available_devices() -> tuple[str, ...]:
    """Return the names of this computer's devices, best first."""
    names = []
    if torch.cuda.is_available():
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return (*names, "cpu")


def choose_device(device: str | None = None) -> torch.device:
    """Return the device asked for, or the best available: cuda, then mps, then cpu.

    Raises InputError for a device that this computer does not have.
    """
    there = available_devices()
    if not device:
        return torch.device(there[0])
    if not any(name == device or name.split(":")[0] == device for name in there):
        raise InputError(
            _(
                "There is no device “{device}” here. Choose from {choices}.",
                device=device,
                choices=", ".join(there),
            )
        )
    return torch.device(device)
