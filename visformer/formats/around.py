"""What stands around the layers: embeddings, positions, output.

torch.nn.Transformer has none of them, and every program names its own: they are told
by the caller, or by their shapes and by words in their names. A tutorial's file has its
own names for them, unless the caller tells others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from torch import Tensor

from visformer.errors import CheckpointError
from visformer.files import listed, short
from visformer.formats.diagnoses import table_order
from visformer.formats.keys import Renamed

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
_TARGET = re.compile(r"tgt|trg|target|dec", re.IGNORECASE)
_SOURCE = re.compile(r"src|source|enc", re.IGNORECASE)
_INSIDE = re.compile(r"(encoder|decoder)\.(layers\.\d+|norm)\.")


class Around(NamedTuple):
    """A file's tensors with ours for names where there is a role, under the prefix."""

    tensors: dict[str, Tensor]
    spelt: dict[str, str]  # role under the prefix -> the file's name
    assumed: tuple[str, ...]


def place_around(
    tensors: Mapping[str, Tensor], prefix: str, names: Mapping[str, str], file: str
) -> Around:
    """Find the tensors around the Transformer that stands under ``prefix``."""
    inside = {key for key in tensors if _is_inside(key, prefix)}
    outside = {key: t for key, t in tensors.items() if key not in inside}
    told = named(outside, names)
    width = _width(tensors)
    taken = set(told.values())
    rest = {key: t for key, t in outside.items() if key not in taken}
    guessed = _guessed(rest, width, told)
    roles = told | guessed
    if not {"source_embedding.weight", "target_embedding.weight"} & roles.keys():
        raise CheckpointError(
            f"{file} is a torch.nn.Transformer without embeddings, which can be "
            "inspected but not run: save the whole model, or name its embeddings with "
            "names={“source_embedding”: …}."
        )
    back = {key: f"{prefix}{role}" for role, key in roles.items()}
    return Around(
        {back.get(key, key): tensor for key, tensor in tensors.items()},
        {f"{prefix}{role}": key for role, key in roles.items()},
        tuple(
            f"{role.removesuffix('.weight')} = {short(key)} (by its shape and name)"
            for role, key in guessed.items()
        ),
    )


def _width(tensors: Mapping[str, Tensor]) -> int:
    """Return d_model by the first matrix that reads it; 0 where there is none."""
    readers = (
        tensor.shape[1]
        for key, tensor in tensors.items()
        if tensor.dim() == 2 and key.endswith(("in_proj_weight", "linear1.weight"))
    )
    return next(readers, 0)


def _is_inside(key: str, prefix: str) -> bool:
    return key.startswith(prefix) and bool(_INSIDE.match(key, len(prefix)))


def named(tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, str]:
    """Return role -> tensor as the caller names them; CheckpointError where wrong."""
    made = {}
    for word, name in names.items():
        role = _SHORT.get(word, word)
        if role not in ROLES:
            raise CheckpointError(
                f"names has no place for “{short(word)}”: it has {listed([*_SHORT])}."
            )
        found = name if name in tensors else f"{name}.weight"
        if found not in tensors:
            raise CheckpointError(
                f"names[“{short(word)}”] is “{short(name)}”, which the file does not "
                f"hold around its layers: it holds {listed(list(tensors))}."
            )
        made[role] = found
    bias = made.get("output.weight", "").removesuffix("weight") + "bias"
    if "output.weight" in made and bias in tensors:
        made.setdefault("output.bias", bias)
    return made


def renamed_as_told(made: Renamed, names: Mapping[str, str]) -> Renamed:
    """Give tensors of a tutorial's file the roles that the caller says they have.

    Raises CheckpointError where the file has no such tensor.
    """
    theirs = {name: ours for ours, name in made.spelt.items()}
    roles = named({name: made.tensors[ours] for name, ours in theirs.items()}, names)
    places = {theirs[name]: role for role, name in roles.items()}
    taken = [role for role in roles if role in made.tensors and role not in places]
    if taken:
        raise CheckpointError(
            f"names gives {taken[0]} to another tensor, but the file has its own: "
            f"{short(made.spelt[taken[0]])}."
        )
    return Renamed(
        {places.get(ours, ours): tensor for ours, tensor in made.tensors.items()},
        {places.get(ours, ours): name for ours, name in made.spelt.items()},
    )


def _guessed(
    rest: Mapping[str, Tensor], width: int, told: Mapping[str, str]
) -> dict[str, str]:
    """Tell roles by shapes and names, apart from those that were told."""
    made = dict(_positions(rest, width))
    made |= _output({k: t for k, t in rest.items() if k not in made.values()}, width)
    tables = [
        key
        for key, tensor in rest.items()
        if tensor.dim() == 2 and tensor.shape[1] == width and key not in made.values()
    ]
    return {k: v for k, v in {**made, **_embeddings(tables)}.items() if k not in told}


def _positions(rest: Mapping[str, Tensor], width: int) -> Iterator[tuple[str, str]]:
    """Find position tables: three dimensions, one of them 1, or "pos" in the name."""
    found = [
        key
        for key, tensor in rest.items()
        if tensor.dim() in (2, 3)
        and tensor.shape[-1] == width > 0
        and (tensor.dim() == 3 or "pos" in key.lower())
    ]
    waves = [k for k in found if table_order(rest[k].reshape(-1, width))]
    learned = [key for key in found if key not in waves]
    if learned:
        target = next(filter(_TARGET.search, learned), learned[-1])
        source = next((key for key in learned if key != target), target)
        yield "target_positions", target
        if source != target:
            yield "source_positions", source
    elif waves:
        yield "positions", waves[0]


def _output(rest: Mapping[str, Tensor], width: int) -> dict[str, str]:
    """Find the output: a matrix with a bias of its rows, or one called like it."""
    tables = [k for k, t in rest.items() if t.dim() == 2 and t.shape[1] == width]
    for key in tables:
        bias = key.removesuffix("weight") + "bias"
        if key.endswith(".weight") and bias in rest:
            return {"output.weight": key, "output.bias": bias}
    called = re.compile(r"out|gener|proj|head|fc|linear|logits|dense", re.IGNORECASE)
    own = [k for k in tables if called.search(k) and "emb" not in k.lower()]
    return {"output.weight": own[-1]} if own and len(tables) > 1 else {}


def _embeddings(tables: list[str]) -> dict[str, str]:
    """Tell the source's from the target's by name, or by order; one serves both."""
    if len(tables) < 2:
        return {"target_embedding.weight": tables[0]} if tables else {}
    target = next(filter(_TARGET.search, tables), None)
    source = next((k for k in tables if k != target and _SOURCE.search(k)), None)
    source = source or next(key for key in tables if key != target)
    target = target or next(key for key in tables if key != source)
    return {"source_embedding.weight": source, "target_embedding.weight": target}
