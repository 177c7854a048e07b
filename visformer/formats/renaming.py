"""From a file's tensor names to ours: its prefix, and names that the caller gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from visformer.errors import CheckpointError
from visformer.files import listed, short
from visformer.formats.names import NamedTensors, Names, in_our_names, known
from visformer.formats.weight_file import WeightFile
from visformer.language import _
from visformer.values.questions import keyword

ROLES = (
    "source_embedding.weight",
    "target_embedding.weight",
    "output.weight",
    "output.bias",
    "positions",
    "source_positions",
    "target_positions",
)
_SHORT = {role.removesuffix(".weight"): role for role in ROLES}
_SHORT["output_bias"] = "output.bias"
Halves = Callable[[Sequence[str]], Mapping[str, str]]


class FileTensors(NamedTuple):
    """A model's tensors under the file's names, and what is known about those names."""

    file: str  # named in errors
    tensors: Mapping[str, Tensor]
    prefix: str  # of the names in the layout's table
    callers: Mapping[str, str]  # role -> tensor, as given by the caller


def joined(files: Sequence[WeightFile], halves: Halves | None) -> dict[str, Tensor]:
    """Merge the files of one model; halves of a model get their usual prefixes.

    Raises CheckpointError if two files hold the same tensor.
    """
    tensors: dict[str, Tensor] = {}
    for file in files:
        names = list(file.weights.tensors)
        prefixes = halves(names) if halves else {}
        for name, tensor in file.weights.tensors.items():
            key = _with_usual_prefix(name, prefixes)
            if key in tensors:
                raise CheckpointError(
                    _(
                        "Both files hold {tensor}, but one must be the encoder's and "
                        "the other the decoder's. Check {file}.",
                        tensor=short(key),
                        file=file.name,
                    )
                )
            tensors[key] = tensor
    return tensors


def _with_usual_prefix(name: str, prefixes: Mapping[str, str]) -> str:
    for theirs, usual in prefixes.items():
        if name.startswith(theirs):
            return usual + name.removeprefix(theirs)
    return name


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
    """Count the names of a file that a layout recognises under a prefix."""
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
            _(
                "{names} gives another tensor for {role}, but the file already has "
                "one: {tensor}.",
                names=keyword("names"),
                role=taken[0],
                tensor=short(named.theirs[taken[0]]),
            )
        )
    return NamedTensors(
        {new.get(ours, ours): tensor for ours, tensor in named.tensors.items()},
        {new.get(ours, ours): theirs for ours, theirs in named.theirs.items()},
    )


def caller_roles(
    tensors: Mapping[str, Tensor], callers: Mapping[str, str]
) -> dict[str, str]:
    """Return role -> tensor as given by the caller; CheckpointError for wrong names."""
    roles = {}
    for word, name in callers.items():
        role = _SHORT.get(word, word)
        if role not in ROLES:
            raise CheckpointError(
                _(
                    "{names} does not accept “{name}”. Use one of {choices}.",
                    names=keyword("names"),
                    name=short(word),
                    choices=listed([*_SHORT]),
                )
            )
        key = name if name in tensors else f"{name}.weight"
        if key not in tensors:
            raise CheckpointError(
                _(
                    "names[“{role}”] is “{name}”, but the file has no such tensor "
                    "around its layers. It has {tensors}.",
                    role=short(word),
                    name=short(name, 32),
                    tensors=listed(list(tensors), room=60),
                )
            )
        roles[role] = key
    bias = roles.get("output.weight", "").removesuffix("weight") + "bias"
    if "output.weight" in roles and bias in tensors:
        roles.setdefault("output.bias", bias)
    return roles
