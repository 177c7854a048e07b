"""What Visformer has to know about one program's checkpoints: all of it, in one value.

A layout is a ``LayoutSpec`` in a file of ``visformer.formats.layouts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from visformer.core.checkpoint import Checkpoint
from visformer.core.presets import Preset
from visformer.formats.given_options import GivenOptions
from visformer.formats.names import NamedTensors, Names, Spelling
from visformer.formats.renaming import FileTensors, rename, shared_prefixes
from visformer.formats.weight_file import WeightFile
from visformer.values.config import ModelConfig
from visformer.values.finding import Finding

Tensors = Mapping[str, Tensor]
Files = tuple[WeightFile, ...]  # one; a model's two; or a folder
Reader = Callable[["LayoutSpec", Files, GivenOptions, torch.device], Checkpoint]
Rename = Callable[[Names, FileTensors], NamedTensors]
PAD_WORDS = "It fills up the shorter sentences of a batch, and masks are made from it."


def _no_fields(tensors: Tensors) -> Mapping[str, Any]:
    return {}


def _no_findings(config: ModelConfig) -> Iterable[Finding]:
    return ()


def _no_check(tensors: Tensors, width: int, file: str, spelling: Spelling) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class LayoutSpec:
    """A layout: its name, fresh models of it, its reader, and what is particular.

    The functions are its quirks; where it has none, the plain way stands. From
    ``title`` on, all is about files of weights that lie without a config: what they
    leave open is asked, or taken for granted.
    """

    name: str  # as ``load(layout=…)`` and ``Checkpoint.layout`` have it
    preset: Preset
    read: Reader  # opens a checkpoint of it
    names: Names = field(default_factory=Names)  # what it calls our model's parts
    findings: tuple[Finding, ...] = ()  # true of every checkpoint of it
    findings_in: Callable[[ModelConfig], Iterable[Finding]] = _no_findings

    title: str = ""  # in words; "" where a folder tells all and nothing is asked
    defaults: str = "the tutorial's own"  # whose they are, in words
    left_open: tuple[str, ...] = ("max_positions",)  # fields that no tensor may tell
    ends_source: bool = False  # whether a text's last token for the encoder is eos
    two_pads: bool = False  # whether its code takes a pad id for each side
    pad_words: str = PAD_WORDS  # what the pad is for
    around: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # ^ parts that are known by their shapes alone -> label and explanation
    prefixes: Callable[[Sequence[str]], Iterator[str]] = shared_prefixes
    # ^ what may stand before all names of a model inside a larger one
    halves: Callable[[Sequence[str]], Mapping[str, str]] | None = None
    # ^ of a model that is saved in two files: prefixes that a file has -> usual ones
    rename: Rename = rename
    config_fields: Callable[[Tensors], Mapping[str, Any]] = _no_fields
    # ^ what tensors under our names tell beside their sizes
    check: Callable[[Tensors, int, str, Spelling], None] = _no_check
    # ^ tensors, width, file, spelling: raises CheckpointError

    @property
    def choices(self) -> dict[str, Any]:
        """The fields of the config in which a layout is itself, without sizes."""
        return {k: v for k, v in self.preset.fields.items() if k not in _SIZES}

    def usual_ids(self, named: Mapping[str, int]) -> dict[str, int]:
        """Return pad, bos and eos: as a tokenizer names them, else the layout's own."""
        return {name: named.get(name, id) for name, id in self.preset.ids.items()}

    def findings_of(self, config: ModelConfig) -> tuple[Finding, ...]:
        """Return what is true of every checkpoint of the layout with these choices."""
        return (*self.findings, *self.findings_in(config))


_SIZES = {  # which files tell themselves, or ``heads``, which is asked
    "source_vocabulary",
    "target_vocabulary",
    "d_model",
    "heads",
    "encoder_layers",
    "decoder_layers",
    "feed_forward",
}
