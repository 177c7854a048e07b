"""Dive into Deep Learning, tutorial 001: two files, masks from valid lengths."""

import re
from collections.abc import Mapping, Sequence

from torch import Tensor

from visformer.core.presets import TUTORIAL, Preset, as_constructed
from visformer.errors import CheckpointError
from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.names import Names, Spelling, layer_names
from visformer.formats.tutorials import read_tutorial
from visformer.language import N_
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
            "encoder.blks.block{l}. | decoder.blks.block{l}.",
            attention="attention | attention1 attention2",
            projections="W_q W_k W_v W_o",
            feed="ffn.dense1 ffn.dense2",
            norms="addnorm1.ln addnorm2.ln | addnorm1.ln addnorm2.ln addnorm3.ln",
        ),
    }
)
FINDINGS = (
    Finding(
        "001-4",
        N_("Positions"),
        N_(
            "Positions restart at 0 at each prediction step, so step-by-step results "
            "differ from the teacher-forced pass after step 0."
        ),
        N_("Add row t of the table at step t."),
    ),
    Finding(
        "001-5",
        N_("Decoder"),
        N_(
            "The decoder is causal only in training mode, so in eval() a whole target "
            "is read in both directions."
        ),
        N_("Use a causal mask whenever T > 1."),
    ),
    Finding(
        "001-9",
        N_("Masks"),
        N_(
            "Target padding is never masked, which matters for pads inside or before a "
            "target."
        ),
        N_("Make a key mask from the ids."),
    ),
    Finding(
        "001-6",
        N_("Training"),
        N_(
            "Valid lengths start at 1 even if the cache is not empty, so a new token "
            "does not see itself."
        ),
        N_("Count the lengths from the length of the cache."),
    ),
    Finding(
        "001-7",
        N_("Cache"),
        N_(
            "The cache stores each block's input instead of its keys and values, so "
            "every step projects them again, and a reused state still contains the old "
            "target."
        ),
        N_("Cache keys and values, and start each pass with a fresh state."),
    ),
)
_READS = re.compile(r"attention\.(query|key|value)\.weight$")


def halves(names: Sequence[str]) -> dict[str, str]:
    """Map the prefixes of encoder and decoder in a file to the usual ones.

    The tutorial has no class for the whole model, so every program names them
    differently. Empty if the file has the usual prefixes or no such parts.
    """
    usual = {prefix: _usual_prefix(names, prefix) for prefix in _before_blocks(names)}
    alone = set(usual) == {""}  # one half, saved separately
    both = len(usual) == 2 and len(set(usual.values())) == 2
    if not alone and not both:
        return {}
    outer = {theirs.removesuffix(ours) for theirs, ours in usual.items()}
    as_usual = len(outer) == 1 and "" not in usual  # inside one larger model, or none
    return {} if as_usual else usual


def _before_blocks(names: Sequence[str]) -> list[str]:
    """Return the distinct prefixes of the blocks."""
    parts = (name.partition("blks.block") for name in names)
    return list(dict.fromkeys(before for before, block, _after in parts if block))


def _usual_prefix(names: Sequence[str], prefix: str) -> str:
    """Return the usual prefix of the half under ``prefix``, judged by its tensors."""
    inside = [n.removeprefix(prefix) for n in names if n.startswith(prefix)]
    decoder = any("attention2." in n or n.startswith("dense.") for n in inside)
    return "decoder." if decoder else "encoder."


def check_attention(
    tensors: Mapping[str, Tensor], width: int, file: str, spelling: Spelling
) -> None:
    """Raise CheckpointError unless key, query and value sizes equal the width.

    All attention in the tutorial reads vectors of d_model features through the same
    three sizes, so its own code fails with any others.
    """
    for key, tensor in tensors.items():
        reads = _READS.search(key)
        if reads and tensor.dim() == 2 and tensor.shape[1] != width == len(tensor):
            raise CheckpointError(
                "{file}: {tensor} reads {size} numbers per token ({name}_size), but "
                "the model's width is {width}. Build it with {name}_size = {width}.",
                file=file,
                tensor=spelling(key),
                size=tensor.shape[1],
                name=reads[1],
                width=width,
            )


D2L = LayoutSpec(
    name="d2l",
    title=N_("d2l (tutorial 001): masks from valid lengths, two separate halves"),
    preset=PRESET,
    names=NAMES,
    read=read_tutorial,
    findings=FINDINGS,
    ends_source=True,
    pad_words=N_(
        "The token that fills up the shorter sentences of a batch; d2l masks by length."
    ),
    halves=halves,
    check=check_attention,
)
