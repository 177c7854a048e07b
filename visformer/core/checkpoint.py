"""Checkpoint: a model with its weights and tokenizer, and what is known about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from visformer.arguments import wrong_type
from visformer.core.generation import Generation
from visformer.core.model import Transformer
from visformer.core.packed import ModelStamp, PackedDecoder, packable
from visformer.errors import InputError
from visformer.language import _
from visformer.tokenizers.tokenizer import Tokenizer
from visformer.values.arrays import Floats, Ids
from visformer.values.config import ModelConfig
from visformer.values.facts import BlockParameters, Description, ModelFacts
from visformer.values.finding import Finding
from visformer.values.lens import LensRow
from visformer.values.row_columns import Columns
from visformer.values.trace import Trace


@dataclass(slots=True, eq=False)
class _Derived:
    """What was derived from a model that scripts may edit."""

    opened: ModelStamp  # of the model as it was opened
    stamp: ModelStamp  # of the model that the facts describe
    facts: ModelFacts | None = None
    rewritten: bool = False  # in a way that no stamp shows
    packed: PackedDecoder | None = None


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
        where = f"{self.layout}, on {facts.device}"
        return f"<Checkpoint {self.name} ({where}): {sizes}, {millions}>"

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


Opener = Callable[[str | Path | None], Checkpoint]  # None: the bundled one
_openers: list[Opener] = []  # none while nobody has told how


def accept_paths(opener: Opener) -> None:
    """Let ``opened`` take the path of a checkpoint, which ``opener`` reads."""
    _openers[:] = [opener]


def bundled() -> Any:
    """Return the bundled checkpoint; TypeError while nobody has told where it is."""
    return _openers[0](None) if _openers else opened(cast("Any", None))


class OwnDecoding(Protocol):
    """A model that is run in a way of its own: a wrapped one, one of transformers."""

    @property
    def name(self) -> str:
        """What to call it."""

    def begin_decoding(self, *args: Any, **kwargs: Any) -> Any:
        """Return what is used as a ``Decoding``."""

    def batch(self, texts: Sequence[str]) -> list[Trace]:
        """Run texts as one padded batch; InputError where that cannot be."""

    def differences(self) -> dict[str, object]:
        """Return how far its ways to compute are apart, by what is compared."""

    def lens(
        self, hidden: Floats, chosen: Ids, *, temperature: float
    ) -> tuple[LensRow, ...]:
        """Read streams [N, L + 1, D] of rows that chose some ids; () if it cannot."""

    def translate(self, texts: Sequence[str], beam: int | None) -> list[str]:
        """Return what it makes of each text; InputError where it makes nothing."""


def opened(checkpoint: Checkpoint | str | Path | OwnDecoding) -> Any:
    """Return a checkpoint, read from its path where that is given.

    It is a ``Checkpoint`` or an ``OwnDecoding``. Raises TypeError for anything else,
    and what reading it raises.
    """
    if isinstance(checkpoint, Checkpoint) or hasattr(checkpoint, "begin_decoding"):
        return checkpoint
    if isinstance(checkpoint, str | Path) and _openers:
        return _openers[0](checkpoint)
    raise wrong_type(
        "checkpoint", checkpoint, _("what visformer.load returns, or its path")
    )


def opened_to_run(checkpoint: Checkpoint | str | Path | OwnDecoding) -> Checkpoint:
    """Return a checkpoint as ``opened``; InputError if its model is not run here."""
    made = opened(checkpoint)
    if not isinstance(made, Checkpoint):
        raise InputError(
            _(
                "“{name}” is run by its own program, which takes no batch: use "
                "visformer.Decoding and its feed.",
                name=made.name,
            )
        )
    return made


def available_devices() -> tuple[str, ...]:
    """Return the names of this computer's devices, best first."""
    names = []
    if torch.cuda.is_available():
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return (*names, "cpu")


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """Return the device asked for, or the best available: cuda, then mps, then cpu.

    Raises InputError for a device that this computer does not have.
    """
    there = available_devices()
    if isinstance(device, torch.device):
        device = str(device)
    if not isinstance(device, str | None):
        allowed = _("a device of torch, such as {names}", names=", ".join(there))
        raise wrong_type("device", device, allowed)
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
