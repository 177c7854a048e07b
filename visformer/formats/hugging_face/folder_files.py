"""The files of a transformers folder, each read by our own readers."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from visformer.errors import CheckpointError
from visformer.files import is_file, read_json, short
from visformer.formats.weight_file import INDEX, WeightReader, Weights
from visformer.tokenizers.tokenizer import read_tokenizer

CONFIG = "config.json"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
MOST_NUMBER = 1 << 40  # limit of any setting
MOST_POSITIONS = 1 << 20
MOST_LABELS = 1 << 16  # transformers creates a name for each
_CODE = ("auto_map", "custom_pipelines")  # settings that name code in the folder
_COUNTED = re.compile(  # settings that are numbers of modules
    r"(num_|n_)?(hidden_|encoder_|decoder_|local_|routed_|shared_)?"
    r"(layers?|blocks|experts|hidden_groups|group_num)"
)
_BESIDE = (".json", ".model", ".txt", ".spm", ".bpe", ".vocab", ".jinja", ".tiktoken")


def read_tensors(folder: Path, reader: WeightReader) -> tuple[Weights, str]:
    """Return the weights of a folder and their file's name; CheckpointError for none.

    Pickles are read by our own reader, which runs no code.
    """
    for name in (n + more for n in WEIGHT_FILES for more in ("", INDEX)):
        if is_file(folder / name):
            return reader(folder / name), name
    raise CheckpointError(
        "{folder} holds no weights. It needs {first} or {second}.",
        folder=short(folder.resolve().name),
        first=WEIGHT_FILES[0],
        second=WEIGHT_FILES[1],
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json, without the settings that name code in the folder.

    Raises CheckpointError for unreasonably large numbers, which would take forever to
    build.
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
    """Raise CheckpointError if a config has more modules of a kind than tensors."""
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
    """Yield the integers in a document, each with its key."""
    if type(value) is int:
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _numbers(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, key)


def check_beside(folder: Path) -> None:
    """Raise CheckpointError for an invalid or oversized tokenizer file."""
    for file in sorted(folder.iterdir()):
        own = file.suffix in _BESIDE and not file.name.endswith(INDEX)
        if own and not (is_file(file) and file.stat().st_size == 0):
            read_tokenizer(file)
