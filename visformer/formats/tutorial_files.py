"""The files of a layout without a config, with their tensors under our names."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from visformer.errors import CheckpointError
from visformer.files import read_json
from visformer.formats.given_options import (
    GivenOptions,
    possible_heads,
    with_config,
    with_saved,
)
from visformer.formats.layout_spec import (
    Files,
    FileTensors,
    LayoutSpec,
    Tensors,
    count_known,
    joined,
)
from visformer.formats.names import Spelling
from visformer.formats.weight_file import Weights
from visformer.values.config import ModelConfig
from visformer.values.questions import keyword

_TABLES = ("positions", "source_positions", "target_positions")
_RULES = (  # properties of a program that no tensor shows
    *("norm", "norm_eps", "norm_first", "activation", "embedding_scale"),
    *("positions", "position_form", "position_axis"),
    *("mask_rule", "masked_value", "softmax_output"),
)
_NUMBER = re.compile(r"\d\.")  # a layer's number in a name
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")


@dataclass(frozen=True)
class TutorialFiles:
    """A layout's files, and everything known about them."""

    spec: LayoutSpec
    name: str
    weights: Sequence[Weights]
    stored: Mapping[str, Tensor]  # under the file's names
    tensors: Mapping[str, Tensor]  # under our names
    spelling: Spelling
    assumed: tuple[str, ...]  # one line per guessed name
    options: GivenOptions  # given, from a config.json beside the file, or saved in it
    paths: tuple[Path, ...] = ()  # empty if in memory

    @property
    def folder(self) -> Path | None:
        """The folder of the first file; None if in memory."""
        return self.paths[0].parent if self.paths else None

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trained tensors: all but a stored position table."""
        return {key: t for key, t in self.tensors.items() if key != "positions"}

    @property
    def half(self) -> str:
        """The only half in the file: "encoder", "decoder", or "" for both."""
        if any(key[0] == "?" and _NUMBER.search(key) for key in self.tensors):
            return ""  # layers under unknown names may be the other half
        layers = filter(None, map(_LAYER.match, self.tensors))
        halves = {match[1] for match in layers}
        return halves.pop() if len(halves) == 1 else ""

    @property
    def left_open(self) -> tuple[str, ...]:
        """The fields that neither the file nor the caller gives."""
        return self._unknown(self.spec.left_open)

    @property
    def renamed(self) -> bool:
        """Whether the caller's rules alone gave it the layout's names."""
        return bool(self.options.rules.rename)

    @property
    def unsaid(self) -> tuple[str, ...]:
        """The fields that are assumed; of a renamed file, all rules of its program."""
        own = ("mask_rule",) if self.spec.around else ()
        return self._unknown((*self.spec.left_open, *(_RULES if self.renamed else own)))

    def _unknown(self, names: Sequence[str]) -> tuple[str, ...]:
        known = {*self.options.fields, *sizes_of(self.tensors)}
        if "positions" in self.tensors:
            known |= {"positions", "max_positions", "position_form"}
        return tuple(
            field.name
            for field in dataclasses.fields(ModelConfig)
            if field.name in names and field.name not in known
        )


def read_files(spec: LayoutSpec, files: Files, options: GivenOptions) -> TutorialFiles:
    """Read the files of a layout; missing settings may still be unknown."""
    name = " and ".join(file.name for file in files)
    tensors = joined(files, spec.halves_of)
    paths: tuple[Path, ...] = ()
    if not files[0].reader.holds(files[0].path):
        paths = tuple(file.path for file in files)
        options = with_config(options, config_beside(paths[0]))
    weights = [file.weights for file in files]
    read = read_tensors(spec, name, tensors, weights, options)
    return dataclasses.replace(read, paths=paths)


def read_tensors(
    spec: LayoutSpec,
    name: str,
    tensors: Tensors,
    weights: Sequence[Weights],
    options: GivenOptions,
) -> TutorialFiles:
    """Rename a model's tensors to ours, and add the options saved beside them."""
    names = list(tensors)
    prefix = max(
        spec.prefixes(names), key=lambda prefix: count_known(spec.names, prefix, names)
    )
    named = spec.rename(spec.names, FileTensors(name, tensors, prefix, options.names))
    flat = {key: _flat(key, tensor) for key, tensor in named.tensors.items()}
    # scripts save all their arguments: what the tensors determine is ignored
    known = {*sizes_of(flat), *(("max_positions",) if "positions" in flat else ())}
    for part in weights:
        options = with_saved(options, part.options, known)
    return TutorialFiles(
        spec=spec,
        name=name,
        weights=weights,
        stored=tensors,
        tensors=flat,
        spelling=Spelling(spec.names, prefix, named.theirs),
        assumed=named.assumed,
        options=options,
    )


def config_beside(path: Path) -> dict[str, Any]:
    """Read the config.json beside a file; {} if there is none for it.

    A weight file may lie in the folder of another model, whose config does not apply.
    """
    place = path.with_name("config.json")
    if not place.is_file():
        return {}
    config = read_json(place)
    return {} if {"format", "model_type"} & config.keys() else config


def _flat(key: str, tensor: Tensor) -> Tensor:
    """Reshape [1, P, D] and [P, 1, D] to [P, D]."""
    if key in _TABLES and tensor.dim() == 3 and 1 in tensor.shape[:2]:
        return tensor.flatten(0, 1)
    return tensor


def config_of(read: TutorialFiles) -> ModelConfig:
    """Return the config from the layout, the tensors and the given options, which win.

    Raises CheckpointError if the number of heads is unknown.
    """
    fields = _fields_of(read)
    if "heads" not in fields:
        width = fields["d_model"]
        raise CheckpointError(
            "{name} does not say how many heads it has. Give {given}, a divisor of "
            "d_model = {width}, such as {heads}.",
            name=read.name,
            given=keyword("heads"),
            width=width,
            heads=", ".join(map(str, possible_heads(width)[:12])),
        )
    return ModelConfig(**fields)


def known_config(read: TutorialFiles) -> ModelConfig:
    """Return the config with 1 in place of an unknown number of heads."""
    return ModelConfig(**{"heads": 1, **_fields_of(read)})


def _fields_of(read: TutorialFiles) -> dict[str, Any]:
    return {
        **read.spec.choices,
        **sizes_of(read.tensors),
        **read.spec.config_fields(read.tensors),
        **read.options.fields,
    }


# ---- The config fields that tensors reveal by shape, index and presence --------------


def sizes_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the fields of a ModelConfig that tensors under our names determine.

    Missing or misshapen tensors are left for ``build_model`` to report: a size is the
    one that most tensors share, and 1 if there is none.
    """
    tables = "source_embedding", "target_embedding", "output"
    source, target, output = (_rows(tensors, f"{name}.weight") for name in tables)
    target = target or output
    endings = "norm.weight", "norm.bias", "embedding.weight"
    norms_and_tables = [t for key, t in tensors.items() if key.endswith(endings)]
    inner_sizes = [
        tensor.shape[axis]
        for axis, name in enumerate(("w1", "w2"))
        for key, tensor in tensors.items()
        if tensor.dim() == 2 and key.endswith(f"feed_forward.{name}.weight")
    ]
    fields = {
        "source_vocabulary": source or target or 1,
        "target_vocabulary": target or source or 1,
        "d_model": _usual(t.shape[-1] for t in norms_and_tables if t.dim()),
        "feed_forward": _usual(inner_sizes),
        "encoder_layers": _layers(tensors, "encoder"),
        "decoder_layers": _layers(tensors, "decoder"),
        "encoder_bias": _biases(tensors, "encoder"),
        "decoder_bias": _biases(tensors, "decoder"),
        "norm_bias": _norm_biases(tensors),
        "final_norm": any(
            f"{s}.norm.weight" in tensors for s in ("encoder", "decoder")
        ),
        "gated": _any(tensors, "feed_forward.gate.weight"),
        "w1_bias": _any(tensors, "feed_forward.w1.bias"),
        "w2_bias": _any(tensors, "feed_forward.w2.bias"),
        "output_bias": "output.bias" in tensors,
        "encoder_norm_length": _norm_length(tensors, "encoder"),
        "decoder_norm_length": _norm_length(tensors, "decoder"),
    }
    if fields["gated"]:
        fields["gate_bias"] = _any(tensors, "feed_forward.gate.bias")
    return fields | _position_fields(tensors)


def _usual(sizes: Iterable[int]) -> int:
    """Return the most common size, so that a single wrong tensor stands out."""
    counted = Counter(sizes).most_common(1)
    return counted[0][0] if counted else 1


def _rows(tensors: Mapping[str, Tensor], key: str) -> int:
    tensor = tensors.get(key)
    return tensor.shape[0] if tensor is not None and tensor.dim() == 2 else 0


def _layers(tensors: Mapping[str, Tensor], stack: str) -> int:
    layers = filter(None, map(_LAYER.match, tensors))
    return 1 + max((int(match[2]) for match in layers if match[1] == stack), default=0)


def _norm_biases(tensors: Mapping[str, Tensor]) -> bool:
    """Whether norms have a bias; a single norm without one is reported as a fault."""
    scales = any(key.endswith("norm.weight") for key in tensors if key[0] != "?")
    return not scales or _any(tensors, "norm.bias")


def _any(tensors: Mapping[str, Tensor], ending: str) -> bool:
    return any(key.endswith(ending) and key[0] != "?" for key in tensors)


def _biases(tensors: Mapping[str, Tensor], stack: str) -> str:
    """Return which attention biases the file has."""
    own = {key: t for key, t in tensors.items() if key.startswith(f"{stack}.layers.")}
    if _any(own, "attention.query.bias") or _any(own, "attention.key.bias"):
        return "all"
    return "value_output" if _any(own, "attention.value.bias") else "none"


def _position_fields(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    learned = tensors.get("source_positions", tensors.get("target_positions"))
    if learned is not None:
        fields = {"positions": "learned", "position_axis": "time"}
        return {**fields, "max_positions": max(learned.shape, default=1)}
    table = tensors.get("positions")
    if table is None or not table.dim():
        return {}
    return {"max_positions": len(table)}


def _norm_length(tensors: Mapping[str, Tensor], stack: str) -> int:
    """Return how many tokens a stack normalises jointly; 0 if each token separately."""
    norms = [
        tensor
        for key, tensor in tensors.items()
        if key.startswith(f"{stack}.") and key.endswith("norm.weight")
    ]
    shapes = {tensor.dim(): len(tensor) for tensor in norms if tensor.dim()}
    return shapes[2] if set(shapes) == {2} else 0
