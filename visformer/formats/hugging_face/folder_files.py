"""The files of a folder that transformers wrote, each read by our own readers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from visformer.errors import CheckpointError
from visformer.files import is_file, read_json, short
from visformer.formats.weight_file import INDEX, WeightReader
from visformer.tokenizers.tokenizer import read_tokenizer

CONFIG = "config.json"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
MOST_NUMBER = 1 << 40  # of any setting
MOST_POSITIONS = 1 << 20
MOST_LABELS = 1 << 16  # transformers writes a name for each
_CODE = ("auto_map", "custom_pipelines")  # names of code in the folder
_COUNTED = re.compile(  # settings that say how many modules there are
    r"(num_|n_)?(hidden_|encoder_|decoder_|local_|routed_|shared_)?"
    r"(layers?|blocks|experts|hidden_groups|group_num)"
)
_BESIDE = (".json", ".model", ".txt", ".spm", ".bpe", ".vocab", ".jinja", ".tiktoken")


class FolderWeights(NamedTuple):
    """The tensors of a folder."""

    tensors: dict[str, Tensor]
    digest: str  # SHA-256 of the file; of the files' digests where there are several
    file: str  # its name, for a sentence


def read_tensors(folder: Path, reader: WeightReader) -> FolderWeights:
    """Read the weights, whole or in several files; CheckpointError if there are none.

    Pickles are read by our own reader: nothing of theirs runs.
    """
    for name in (n + more for n in WEIGHT_FILES for more in ("", INDEX)):
        if is_file(folder / name):
            weights = reader(folder / name)
            return FolderWeights(dict(weights.tensors), weights.digest, name)
    raise CheckpointError(
        "{folder} holds no weights. It needs {first} or {second}.",
        folder=short(folder.resolve().name),
        first=WEIGHT_FILES[0],
        second=WEIGHT_FILES[1],
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json, without what names code of the folder; CheckpointError.

    Numbers that no model has are refused: building it would take for ever.
    """
    config = {k: v for k, v in read_json(folder / CONFIG).items() if k not in _CODE}
    for key, value in _numbers(config, ""):
        most = MOST_POSITIONS if "position" in key else MOST_NUMBER
        most = MOST_LABELS if key == "num_labels" else most
        if abs(value) > most or (value < 0 and _COUNTED.fullmatch(key)):
            raise CheckpointError(
                "{file}: {key} is {value}, which no model has. Correct it.",
                file=CONFIG,
                key=short(key),
                value=short(str(value), 24),
            )
    if config.get("quantization_config"):
        raise CheckpointError(
            "{folder} holds quantized weights, which are not read. Use the folder of "
            "the unquantized model.",
            folder=short(folder.resolve().name),
        )
    return config


def check_counts(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError for more modules of a kind than there are tensors."""
    for key, value in _numbers(config, ""):
        if _COUNTED.fullmatch(key) and value > len(tensors):
            raise CheckpointError(
                "{file}: {key} is {value}, but the weights are only {n:,} tensors.",
                file=CONFIG,
                key=short(key),
                value=short(str(value), 24),
                n=len(tensors),
            )


def _numbers(value: Any, key: str) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers in a document, each with the key that it is under."""
    if type(value) is int:
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _numbers(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, key)


def check_beside(folder: Path) -> None:
    """Raise CheckpointError for a file of the tokenizer that is none, or too large."""
    for file in sorted(folder.iterdir()):
        own = file.suffix in _BESIDE and not file.name.endswith(INDEX)
        if own and not (is_file(file) and file.stat().st_size == 0):
            read_tokenizer(file)
