"""The programs that a decoding step is compared with, using the same weights."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch

from visformer import paths
from visformer.core.checkpoint import Checkpoint
from visformer.formats.layouts.marian import MARIAN
from visformer.formats.names import their_name
from visformer.language import _


class MissingPeer(Exception):
    """A peer is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(_("needs {package}: pip install '.[bench]'", package=package))


def transformers_marian(checkpoint: Checkpoint) -> Any:
    """Return transformers' model with the same weights and eager attention."""
    try:
        import transformers
    except ImportError:
        raise MissingPeer("transformers") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=config.target_vocabulary,
            d_model=config.d_model,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.feed_forward,
            decoder_ffn_dim=config.feed_forward,
            max_position_embeddings=config.max_positions,
            activation_function="swish",
            scale_embedding=config.embedding_scale,
            pad_token_id=tokenizer.pad,
            eos_token_id=tokenizer.eos,
            forced_eos_token_id=None,
            decoder_start_token_id=tokenizer.bos,
        )
    )
    names = MARIAN.names
    tensors: dict[str, torch.Tensor] = {
        their_name(names, name): tensor
        for name, tensor in checkpoint.model.named_parameters(remove_duplicate=False)
    }
    bias = tensors.pop("final_logits_bias")
    tensors["final_logits_bias"] = bias.view(1, -1)
    keys = model.load_state_dict(tensors, strict=False)
    absent = [name for name in keys.missing_keys if "embed_" not in name]
    if keys.unexpected_keys or absent:
        raise RuntimeError(_("the peer's weights differ: {keys}", keys=keys))
    model.set_attn_implementation("eager")
    return model.eval()


def generate(peer: Any, source: list[int], tokens: int) -> Any:
    """Let transformers decode n ``tokens`` greedily and return all attentions."""
    ids = torch.tensor([source])
    return peer.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        num_beams=1,
        do_sample=False,
        output_attentions=True,
        return_dict_in_generate=True,
    )


def ctranslate2_marian(checkpoint: Checkpoint, folder: Path) -> Any:
    """Return CTranslate2's translator with the same weights, on one thread.

    Its converter reads a folder that transformers wrote; both are put in ``folder``.
    """
    try:
        import ctranslate2
    except ImportError:
        raise MissingPeer("ctranslate2") from None
    transformers_marian(checkpoint).save_pretrained(folder)
    # the converter requires a tokenizer, but only reads the vocabulary
    pieces = next(paths.checkpoint().glob("*.model"))
    for name in ("source.spm", "target.spm"):
        shutil.copy(pieces, folder / name)
    pad = checkpoint.tokenizer.pad
    tokens = {"</s>": 0, "<unk>": 1, "<pad>": pad}
    tokens |= {token_of(id): id for id in range(2, pad)}
    (folder / "vocab.json").write_text(json.dumps(tokens))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a package that only normalises text
        converter = ctranslate2.converters.TransformersConverter(str(folder))
        converted = converter.convert(str(folder / "ctranslate2"))
    return ctranslate2.Translator(
        converted, compute_type="float32", inter_threads=1, intra_threads=1
    )


def token_of(id: int) -> str:
    """Return the name of an ordinary token."""
    return f"t{id}"


def translate(peer: Any, source: list[int], tokens: int) -> list[int]:
    """Let CTranslate2 decode n ``tokens`` greedily and return one attention."""
    results = peer.translate_batch(
        [[token_of(id) for id in source]],
        beam_size=1,
        max_decoding_length=tokens,
        min_decoding_length=tokens,
        return_attention=True,
    )
    return [int(token[1:]) for token in results[0].hypotheses[0]]
