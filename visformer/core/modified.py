"""Running a model under an Intervention: same weights, other masks or positions."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor

from visformer.core.assembly import build_model
from visformer.core.checkpoint import Checkpoint
from visformer.core.mask_rules import Masks
from visformer.core.model import LayerMasks
from visformer.values.arrays import Bools, read_only
from visformer.values.config import ModelConfig
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import Intervention
from visformer.values.modified_positions import change_table


def modified_checkpoint(
    checkpoint: Checkpoint, intervention: Intervention
) -> Checkpoint:
    """Return the checkpoint with the changed positions and mask value.

    The weights are shared, not copied. Where neither is changed it is the same object,
    so that an unchanged run is the model's to the last bit.
    """
    if intervention.masked_value is None and intervention.positions is None:
        return checkpoint
    model, config = checkpoint.model, checkpoint.config
    if intervention.masked_value is not None:
        config = dataclasses.replace(config, masked_value=intervention.masked_value)
    tensors = {name: p.detach() for name, p in model.named_parameters()}
    for name in ("source_positions", "target_positions"):
        if name in tensors:
            tensors[name] = _changed(tensors[name], intervention)
    changed = build_model(
        config,
        tensors,
        device=checkpoint.device,
        name=checkpoint.name,
        table=_changed(model.positions, intervention),
    )
    return dataclasses.replace(checkpoint, config=config, model=changed)


def _changed(table: Tensor, intervention: Intervention) -> Tensor:
    changed = change_table(table.float().cpu().numpy(), intervention.positions)
    return torch.from_numpy(changed).to(table.device)


class LayeredMasks(NamedTuple):
    """The masks of a pass: bool [B, Q, K] of every kind, or one a layer of it."""

    encoder: LayerMasks
    decoder: LayerMasks
    cross: LayerMasks


def modified_masks(
    intervention: Intervention, config: ModelConfig, original: Masks, opened: Tensor
) -> LayeredMasks:
    """Return the model's own masks, bool [B, Q, K], as an intervention changes them.

    ``opened`` is the decoder's mask without its causal part.
    """
    free = original._replace(decoder=opened)
    return LayeredMasks(
        *(
            layer_masks(intervention, kind, layers, mask, other)
            for kind, layers, mask, other in zip(
                KINDS,
                (config.encoder_layers, config.decoder_layers, config.decoder_layers),
                original,
                free,
                strict=True,
            )
        )
    )


def layer_masks(
    intervention: Intervention,
    kind: Kind,
    layers: int,
    original: Tensor,
    opened: Tensor,
) -> LayerMasks:
    """Return a kind's masks as changed: one tensor, or one a layer where they differ.

    ``original`` is bool [B, Q, K]; ``opened`` the same without its causal part.
    """
    if not intervention.masks:
        return original
    before, free = original.cpu().numpy(), opened.cpu().numpy()
    count = layers if intervention.by_layer(kind) else 1
    masks = [
        torch.from_numpy(intervention.mask(kind, layer, before, free)).to(
            original.device
        )
        for layer in range(count)
    ]
    return masks if intervention.by_layer(kind) else masks[0]


def host_mask(masks: LayerMasks, row: int) -> Bools:
    """Return one sentence's mask, bool [Q, K], or [L, Q, K] where layers differ."""
    if isinstance(masks, Tensor):
        return read_only(masks[row].cpu().numpy())
    return read_only(torch.stack([mask[row] for mask in masks]).cpu().numpy())
