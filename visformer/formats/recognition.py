"""Which layout a file is of: the one whose names explain most of its tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from visformer.errors import CheckpointError
from visformer.formats.keys import KEYS, Renamed, known, renamed, their_name
from visformer.formats.weight_file import WeightFile

_TORCH = re.compile(r"(.*?)(?:en|de)coder\.layers\.\d+\.self_attn\.in_proj_weight")
_PARTS = ("q", "k", "v")


class Recognised(NamedTuple):
    """A layout, and what stands before each of its names."""

    layout: str
    prefix: str


def recognise(names: Sequence[str]) -> Recognised | None:
    """Return the layout that knows most of ``names``; None if none knows more."""
    counts = {
        Recognised(layout, prefix): known(keys, _without(names, prefix))
        for layout, keys in KEYS.items()
        for prefix in prefixes(names, layout)
    }
    best = max(counts, key=lambda found: counts[found])
    rivals = [n for found, n in counts.items() if found.layout != best.layout]
    return best if counts[best] > max(rivals) else None


def prefix_for(names: Sequence[str], layout: str) -> str:
    """Return the prefix under which a layout knows most of ``names``."""
    keys = KEYS[layout]
    return max(
        prefixes(names, layout), key=lambda prefix: known(keys, _without(names, prefix))
    )


def _without(names: Sequence[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def prefixes(names: Sequence[str], layout: str) -> Iterator[str]:
    """Yield what may stand before all names of a model inside a larger one."""
    yield ""
    if layout == "torch":
        found = next(filter(None, map(_TORCH.fullmatch, names)), None)
        if found and found[1]:
            yield found[1]
        return
    first, made = names[0] if names else "", ""
    for part in first.split(".")[:-1]:
        made += f"{part}."
        if not all(name.startswith(made) for name in names):
            return
        yield made


def joined(files: Sequence[WeightFile]) -> dict[str, Tensor]:
    """Merge files of one model; d2l's encoder and decoder get their prefixes."""
    made: dict[str, Tensor] = {}
    for file in files:
        tensors = file.weights.tensors
        halves = _halves(list(tensors))
        for key, tensor in tensors.items():
            for theirs, ours in halves.items():
                if key.startswith(theirs):
                    key = ours + key.removeprefix(theirs)
                    break
            if key in made:
                raise CheckpointError(
                    f"{file.name} holds {key}, which the other file holds too: give "
                    "the encoder's file and the decoder's."
                )
            made[key] = tensor
    return made


def _halves(names: Sequence[str]) -> dict[str, str]:
    """Return what d2l's encoder and decoder stand under -> the prefix they should have.

    Nothing joins the two in the tutorial, so that a program names them as it likes.
    Empty where a file has the usual prefixes, or no such parts.
    """
    found: dict[str, str] = {}
    for name in names:
        before, block, _ = name.partition("blks.block")
        if block:
            alone = [n.removeprefix(before) for n in names if n.startswith(before)]
            mine = any("attention2." in n or n.startswith("dense.") for n in alone)
            found.setdefault(before, "decoder." if mine else "encoder.")
    both = len(found) == 2 and len(set(found.values())) == 2
    if not both and set(found) != {""}:
        return {}
    outer = {before.removesuffix(ours) for before, ours in found.items()}
    return {} if len(outer) == 1 and "" not in found else found


def in_our_names(layout: str, prefix: str, tensors: Mapping[str, Tensor]) -> Renamed:
    """Rename a file's tensors; those outside ``prefix`` are surplus."""
    inside = {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
    made = renamed(KEYS[layout], inside)
    for ours, name in made.spelt.items():
        made.spelt[ours] = prefix + name
    for name in tensors:
        if not name.startswith(prefix):
            made.tensors[f"?{name}"], made.spelt[f"?{name}"] = tensors[name], name
    return made


@dataclass(frozen=True)
class Spelling:
    """Calls our tensors what the file calls them, or would."""

    layout: str
    prefix: str
    spelt: Mapping[str, str]

    def __call__(self, name: str) -> str:
        """Return the file's name for a tensor that we call ``name``."""
        theirs = self.spelt.get(name) or self.prefix + their_name(
            KEYS[self.layout], name
        )
        if self.layout == "torch":
            theirs = re.sub(r"\.in_[qkv]\.(weight|bias)$", r".in_proj_\1", theirs)
        return theirs


def split_projections(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Cut torch.nn.MultiheadAttention's joint projection into query, key and value."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        module, joint, leaf = name.rpartition(".in_proj_")
        if not joint or leaf not in ("weight", "bias") or not tensor.dim():
            made[name] = tensor
            continue
        for part, third in zip(_PARTS, tensor.tensor_split(3), strict=True):
            made[f"{module}.in_{part}.{leaf}"] = third
    return made
