"""The description of one program's checkpoints as a single value.

Each layout is a ``LayoutSpec`` in its own module of ``visformer.formats.layouts``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visformer.core.checkpoint import Checkpoint
from visformer.core.presets import Preset
from visformer.errors import CheckpointError
from visformer.files import listed, short
from visformer.formats.given_options import GivenOptions
from visformer.formats.names import NamedTensors, Names, Spelling, in_our_names, known
from visformer.formats.weight_file import WeightFile
from visformer.language import N_
from visformer.values.config import ModelConfig
from visformer.values.finding import Finding
from visformer.values.questions import Questionnaire, keyword

Tensors = Mapping[str, Tensor]
Files = tuple[WeightFile, ...]  # one file, two halves of a model, or a folder
Reader = Callable[["LayoutSpec", Files, GivenOptions, torch.device], Checkpoint]
# takes the files, the given options, and whether to repeat answered questions
Asker = Callable[[Files, GivenOptions, bool], Questionnaire | None]

INTRODUCTION = N_(
    "The file does not say the following. The values shown are the tutorial's "
    "defaults; press Enter to accept them."
)
PAD_WORDS = N_(
    "The token that fills up the shorter sentences of a batch; masks are made from it."
)
ROLES = (
    *("source_embedding.weight", "target_embedding.weight"),
    *("output.weight", "output.bias"),
    *("positions", "source_positions", "target_positions"),
)
_SHORT = {role.removesuffix(".weight"): role for role in ROLES}
_SHORT["output_bias"] = "output.bias"
Halves = Callable[[Sequence[str]], Mapping[str, str]]


# ---- From the names in a file to ours: its prefix, and names that the caller gives ---


class FileTensors(NamedTuple):
    """A model's tensors under the file's names, and what is known about those names."""

    file: str  # for error messages
    tensors: Mapping[str, Tensor]
    prefix: str  # before the names in the layout's table
    callers: Mapping[str, str]  # role -> tensor, given by the caller


Rename = Callable[[Names, FileTensors], NamedTensors]


def joined(files: Sequence[WeightFile], halves: Halves | None) -> dict[str, Tensor]:
    """Merge the files of one model; halves of a model get their usual prefixes.

    Raises CheckpointError if two files hold the same tensor.
    """
    tensors: dict[str, Tensor] = {}
    for file in files:
        names = list(file.weights.tensors)
        prefixes = halves(names) if halves else {}
        for name, tensor in file.weights.tensors.items():
            old = next(filter(name.startswith, prefixes), "")
            key = prefixes.get(old, "") + name.removeprefix(old)
            if key in tensors:
                raise CheckpointError(
                    "Both files hold {tensor}, but one must be the encoder's and the "
                    "other the decoder's. Check {file}.",
                    tensor=short(key),
                    file=file.name,
                )
            tensors[key] = tensor
    return tensors


def shared_prefixes(names: Sequence[str]) -> Iterator[str]:
    """Yield "" and every dotted prefix that all names share."""
    yield ""
    first, prefix = names[0] if names else "", ""
    for part in first.split(".")[:-1]:
        prefix += f"{part}."
        if not all(name.startswith(prefix) for name in names):
            return
        yield prefix


def count_known(names: Names, prefix: str, theirs: Sequence[str]) -> int:
    """Count the names under a prefix that a layout recognises."""
    inside = (n.removeprefix(prefix) for n in theirs if n.startswith(prefix))
    return known(names, inside)


def rename(names: Names, file: FileTensors) -> NamedTensors:
    """Rename a file's tensors by a layout's table and by the caller's names.

    Raises CheckpointError if the file lacks a tensor that the caller names.
    """
    named = in_our_names(names, file.prefix, file.tensors)
    ours_of = {theirs: ours for ours, theirs in named.theirs.items()}
    roles = caller_roles(file.tensors, file.callers)
    new = {ours_of[theirs]: role for role, theirs in roles.items()}
    taken = [role for role in roles if role in named.tensors and role not in new]
    if taken:
        raise CheckpointError(
            "{names} gives another tensor for {role}, but the file already has one: "
            "{tensor}.",
            names=keyword("names"),
            role=taken[0],
            tensor=short(named.theirs[taken[0]]),
        )
    return NamedTensors(
        {new.get(ours, ours): tensor for ours, tensor in named.tensors.items()},
        {new.get(ours, ours): theirs for ours, theirs in named.theirs.items()},
    )


def caller_roles(
    tensors: Mapping[str, Tensor], callers: Mapping[str, str]
) -> dict[str, str]:
    """Return role -> tensor, given by the caller; CheckpointError for wrong names."""
    roles = {}
    for word, name in callers.items():
        role = _SHORT.get(word, word)
        if role not in ROLES:
            raise CheckpointError(
                "{names} does not accept “{name}”. Use one of {choices}.",
                names=keyword("names"),
                name=short(word),
                choices=listed([*_SHORT]),
            )
        key = name if name in tensors else f"{name}.weight"
        if key not in tensors:
            raise CheckpointError(
                "names[“{role}”] is “{name}”, but the file has no such tensor around "
                "its layers. It has {tensors}.",
                role=short(word),
                name=short(name, 32),
                tensors=listed(list(tensors), room=60),
            )
        roles[role] = key
    bias = roles.get("output.weight", "").removesuffix("weight") + "bias"
    if "output.weight" in roles and bias in tensors:
        roles.setdefault("output.bias", bias)
    return roles


@dataclass(frozen=True, kw_only=True)
class LayoutSpec:
    """A layout: its name, fresh models, its reader and its peculiarities.

    The functions handle the peculiarities; their defaults suit a layout without any.
    The fields from ``title`` on concern weight files without a config, where missing
    settings are asked for or assumed. Sentences are marked with ``N_`` and translated
    when shown.
    """

    name: str  # in ``load(layout=…)`` and ``Checkpoint.layout``
    preset: Preset
    read: Reader  # opens a checkpoint
    names: Names = field(default_factory=Names)  # its names of our model's parts
    findings: tuple[Finding, ...] = ()  # that apply to every checkpoint
    findings_in: Callable[[ModelConfig], Iterable[Finding]] = lambda _config: ()

    ask: Asker | None = None  # asks for missing settings; None: nothing is asked

    title: str = ""  # "" if a folder is complete and nothing is asked
    introduction: str = INTRODUCTION  # of the form that asks for missing settings
    left_open: tuple[str, ...] = ("max_positions",)  # fields that tensors may not show
    ends_source: bool = False  # whether the encoder's input ends in eos
    two_pads: bool = False  # whether its code takes a pad id for each side
    pad_words: str = PAD_WORDS  # the purpose of the pad id
    around: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # ^ parts recognised only by shape -> label and explanation
    prefixes: Callable[[Sequence[str]], Iterator[str]] = shared_prefixes
    # ^ possible prefixes of all names inside a larger model
    halves: Callable[[Sequence[str]], Mapping[str, str]] | None = None
    # ^ for a model saved in two files: prefixes in a file -> usual ones
    rename: Rename = rename
    config_fields: Callable[[Tensors], Mapping[str, Any]] = lambda _tensors: {}
    # ^ further fields that tensors under our names determine
    check: Callable[[Tensors, int, str, Spelling], None] = lambda *_given: None
    # ^ tensors, width, file, spelling: raises CheckpointError

    @property
    def choices(self) -> dict[str, Any]:
        """The config fields that characterise the layout, without sizes."""
        return {k: v for k, v in self.preset.fields.items() if k not in _SIZES}

    def usual_ids(self, named: Mapping[str, int]) -> dict[str, int]:
        """Return pad, bos and eos: the tokenizer's if defined, else the defaults."""
        return {name: named.get(name, id) for name, id in self.preset.ids.items()}

    def halves_of(self, names: Sequence[str]) -> Mapping[str, str]:
        """Map the prefixes in the file of one half to the layout's own; {} if none.

        Without a rule of its own, a layout saves ``model.encoder.state_dict()``, whose
        names lack the prefix of that half.
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
        """Return the findings that apply to every checkpoint with this config."""
        every = (*self.findings, *self.findings_in(config))
        return tuple(finding.translated() for finding in every)


_SIZES = {  # known from the tensors, and ``heads``, which is asked
    *("source_vocabulary", "target_vocabulary", "d_model", "heads"),
    *("encoder_layers", "decoder_layers", "feed_forward"),
}
