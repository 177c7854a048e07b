"""Dive into Deep Learning, tutorial 001: two files, valid lengths for masks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch import Tensor

from visformer.core.presets import TUTORIAL, Preset, as_constructed
from visformer.errors import CheckpointError
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.names import Names, Spelling, layer_names
from visformer.formats.tutorials import read_tutorial
from visformer.values.finding import Finding

PRESET = Preset(
    name="d2l",
    fields={
        **TUTORIAL,
        "source_vocabulary": 200,
        "target_vocabulary": 200,
        "d_model": 32,
        "heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "feed_forward": 64,
        "max_positions": 1000,
        "position_form": "power",
        "position_axis": "restart",
        "encoder_bias": "none",
        "decoder_bias": "none",
        "mask_rule": "lengths",
        "masked_value": -1e6,
    },
    ids={"pad": 1, "bos": 2, "eos": 3},
    draw=as_constructed,
)
NAMES = Names(
    {
        "encoder.embedding": "source_embedding",
        "decoder.embedding": "target_embedding",
        "decoder.dense": "output",
        **layer_names(
            "encoder",
            "encoder.blks.block{l}.",
            attention="attention",
            projections="W_q W_k W_v W_o",
            feed="ffn.dense1 ffn.dense2",
            norms="addnorm1.ln addnorm2.ln",
        ),
        **layer_names(
            "decoder",
            "decoder.blks.block{l}.",
            attention="attention1 attention2",
            projections="W_q W_k W_v W_o",
            feed="ffn.dense1 ffn.dense2",
            norms="addnorm1.ln addnorm2.ln addnorm3.ln",
        ),
    }
)
FINDINGS = (
    Finding(
        "001-4",
        "Positions",
        "they restart at 0 at each step of prediction",
        "so that step by step differs from the teacher-forced pass after step 0",
        "add row t of the table at step t",
    ),
    Finding(
        "001-5",
        "Decoder",
        "it is causal in training mode only",
        "so that a whole target in eval() is read in both directions",
        "use a causal mask whenever T > 1",
    ),
    Finding(
        "001-9",
        "Masks",
        "target padding is never masked",
        "which shows with pads inside or in front of a target",
        "make a key mask from the ids",
    ),
    Finding(
        "001-6",
        "Training",
        "lengths start at 1 even where the cache is not empty",
        "so that a new token does not see itself",
        "let lengths count from the cache's length on",
    ),
    Finding(
        "001-7",
        "Cache",
        "it keeps each block's input, before the key and value projections",
        "so that both are projected again at each step, and a state used twice "
        "carries the old target along",
        "keep keys and values, and begin each pass with a fresh state",
    ),
)
_READS = re.compile(r"attention\.(query|key|value)\.weight$")


def halves(names: Sequence[str]) -> dict[str, str]:
    """Return what encoder and decoder stand under -> the prefix they should have.

    Nothing joins the two in the tutorial, so that a program names them as it likes.
    Empty where a file has the usual prefixes, or no such parts.
    """
    usual = {prefix: _usual_prefix(names, prefix) for prefix in _before_blocks(names)}
    alone = set(usual) == {""}  # one of the two, saved by itself
    both = len(usual) == 2 and len(set(usual.values())) == 2
    if not alone and not both:
        return {}
    outer = {theirs.removesuffix(ours) for theirs, ours in usual.items()}
    as_usual = len(outer) == 1 and "" not in usual  # within one larger model, or none
    return {} if as_usual else usual


def _before_blocks(names: Sequence[str]) -> list[str]:
    """Return what stands before the blocks, each once."""
    parts = (name.partition("blks.block") for name in names)
    return list(dict.fromkeys(before for before, block, _ in parts if block))


def _usual_prefix(names: Sequence[str], prefix: str) -> str:
    """Return the prefix of the half that stands under ``prefix``, by what it holds."""
    inside = [n.removeprefix(prefix) for n in names if n.startswith(prefix)]
    decoder = any("attention2." in n or n.startswith("dense.") for n in inside)
    return "decoder." if decoder else "encoder."


def check_attention(
    tensors: Mapping[str, Tensor], width: int, file: str, spelling: Spelling
) -> None:
    """Refuse separate key, query and value sizes where they are not the width.

    Every attention of the tutorial reads the residual stream, or the encoder's output
    through the same three sizes: its own code fails with any others.
    """
    for key, tensor in tensors.items():
        reads = _READS.search(key)
        if reads and tensor.dim() == 2 and tensor.shape[1] != width == len(tensor):
            raise CheckpointError(
                f"{file}: {spelling(key)} reads {tensor.shape[1]} numbers a token "
                f"({reads[1]}_size) and the model has {width}: its own program cannot "
                f"run it either. Build it with {reads[1]}_size = {width}."
            )


D2L = LayoutSpec(
    name="d2l",
    title="d2l (tutorial 001): valid lengths for masks, encoder and decoder apart",
    preset=PRESET,
    names=NAMES,
    read=read_tutorial,
    findings=FINDINGS,
    ends_source=True,
    pad_words=("It fills up the shorter sentences of a batch; d2l masks by length."),
    halves=halves,
    check=check_attention,
)
