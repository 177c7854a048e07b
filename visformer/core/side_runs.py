"""What is asked beside a decode: a batch, a shuffled source, the weights of a layer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import cast

from torch import Tensor, nn

from visformer.core.loaded import Loaded
from visformer.core.long_work import in_turn
from visformer.core.mask_rules import RULES, padded
from visformer.core.model import Layer, norm_length
from visformer.core.models import BatchRow, Model, WorkDone
from visformer.core.parts import Attention, FeedForward
from visformer.core.passes import run
from visformer.core.rows import host, source_pieces
from visformer.errors import InputError
from visformer.language import _
from visformer.values.changes.position_change import permutation
from visformer.values.facts import StackName
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.layer_weights import (
    AttentionWeights,
    FeedForwardWeights,
    LayerParameters,
    Linear,
    NormWeights,
)
from visformer.values.trace import Trace


def run_texts(
    model: Model, texts: Sequence[str]
) -> Generator[WorkDone, None, list[Trace]]:
    """Translate each text greedily, then run all as one padded batch: a Trace per text.

    Raises InputError if a text is empty.
    """
    if not texts or not all(text.strip() for text in texts):
        raise InputError("Each line of the batch needs a sentence.")

    def row(text: str) -> BatchRow:
        source, target = model.vocabulary.read(text), list[int]()
        if "cross" in model.facts.kinds:  # it writes
            # the last choice is never read: a row consumes the token before it
            target = [model.facts.bos, *model.search([source], 1)[0].best[:-1]]
        return BatchRow(source, target)

    return model.batch((yield from in_turn(texts, _("sentences"), row)))


def run_pairs(
    loaded: Loaded, rows: Sequence[BatchRow], changes: Sequence[Intervention] = ()
) -> list[Trace]:
    """Run padded rows in one pass, or one for each of their ``changes``."""
    tokenizer, rule = loaded.tokenizer, RULES[loaded.config.mask_rule]
    sources = padded([row.source.ids for row in rows], tokenizer.source_pad)
    targets = padded([row.target for row in rows], tokenizer.pad)
    lengths = [len(row.source.ids) for row in rows]

    def run_some(at: list[int], change: Intervention) -> list[Trace]:
        some = [lengths[i] for i in at] if rule.by_length else None
        return run(
            loaded,
            sources[at],
            targets[at],
            source_lengths=some,
            intervention=change,
        )

    return by_change(rows, changes, run_some)


def by_change(
    rows: Sequence[BatchRow],
    changes: Sequence[Intervention],
    run_some: Callable[[list[int], Intervention], list[Trace]],
) -> list[Trace]:
    """Return a Trace per row; rows of one change, by their indices, run together."""
    changes = changes or [NO_CHANGES] * len(rows)
    made: dict[int, Trace] = {}
    for change in dict.fromkeys(changes):
        at = [i for i, one in enumerate(changes) if one == change]
        made |= zip(at, run_some(at, change), strict=True)
    return [replace(made[i], source_text=row.source.text) for i, row in enumerate(rows)]


def run_shuffled(
    checkpoint: Loaded,
    source: str,
    target: Sequence[int],
    intervention: Intervention | None = None,
    seed: int = 0,
) -> tuple[tuple[int, ...], Trace, Trace]:
    """Run a source as it is and in another order, with the same ``target`` ids.

    Returns the order (the original place of each token of the shuffled source; the last
    token stays) and both Traces. Raises InputError for fewer than three tokens.
    """
    ids = [piece.id for piece in source_pieces(checkpoint, source)[0]]
    if len(ids) < 3:
        raise InputError("Shuffling needs a sentence of at least two words.")
    moved = permutation(len(ids) - 1, seed).tolist()
    order = (*moved, len(ids) - 1)
    # separately: positions that run along the batch would differ between the two
    baseline, shuffled = (
        run(checkpoint, [row], [target], intervention=intervention)[0]
        for row in (ids, [ids[at] for at in order])
    )
    return order, baseline, shuffled


def layer_parameters(
    checkpoint: Loaded, stack: StackName, layer: int
) -> LayerParameters:
    """Copy the weights of a layer.

    Raises InputError if the model has no such layer, or if its norms run over several
    tokens at once, so that a single row cannot be recomputed.
    """
    model = checkpoint.model
    layers = list(model.encoder if stack == "encoder" else model.decoder)
    if not 0 <= layer < len(layers):
        raise InputError(
            "The {stack} has no layer {layer}: its layers are 0 to {last}.",
            stack=_(stack),
            layer=layer,
            last=len(layers) - 1,
        )
    if length := norm_length(checkpoint.config, cross=stack == "decoder"):
        raise InputError(
            "The {stack}'s norms cover {n} tokens at once, so its layers cannot be "
            "shown token by token.",
            stack=_(stack),
            n=length,
        )
    chosen = layers[layer]
    return LayerParameters(
        model=checkpoint.facts,
        stack=stack,
        layer=layer,
        self_attention=_attention(chosen.self_attention, chosen.self_attention_norm),
        cross_attention=_attention(chosen.cross_attention, chosen.cross_attention_norm)
        if stack == "decoder"
        else None,
        feed_forward=_feed_forward(chosen),
    )


def _attention(attention: Attention, norm: nn.Module) -> AttentionWeights:
    return AttentionWeights(
        query=_linear(attention.query),
        key=_linear(attention.key),
        value=_linear(attention.value),
        output=_linear(attention.output),
        norm=_norm(norm),
    )


def _feed_forward(layer: Layer) -> FeedForwardWeights:
    part: FeedForward = layer.feed_forward
    return FeedForwardWeights(
        w1=_linear(part.w1),
        gate=None if part.gate is None else _linear(part.gate),
        w2=_linear(part.w2),
        norm=_norm(layer.feed_forward_norm),
    )


def _linear(linear: nn.Linear) -> Linear:
    # nn.Linear stores [out, in]
    bias = cast("Tensor | None", linear.bias)
    return Linear(host(linear.weight).T, None if bias is None else host(bias))


def _norm(norm: nn.Module) -> NormWeights:
    gamma, beta = cast("Tensor", norm.weight), getattr(norm, "bias", None)
    return NormWeights(host(gamma), None if beta is None else host(beta))
