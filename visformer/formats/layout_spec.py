"""Everything Visformer has to know about one program's checkpoints, as one value.

Each layout is a ``LayoutSpec`` in its own module of ``visformer.formats.layouts``.
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
from visformer.formats.names import NamedTensors, Names, Spelling, known
from visformer.formats.renaming import FileTensors, rename, shared_prefixes
from visformer.formats.weight_file import WeightFile
from visformer.language import N_
from visformer.values.config import ModelConfig
from visformer.values.finding import Finding
from visformer.values.questions import Questionnaire

Tensors = Mapping[str, Tensor]
Files = tuple[WeightFile, ...]  # one file, the two of a split model, or a folder
Reader = Callable[["LayoutSpec", Files, GivenOptions, torch.device], Checkpoint]
# files, what is known of them, whether to ask again what is answered
Asker = Callable[[Files, GivenOptions, bool], Questionnaire | None]
Rename = Callable[[Names, FileTensors], NamedTensors]
INTRODUCTION = N_(
    "The file does not say the following. The values shown are the tutorial's "
    "defaults; press Enter to accept them."
)
PAD_WORDS = N_(
    "The token that fills up the shorter sentences of a batch; masks are made from it."
)


def _no_fields(tensors: Tensors) -> Mapping[str, Any]:
    return {}


def _no_findings(config: ModelConfig) -> Iterable[Finding]:
    return ()


def _no_check(tensors: Tensors, width: int, file: str, spelling: Spelling) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class LayoutSpec:
    """A layout: its name, fresh models of it, its reader, and its peculiarities.

    The functions are its quirks; the defaults suit a layout that has none. Everything
    from ``title`` on concerns weight files without a config: what they leave open is
    asked or assumed. Sentences are marked with ``N_`` and translated when shown.
    """

    name: str  # in ``load(layout=…)`` and ``Checkpoint.layout``
    preset: Preset
    read: Reader  # opens a checkpoint of it
    names: Names = field(default_factory=Names)  # what it calls our model's parts
    findings: tuple[Finding, ...] = ()  # true of every checkpoint of this layout
    findings_in: Callable[[ModelConfig], Iterable[Finding]] = _no_findings

    ask: Asker | None = None  # what a folder leaves open; None: nothing

    title: str = ""  # "" if a folder says everything and nothing is asked
    introduction: str = INTRODUCTION  # of the form that asks what a file leaves open
    left_open: tuple[str, ...] = ("max_positions",)  # fields tensors may not determine
    ends_source: bool = False  # whether the encoder is given eos as the last token
    two_pads: bool = False  # whether its code takes a pad id for each side
    pad_words: str = PAD_WORDS  # what the pad is for
    around: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # ^ parts recognised by their shapes alone -> label and explanation
    prefixes: Callable[[Sequence[str]], Iterator[str]] = shared_prefixes
    # ^ what may precede all names of a model inside a larger one
    halves: Callable[[Sequence[str]], Mapping[str, str]] | None = None
    # ^ for a model that is saved in two files: prefixes in a file -> usual ones
    rename: Rename = rename
    config_fields: Callable[[Tensors], Mapping[str, Any]] = _no_fields
    # ^ what tensors under our names determine besides sizes
    check: Callable[[Tensors, int, str, Spelling], None] = _no_check
    # ^ tensors, width, file, spelling: raises CheckpointError

    @property
    def choices(self) -> dict[str, Any]:
        """The config fields that characterise the layout, without sizes."""
        return {k: v for k, v in self.preset.fields.items() if k not in _SIZES}

    def usual_ids(self, named: Mapping[str, int]) -> dict[str, int]:
        """Return pad, bos and eos: the tokenizer's if it names them, else the usual."""
        return {name: named.get(name, id) for name, id in self.preset.ids.items()}

    def halves_of(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return prefixes in the file of a model's half -> the layout's own; {}: none.

        A layout without a rule of its own has saved ``model.encoder.state_dict()``:
        its names lack what all names of that half begin with.
        """
        if self.halves is not None:
            return self.halves(names)
        counts = {
            half: known(self.names, (half + name for name in names))
            for half in ("", "encoder.", "decoder.")
        }
        most = max(counts, key=lambda half: counts[half])
        return {"": most} if most else {}

    def findings_of(self, config: ModelConfig) -> tuple[Finding, ...]:
        """Return what is true of every checkpoint of the layout with these choices."""
        every = (*self.findings, *self.findings_in(config))
        return tuple(finding.translated() for finding in every)


_SIZES = {  # which the tensors determine, and ``heads``, which is asked
    "source_vocabulary",
    "target_vocabulary",
    "d_model",
    "heads",
    "encoder_layers",
    "decoder_layers",
    "feed_forward",
}
