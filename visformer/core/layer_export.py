"""From modules to plain numbers: the weights of one layer."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Layer, norm_length
from visformer.core.parts import Attention, FeedForward
from visformer.core.rows import host
from visformer.errors import InputError
from visformer.language import N_, _
from visformer.values.facts import StackName
from visformer.values.layer_weights import (
    AttentionWeights,
    FeedForwardWeights,
    LayerParameters,
    Linear,
    NormWeights,
)

_NO_LAYER: dict[StackName, str] = {
    "encoder": N_("The encoder has no layer {layer}: its layers are 0 to {last}."),
    "decoder": N_("The decoder has no layer {layer}: its layers are 0 to {last}."),
}
_JOINT_NORMS: dict[StackName, str] = {
    "encoder": N_(
        "The encoder's norms cover {n} tokens at once, so its layers cannot be shown "
        "token by token."
    ),
    "decoder": N_(
        "The decoder's norms cover {n} tokens at once, so its layers cannot be shown "
        "token by token."
    ),
}


def layer_parameters(
    checkpoint: Checkpoint, stack: StackName, layer: int
) -> LayerParameters:
    """Copy the weights of a layer.

    Raises InputError if the model has no such layer, or if its norms run over several
    tokens at once, so that a single row cannot be recomputed.
    """
    model = checkpoint.model
    layers = list(model.encoder if stack == "encoder" else model.decoder)
    if not 0 <= layer < len(layers):
        raise InputError(_(_NO_LAYER[stack], layer=layer, last=len(layers) - 1))
    if length := norm_length(checkpoint.config, cross=stack == "decoder"):
        raise InputError(_(_JOINT_NORMS[stack], n=length))
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
