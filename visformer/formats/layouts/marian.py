"""Marian (OPUS-MT): folders in the format of transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from visformer.arguments import wrong_words
from visformer.core.assembly import build_model
from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Transformer
from visformer.core.presets import BASE, Preset, matrices
from visformer.errors import CheckpointError, InputError
from visformer.files import listed, read_json, short
from visformer.formats.diagnoses import findings_of
from visformer.formats.given_options import (
    GivenOptions,
    Settings,
    config_value,
    read_generation,
)
from visformer.formats.hugging_face.folder_files import CONFIG, read_tensors
from visformer.formats.layout_spec import Files, LayoutSpec
from visformer.formats.names import Names, Spelling, in_our_names, layer_names, our_name
from visformer.formats.tutorial_files import sizes_of
from visformer.language import _
from visformer.tokenizers.sides import NumberSide
from visformer.tokenizers.sides import read_marian as read_side
from visformer.tokenizers.tokenizer import Tokenizer, TokenizerSide
from visformer.tokenizers.vocabularies import fitting, open_side
from visformer.values.config import Activation, ModelConfig
from visformer.values.questions import keyword

_REFUSED = {  # old keys -> the only supported value
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
_FIELDS = {  # their key -> our field, and transformers' default
    "d_model": ("d_model", 1024),
    "encoder_layers": ("encoder_layers", 12),
    "decoder_layers": ("decoder_layers", 12),
    "encoder_ffn_dim": ("feed_forward", 4096),
    "max_position_embeddings": ("max_positions", 1024),
    "activation_function": ("activation", "gelu"),
    "scale_embedding": ("embedding_scale", False),
}
_EQUAL = {  # duplicate tensors in old files -> the original
    "model.encoder.embed_tokens.weight": "model.shared.weight",
    "model.decoder.embed_tokens.weight": "model.shared.weight",
}
_TABLES = (
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
)


def _narrow(model: Transformer) -> None:
    """Initialise all matrices with normal(0, 0.02) and the biases with 0."""
    model.initialise()
    for parameter in matrices(model):
        nn.init.normal_(parameter, std=0.02)


PRESET = Preset(
    name="marian",
    fields={
        **BASE,
        "source_vocabulary": 32_000,
        "target_vocabulary": 32_000,
        "max_positions": 512,
        "positions": "halves",
        "position_form": "power",
        "activation": "silu",
        "output_bias": True,
        "mask_rule": "source_keys",
    },
    ids={"pad": -1, "bos": -1, "eos": 0},  # the pad comes last and starts the target
    draw=_narrow,
    ends_source=True,
    never_pads=True,
)
NAMES = Names(
    {
        "model.shared": "target_embedding",
        "model.encoder.embed_tokens": "source_embedding",
        "model.decoder.embed_tokens": "target_embedding",
        "lm_head": "output",
        **layer_names(
            "model.encoder.layers.{l}. | model.decoder.layers.{l}.",
            attention="self_attn | self_attn encoder_attn",
            projections="q_proj k_proj v_proj out_proj",
            feed="fc1 fc2",
            norms="self_attn_layer_norm final_layer_norm | "
            "self_attn_layer_norm encoder_attn_layer_norm final_layer_norm",
        ),
    },
    {"final_logits_bias": "output.bias"},
)


def read_marian(
    spec: LayoutSpec, files: Files, options: GivenOptions, device: torch.device
) -> Checkpoint:
    """Open a transformers folder; CheckpointError says what is wrong."""
    folder = _folder(files, options)
    config = read_json(folder / CONFIG)
    _check_age(config)
    weights, file = read_tensors(folder, files[0].reader)
    tensors, table = _tensors(weights.tensors)
    sizes, assumed = _model_config(spec, config, tensors, options)
    named = in_our_names(spec.names, "", tensors)
    settings = Settings(folder, config, CONFIG)
    tokenizer = _tokenizer(folder, config, settings, sizes, options)
    rules, more = read_generation(settings, tokenizer.eos, sizes.target_vocabulary)
    flat = {key: _flat(key, tensor) for key, tensor in named.tensors.items()}
    spelling = Spelling(spec.names, "", named.theirs)
    model = build_model(
        sizes,
        flat,
        device=device,
        name=short(file),
        spelling=spelling,
        table=table if table is None else table[: sizes.max_positions],
    )
    stored = flat if table is None else {**flat, "positions": table}
    pads = (tokenizer.pad, tokenizer.pad)
    return Checkpoint(
        name=short(folder.resolve().name),
        layout=spec.name,
        config=sizes,
        model=model,
        tokenizer=tokenizer,
        digest=weights.digest,
        assumed=(*assumed, *more),
        findings=findings_of(sizes, stored, pads, spelling),
        generation=rules,
    )


def _folder(files: Files, options: GivenOptions) -> Path:
    """Return the folder; CheckpointError or InputError if it cannot be opened."""
    path = files[0].path
    folder = path if path.is_dir() else path.parent
    if options.names:
        raise InputError(
            "{names} is only for weight files. Leave it out for a Marian folder.",
            names=keyword("names"),
        )
    if not (folder / CONFIG).is_file():
        raise CheckpointError(
            "{file} holds Marian weights from transformers without their {config}. "
            "Choose the folder that holds both.",
            file=files[0].name,
            config=CONFIG,
        )
    return folder


def is_read(config: Mapping[str, Any]) -> bool:
    """Whether a config describes a model that is read here, or refused as too old."""
    if config.get("model_type") != "marian":
        return False
    both = [
        config.get(f"{side}_attention_heads", 16) for side in ("encoder", "decoder")
    ]
    feeds = [config.get(f"{side}_ffn_dim", 4096) for side in ("encoder", "decoder")]
    activation = config_value("activation", config.get("activation_function", "gelu"))
    alike = both[0] == both[1] and feeds[0] == feeds[1]
    return bool(_older(config)) or (alike and activation in get_args(Activation))


def _older(config: Mapping[str, Any]) -> list[str]:
    """Return the settings of variants that Visformer computes differently."""
    return [k for k, value in _REFUSED.items() if config.get(k, value) is not value]


def _check_age(config: Mapping[str, Any]) -> None:
    if other := _older(config):
        raise CheckpointError(
            "{file}: {settings} asks for an older variant of Marian, which Visformer "
            "cannot open.",
            file=CONFIG,
            settings=listed(other),
        )


def _tensors(stored: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor | None]:
    """Drop duplicate tensors, and separate the position table if there is one."""
    tensors = dict(stored)
    tables = [tensors.pop(name) for name in _TABLES if name in tensors]
    for name, original in _EQUAL.items():
        if (
            original in tensors
            and name in tensors
            and _same(tensors[name], tensors[original])
        ):
            del tensors[name]
    if "model.decoder.embed_tokens.weight" in tensors:
        own = "model.encoder.embed_tokens.weight" in tensors
        if own or "model.shared.weight" not in tensors:
            tensors.pop("model.shared.weight", None)
    output = tensors.get("lm_head.weight")
    if output is not None and _same(output, _target(tensors)):
        del tensors["lm_head.weight"]
    return tensors, tables[0] if tables else None


def _target(tensors: Mapping[str, Tensor]) -> Tensor | None:
    own = tensors.get("model.decoder.embed_tokens.weight")
    return tensors.get("model.shared.weight") if own is None else own


def _same(first: Tensor, second: Tensor | None) -> bool:
    return second is not None and torch.equal(first, second)


def _flat(key: str, tensor: Tensor) -> Tensor:
    """Reshape final_logits_bias [1, V] to a bias [V]."""
    flat = key == "output.bias" and tensor.dim() == 2 and len(tensor) == 1
    return tensor.flatten() if flat else tensor


def _model_config(
    spec: LayoutSpec,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    options: GivenOptions,
) -> tuple[ModelConfig, tuple[str, ...]]:
    """Return the model's config, and the fields left to their defaults."""
    fields = spec.choices
    for theirs, (ours, usual) in _FIELDS.items():
        fields[ours] = config.get(theirs, usual)
    fields["heads"] = config.get("encoder_attention_heads", 16)
    fields["activation"] = config_value("activation", fields["activation"])
    named = {n: t for k, t in tensors.items() if (n := our_name(spec.names, k))}
    sizes = sizes_of(named)
    rows = config.get("vocab_size", 58101)
    fields["source_vocabulary"] = rows
    fields["target_vocabulary"] = config.get("decoder_vocab_size") or rows
    fields["shared_embedding"] = "source_embedding.weight" not in named
    fields["tied_output"] = "output.weight" not in named
    fields["output_bias"] = sizes["output_bias"]
    assumed = tuple(
        _("{name} = {value} ({file} does not say)", name=ours, value=usual, file=CONFIG)
        for theirs, (ours, usual) in _FIELDS.items()
        if theirs not in config and ours not in options.fields
    )
    return ModelConfig(**{**fields, **options.fields}), assumed


def _tokenizer(
    folder: Path,
    config: Mapping[str, Any],
    settings: Settings,
    sizes: ModelConfig,
    options: GivenOptions,
) -> Tokenizer:
    """Open the tokenizer; generation settings override those of the model."""
    rows = (sizes.source_vocabulary, sizes.target_vocabulary)
    source, target = _sides(folder, rows, options)
    pad = config.get("pad_token_id", 58100)
    ids = {"pad": pad}
    for name, key, usual in (
        ("bos", "decoder_start_token_id", pad),
        ("eos", "eos_token_id", 0),
    ):
        own = settings.id(key, min(rows))
        ids[name] = config.get(key, usual) if own is None else own
    ids |= {k: v for k in ids if (v := getattr(options, k)) is not None}
    for name, id in ids.items():
        if type(id) is not int or not 0 <= id < min(rows):
            allowed = _(
                "an id of the vocabulary, from 0 to {high:,}", high=min(rows) - 1
            )
            raise CheckpointError(wrong_words(f"{CONFIG}: {name}", id, allowed))
    return Tokenizer(source, target, **ids)


def _sides(
    folder: Path, rows: tuple[int, int], options: GivenOptions
) -> tuple[TokenizerSide, TokenizerSide]:
    """Open source.spm and target.spm with their ids; numbers if they are missing."""
    if options.tokenizer is not None:
        return open_side(options.tokenizer[0], rows[0]), open_side(
            options.tokenizer[1], rows[1]
        )
    files = [folder / name for name in ("source.spm", "target.spm", "vocab.json")]
    if not any(file.exists() for file in files):
        return NumberSide(rows[0]), NumberSide(rows[1])
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise CheckpointError(
            "{folder} lacks {files}. Copy what is missing into the folder.",
            folder=short(folder.resolve().name),
            files=listed(missing),
        )
    own = folder / "target_vocab.json"
    source = read_side(files[0], files[2])
    target = read_side(files[1], own if own.is_file() else files[2])
    return (
        fitting(source, rows[0], files[0].name),
        fitting(target, rows[1], files[1].name),
    )


MARIAN = LayoutSpec(name="marian", preset=PRESET, names=NAMES, read=read_marian)
