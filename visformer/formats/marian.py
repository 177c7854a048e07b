"""Marian (OPUS-MT) folders as transformers writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from visformer.core.assembly import build_model
from visformer.core.checkpoint import Checkpoint
from visformer.errors import CheckpointError
from visformer.files import listed, read_json, short
from visformer.formats.diagnoses import findings_of
from visformer.formats.generation_config import Settings, read_generation
from visformer.formats.keys import KEYS, our_name
from visformer.formats.layouts import choices
from visformer.formats.options import Given, plain_field
from visformer.formats.recognition import Spelling, in_our_names
from visformer.formats.sizes import sizes_of
from visformer.formats.weight_file import read_weights
from visformer.tokenizers.sides import NumberSide, open_side, read_marian
from visformer.tokenizers.tokenizer import Side, Tokenizer
from visformer.values.config import ModelConfig

CONFIG = "config.json"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
_REFUSED = {  # old keys -> the only value that this architecture has
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
_FIELDS = {  # theirs -> ours, and what transformers takes where it is left out
    "d_model": ("d_model", 1024),
    "encoder_layers": ("encoder_layers", 12),
    "decoder_layers": ("decoder_layers", 12),
    "encoder_ffn_dim": ("feed_forward", 4096),
    "max_position_embeddings": ("max_positions", 1024),
    "activation_function": ("activation", "gelu"),
    "scale_embedding": ("embedding_scale", False),
}
_EQUAL = {  # tensors that old files repeat -> the one that they repeat
    "model.encoder.embed_tokens.weight": "model.shared.weight",
    "model.decoder.embed_tokens.weight": "model.shared.weight",
}
_TABLES = (
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
)


def read_marian_folder(folder: Path, told: Given, device: torch.device) -> Checkpoint:
    """Open a folder that transformers wrote; CheckpointError says what is wrong."""
    config = read_json(folder / CONFIG)
    _check(config)
    path = weights_file(folder)
    weights = read_weights(path)
    tensors, table = _tensors(weights.tensors)
    sizes, assumed = _model_config(config, tensors, told)
    parts = in_our_names("marian", "", tensors)
    settings = Settings(folder, config, CONFIG)
    tokenizer = _tokenizer(folder, config, settings, sizes, told)
    rules, more = read_generation(settings, tokenizer.eos, sizes.target_vocabulary)
    found = {key: _flat(key, tensor) for key, tensor in parts.tensors.items()}
    spelling = Spelling("marian", "", parts.spelt)
    model = build_model(
        sizes,
        found,
        device=device,
        name=short(path.name),
        spelling=spelling,
        table=table if table is None else table[: sizes.max_positions],
    )
    stored = found if table is None else {**found, "positions": table}
    pads = (tokenizer.pad, tokenizer.pad)
    return Checkpoint(
        name=short(folder.resolve().name),
        layout="marian",
        config=sizes,
        model=model,
        tokenizer=tokenizer,
        digest=weights.digest,
        assumed=(*assumed, *more),
        findings=findings_of("marian", sizes, stored, pads, spelling),
        generation=rules,
    )


def weights_file(folder: Path) -> Path:
    """Return the file of weights in a folder; CheckpointError where there is none."""
    for name in WEIGHT_FILES:
        if (folder / name).is_file():
            return folder / name
    raise CheckpointError(
        f"{short(folder.resolve().name)} holds no weights: it needs "
        f"{' or '.join(WEIGHT_FILES)}."
    )


def _check(config: Mapping[str, Any]) -> None:
    """Refuse what other programs than Marian made, and Marian's older kinds."""
    kind = config.get("model_type")
    if kind != "marian":
        raise CheckpointError(
            f"{CONFIG} is of a model of type “{short(str(kind))}”: of transformers' "
            "models only Marian is read."
        )
    other = [k for k, value in _REFUSED.items() if config.get(k, value) is not value]
    if other:
        raise CheckpointError(
            f"{CONFIG}: {listed(other)} asks for another architecture than today's "
            "Marian, which is not read."
        )
    both = [
        config.get(f"{side}_attention_heads", 16) for side in ("encoder", "decoder")
    ]
    feeds = [config.get(f"{side}_ffn_dim", 4096) for side in ("encoder", "decoder")]
    if both[0] != both[1] or feeds[0] != feeds[1]:
        raise CheckpointError(
            f"{CONFIG}: encoder and decoder differ in heads or feed-forward width, "
            "which is not read."
        )


def _tensors(found: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor | None]:
    """Drop what a file repeats, and take out the table of positions if it has one."""
    made = dict(found)
    tables = [made.pop(name) for name in _TABLES if name in made]
    for name, original in _EQUAL.items():
        if original in made and name in made and _same(made[name], made[original]):
            del made[name]
    if "model.decoder.embed_tokens.weight" in made:
        own = "model.encoder.embed_tokens.weight" in made
        if own or "model.shared.weight" not in made:
            made.pop("model.shared.weight", None)
    output = made.get("lm_head.weight")
    if output is not None and _same(output, _target(made)):
        del made["lm_head.weight"]
    return made, tables[0] if tables else None


def _target(tensors: Mapping[str, Tensor]) -> Tensor | None:
    own = tensors.get("model.decoder.embed_tokens.weight")
    return tensors.get("model.shared.weight") if own is None else own


def _same(first: Tensor, second: Tensor | None) -> bool:
    return second is not None and torch.equal(first, second)


def _flat(key: str, tensor: Tensor) -> Tensor:
    """Make final_logits_bias [1, V] into a bias [V]."""
    flat = key == "output.bias" and tensor.dim() == 2 and len(tensor) == 1
    return tensor.flatten() if flat else tensor


def _model_config(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], told: Given
) -> tuple[ModelConfig, tuple[str, ...]]:
    """Return the sizes that config.json tells, and what it left to its defaults."""
    fields = choices("marian")
    for theirs, (ours, usual) in _FIELDS.items():
        fields[ours] = config.get(theirs, usual)
    fields["heads"] = config.get("encoder_attention_heads", 16)
    fields["activation"] = plain_field("activation", fields["activation"])
    named = {n: t for k, t in tensors.items() if (n := our_name(KEYS["marian"], k))}
    sizes = sizes_of(named)
    rows = config.get("vocab_size", 58101)
    fields["source_vocabulary"] = rows
    fields["target_vocabulary"] = config.get("decoder_vocab_size") or rows
    fields["shared_embedding"] = "source_embedding.weight" not in named
    fields["tied_output"] = "output.weight" not in named
    fields["output_bias"] = sizes["output_bias"]
    assumed = tuple(
        f"{ours} = {usual} ({CONFIG} does not say)"
        for theirs, (ours, usual) in _FIELDS.items()
        if theirs not in config and ours not in told.fields
    )
    return ModelConfig(**{**fields, **told.fields}), assumed


def _tokenizer(
    folder: Path,
    config: Mapping[str, Any],
    settings: Settings,
    sizes: ModelConfig,
    told: Given,
) -> Tokenizer:
    """Open the tokenizer; the settings of generation win over those of the model."""
    rows = (sizes.source_vocabulary, sizes.target_vocabulary)
    source, target = _sides(folder, rows, told)
    pad = config.get("pad_token_id", 58100)
    ids = {"pad": pad}
    for name, key, usual in (
        ("bos", "decoder_start_token_id", pad),
        ("eos", "eos_token_id", 0),
    ):
        own = settings.id(key, min(rows))
        ids[name] = config.get(key, usual) if own is None else own
    ids |= {k: v for k in ids if (v := getattr(told, k)) is not None}
    for name, id in ids.items():
        if type(id) is not int or not 0 <= id < min(rows):
            raise CheckpointError(
                f"{CONFIG}: {name} is {short(repr(id), 20)}, outside the vocabulary: "
                f"it must be from 0 to {min(rows) - 1:,}."
            )
    return Tokenizer(source, target, **ids)


def _sides(folder: Path, rows: tuple[int, int], told: Given) -> tuple[Side, Side]:
    """Open source.spm and target.spm with their ids; numbers where there are none."""
    if told.tokenizer is not None:
        return open_side(told.tokenizer[0], rows[0]), open_side(
            told.tokenizer[1], rows[1]
        )
    files = [folder / name for name in ("source.spm", "target.spm", "vocab.json")]
    if not any(file.exists() for file in files):
        return NumberSide(rows[0]), NumberSide(rows[1])
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise CheckpointError(
            f"{listed(missing)} is missing from {short(folder.resolve().name)}: copy "
            "it into the folder."
        )
    own = folder / "target_vocab.json"
    sides = (
        read_marian(files[0], files[2]),
        read_marian(files[1], own if own.is_file() else files[2]),
    )
    for side, count, file in zip(sides, rows, files, strict=False):
        if side.size != count:
            raise CheckpointError(
                f"the vocabulary of {file.name} has {side.size:,} tokens and the "
                f"model's embedding {count:,} rows: they belong to different models."
            )
    return sides
