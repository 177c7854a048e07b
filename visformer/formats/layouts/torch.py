"""A custom model around torch.nn.Transformer.

torch.nn.Transformer has no embeddings, positions or output, and every program names its
own: the caller names them, or they are recognised by shape and by words in their names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from visformer.core.presets import BASE, TUTORIAL, Preset, xavier
from visformer.errors import CheckpointError
from visformer.files import short
from visformer.formats.diagnoses import table_order
from visformer.formats.layout_spec import FileTensors, LayoutSpec, caller_roles
from visformer.formats.names import NamedTensors, Names, in_our_names, layer_names
from visformer.formats.tutorials import read_tutorial
from visformer.language import N_, _
from visformer.values.questions import keyword

_PLACES = re.compile(r"pos|(^|[._])pe([._]|$)", re.IGNORECASE)
_TARGET = re.compile(r"tgt|trg|target|dec", re.IGNORECASE)
_SOURCE = re.compile(r"src|source|enc", re.IGNORECASE)
_INSIDE = re.compile(r"(encoder|decoder)\.(layers\.\d+|norm)\.")
_JOINT = re.compile(r"(.*?)(?:en|de)coder\.layers\.\d+\.self_attn\.in_proj_weight")
_THIRDS = ("q", "k", "v")

PRESET = Preset(
    name="torch",
    fields={
        **TUTORIAL,
        **BASE,
        "source_vocabulary": 10_000,
        "target_vocabulary": 10_000,
        "max_positions": 512,
        "final_norm": True,
        "masked_value": float("-inf"),
    },
    draw=xavier,
)


def _with_joint_projections(name: str) -> str:
    """Return the name of the joint projection that contains a query, key or value."""
    return re.sub(r"\.in_[qkv]\.(weight|bias)$", r".in_proj_\1", name)


NAMES = Names(  # after splitting in_proj_weight and in_proj_bias; and the parts around
    {
        **{name: name for name in ("source_embedding", "target_embedding", "output")},
        "encoder.norm": "encoder.norm",
        "decoder.norm": "decoder.norm",
        **layer_names(
            "encoder.layers.{l}. | decoder.layers.{l}.",
            attention="self_attn | self_attn multihead_attn",
            projections="in_q in_k in_v out_proj",
            feed="linear1 linear2",
            norms="norm1 norm2 | norm1 norm2 norm3",
        ),
    },
    {name: name for name in ("positions", "source_positions", "target_positions")},
    stored=_with_joint_projections,
)
INTRODUCTION = N_(
    "The file does not say the following. The values shown are PyTorch's defaults, or "
    "the usual ones where it has none; press Enter to accept them."
)
AROUND = {  # part -> label and explanation of the question about its tensor
    "source_embedding": (
        N_("Source embedding"),
        N_("The table of source tokens, guessed by shape and name."),
    ),
    "target_embedding": (
        N_("Target embedding"),
        N_("The table of target tokens, guessed by shape and name."),
    ),
    "output": (
        N_("Output matrix"),
        N_("Turns the decoder's output into logits; guessed by shape and name."),
    ),
}


def prefixes(names: Sequence[str]) -> Iterator[str]:
    """Yield "" and the prefix of the first joint projection."""
    yield ""
    joint = next(filter(None, map(_JOINT.fullmatch, names)), None)
    if joint and joint[1]:
        yield joint[1]


def config_fields(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return which tables are shared, as only this layout allows, and their order."""
    fields: dict[str, Any] = {
        "shared_embedding": "source_embedding.weight" not in tensors,
        "tied_output": "output.weight" not in tensors,
    }
    if "positions" in tensors:
        fields["positions"] = table_order(tensors["positions"]) or "sinusoidal"
    return fields


def rename_around(names: Names, file: FileTensors) -> NamedTensors:
    """Rename the layers by the table, other parts by the caller's names or by shape.

    Raises CheckpointError if there are no embeddings.
    """
    prefix, tensors = file.prefix, file.tensors
    outside = {key: t for key, t in tensors.items() if not _is_inside(key, prefix)}
    known = caller_roles(outside, file.callers)
    rest = {key: t for key, t in outside.items() if key not in known.values()}
    guessed = _guessed(rest, _width(tensors), known)
    roles = known | guessed
    if not {"source_embedding.weight", "target_embedding.weight"} & roles.keys():
        raise CheckpointError(
            "{file} is a torch.nn.Transformer without embeddings, so it cannot run; "
            "save the whole model, or name its embeddings with {names}.",
            names=keyword("names", {"source_embedding": "…"}),
            file=file.file,
        )
    placed = {key: f"{prefix}{role}" for role, key in roles.items()}
    theirs = {new: key for key, new in placed.items()}
    named = in_our_names(
        names,
        prefix,
        _split({placed.get(key, key): tensor for key, tensor in tensors.items()}),
    )
    if "target_positions" in named.tensors:  # one table may serve both sides
        both = named.tensors["target_positions"]
        named.tensors.setdefault("source_positions", both)
    return NamedTensors(
        named.tensors,
        {ours: theirs.get(key, key) for ours, key in named.theirs.items()},
        tuple(
            _(
                "{name} = {value} (guessed by shape and name)",
                name=role.removesuffix(".weight"),
                value=short(key),
            )
            for role, key in guessed.items()
        ),
    )


def _split(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Split nn.MultiheadAttention's joint projection into query, key and value."""
    split: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        module, joint, leaf = name.rpartition(".in_proj_")
        if not joint or leaf not in ("weight", "bias") or not tensor.dim():
            split[name] = tensor
            continue
        for part, third in zip(_THIRDS, tensor.tensor_split(3), strict=True):
            split[f"{module}.in_{part}.{leaf}"] = third
    return split


def _width(tensors: Mapping[str, Tensor]) -> int:
    """Return d_model from the first matrix that reads it; 0 if there is none."""
    readers = (
        tensor.shape[1]
        for key, tensor in tensors.items()
        if tensor.dim() == 2 and key.endswith(("in_proj_weight", "linear1.weight"))
    )
    return next(readers, 0)


def _is_inside(key: str, prefix: str) -> bool:
    return key.startswith(prefix) and bool(_INSIDE.match(key, len(prefix)))


def _guessed(
    rest: Mapping[str, Tensor], width: int, known: Mapping[str, str]
) -> dict[str, str]:
    """Guess the missing roles from shapes and names."""
    roles = dict(_positions(rest, width))
    roles |= _output({k: t for k, t in rest.items() if k not in roles.values()}, width)
    tables = [
        key
        for key, tensor in rest.items()
        if tensor.dim() == 2 and tensor.shape[1] == width and key not in roles.values()
    ]
    roles |= _embeddings(tables)
    return {role: key for role, key in roles.items() if role not in known}


def _positions(rest: Mapping[str, Tensor], width: int) -> Iterator[tuple[str, str]]:
    """Find position tables: three dimensions, or "pos" or "pe" in the name."""
    tables = [
        key
        for key, tensor in rest.items()
        if tensor.dim() in (2, 3)
        and tensor.shape[-1] == width > 0
        and (tensor.dim() == 3 or _PLACES.search(key))
    ]
    waves = [k for k in tables if table_order(rest[k].reshape(-1, width))]
    learned = [key for key in tables if key not in waves]
    if learned:
        target = next(filter(_TARGET.search, learned), learned[-1])
        source = next((key for key in learned if key != target), target)
        yield "target_positions", target
        if source != target:
            yield "source_positions", source
    elif waves:
        yield "positions", waves[0]


def _output(rest: Mapping[str, Tensor], width: int) -> dict[str, str]:
    """Find the output: a matrix with a bias of its own, or one with a known name."""
    tables = [k for k, t in rest.items() if t.dim() == 2 and t.shape[1] == width]
    for key in tables:
        bias = key.removesuffix("weight") + "bias"
        if key.endswith(".weight") and bias in rest:
            return {"output.weight": key, "output.bias": bias}
    called = re.compile(r"out|gener|proj|head|fc|linear|logits|dense", re.IGNORECASE)
    own = [k for k in tables if called.search(k) and "emb" not in k.lower()]
    return {"output.weight": own[-1]} if own and len(tables) > 1 else {}


def _embeddings(tables: list[str]) -> dict[str, str]:
    """Assign source and target by name, else by order; a single table serves both."""
    if len(tables) < 2:
        return {"target_embedding.weight": tables[0]} if tables else {}
    target = next(filter(_TARGET.search, tables), None)
    source = next((k for k in tables if k != target and _SOURCE.search(k)), None)
    source = source or next(key for key in tables if key != target)
    target = target or next(key for key in tables if key != source)
    return {"source_embedding.weight": source, "target_embedding.weight": target}


_LEFT_OPEN = (
    *("norm_first", "activation", "embedding_scale", "norm_eps"),
    *("positions", "max_positions"),
)
TORCH = LayoutSpec(
    name="torch",
    title=N_("custom model around torch.nn.Transformer"),
    introduction=INTRODUCTION,
    preset=PRESET,
    names=NAMES,
    read=read_tutorial,
    left_open=_LEFT_OPEN,
    ends_source=True,
    two_pads=True,
    around=AROUND,
    prefixes=prefixes,
    rename=rename_around,
    config_fields=config_fields,
)
