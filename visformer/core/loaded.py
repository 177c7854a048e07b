"""Loaded: a native model with its weights and tokenizer, and what is known of them.

``Checkpoint`` adds how it is run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from visformer.core.generation import Generation
from visformer.core.model import Transformer
from visformer.core.packed import ModelStamp, PackedDecoder, packable
from visformer.errors import InputError
from visformer.text import visible
from visformer.tokenizers.tokenizer import Tokenizer
from visformer.values.config import ModelConfig
from visformer.values.facts import BlockParameters, Description, ModelFacts
from visformer.values.finding import Finding
from visformer.values.row_columns import Columns


@dataclass(slots=True, eq=False)
class _Derived:
    """What was derived from a model that scripts may edit."""

    opened: ModelStamp  # of the model as it was opened
    stamp: ModelStamp  # of the model that the facts describe
    facts: ModelFacts | None = None
    rewritten: bool = False  # in a way that no stamp shows
    packed: PackedDecoder | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Loaded:
    """A native model, ready to run: ``model`` is in eval mode on its device."""

    name: str
    layout: str
    config: ModelConfig
    model: Transformer
    tokenizer: Tokenizer
    digest: str  # SHA-256 of the weights file; "" for a fresh model
    assumed: tuple[str, ...] = ()  # what the file did not say, one line each
    findings: tuple[Finding, ...] = ()  # what is unusual or wrong
    generation: Generation = field(default_factory=Generation)
    _derived: _Derived = field(init=False, repr=False)

    def __post_init__(self) -> None:
        stamp = ModelStamp(self.model)
        object.__setattr__(self, "_derived", _Derived(opened=stamp, stamp=stamp))

    def __repr__(self) -> str:
        """Name the model, where it is from, and its size."""
        config, facts = self.config, self.facts
        layers = f"{config.encoder_layers}+{config.decoder_layers} layers"
        sizes = f"{layers}, {config.heads} heads, width {config.d_model}"
        millions = f"{facts.parameters / 1e6:.3g} M parameters"
        where = f"{visible(self.name)} ({self.layout}, on {facts.device})"
        return f"<{type(self).__name__} {where}: {sizes}, {millions}>"

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

    @property
    def packed(self) -> PackedDecoder | None:
        """The decoder's weights as they are now, packed for decoding.

        They are packed again after every kind of edit of ``model``. None if the
        decoder's own modules have to run (``edits.packable``).
        """
        derived = self._derived
        if derived.packed is not None and not derived.packed.is_current():
            derived.rewritten |= derived.packed.is_stamped()
            derived.packed, derived.facts = None, None
        if derived.packed is None and packable(self.model):
            derived.packed = PackedDecoder(self.model, Columns(self.facts))
        return derived.packed

    def logits_from(self, packed: PackedDecoder | None, output: Tensor) -> Tensor:
        """Project decoder output [N, D] -> [N, V], with the property's ``packed``."""
        if packed is not None:
            return packed.logits(output)
        logits: Tensor = self.model.output(output)
        return logits

    @property
    def facts(self) -> ModelFacts:
        """What a Trace says about its model: the same object until it is edited.

        An edited model no longer matches its file, so it has no digest.
        """
        derived = self._known()
        if derived.facts is None:
            own = derived.opened.holds() and not derived.rewritten
            derived.facts = self._describe(self.digest if own else "")
        return derived.facts

    @property
    def stamp(self) -> ModelStamp:
        """A stamp that shows later whether the model was edited."""
        return self._known().stamp

    def _known(self) -> _Derived:
        """Return what was derived, without what an edit has made outdated."""
        derived = self._derived
        if not derived.stamp.holds():
            derived.stamp, derived.facts = ModelStamp(self.model), None
        return derived

    def _describe(self, digest: str) -> ModelFacts:
        tokenizer = self.tokenizer
        return ModelFacts(
            **Description.of(self.config)._asdict(),
            name=self.name,
            digest=digest,
            layout=self.layout,
            device=str(self.device),
            parameters=sum(p.numel() for p in self.model.parameters()),
            pad=tokenizer.pad,
            bos=tokenizer.bos,
            eos=tokenizer.eos,
            source_pad=tokenizer.source_pad,
            blocks=count_blocks(self.model),
        )


def native(model: object, asked: str) -> Loaded:
    """Return a native model; InputError for another, which cannot do what is asked."""
    if not isinstance(model, Loaded):
        raise InputError(
            "{asked} needs a model that Visformer runs itself; this one runs in its "
            "own program.",
            asked=asked,
        )
    return model


def count_blocks(model: Transformer) -> tuple[BlockParameters, ...]:
    """Count the model's parameters by block; the counts sum to their total number.

    Blocks are named after the modules: ``encoder.0.self_attention`` is in layer 0,
    ``output`` is the output projection. A tensor used by two blocks counts in the
    first; the second names the first as ``shared``.
    """
    counts: dict[str, int] = {}
    shared: dict[str, str] = {}
    owners: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        block = _block(name)
        owner = owners.setdefault(id(parameter), block)
        counts.setdefault(block, 0)
        if owner == block:
            counts[block] += parameter.numel()
        else:
            shared[block] = owner
    return tuple(
        BlockParameters(block, count, shared.get(block, ""))
        for block, count in counts.items()
    )


def _block(name: str) -> str:
    """Return the block of a parameter: the part of its layer, or its module."""
    parts = name.split(".")
    if "layers" in parts:  # encoder.layers.0.self_attention.query.weight
        at = parts.index("layers")
        return ".".join((parts[at - 1], *parts[at + 1 : at + 3]))
    return ".".join(parts[:-1]) or name
