"""Running a model with an Intervention: the weights stay the same."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from visformer.arguments import wrong_type
from visformer.core.loaded import Loaded
from visformer.core.mask_rules import Masks
from visformer.core.model import LayerMasks
from visformer.core.parts import Attention
from visformer.errors import InputError
from visformer.language import _
from visformer.values.arrays import Bools, read_only
from visformer.values.changes.head_changes import HeadMean
from visformer.values.changes.position_change import change_table
from visformer.values.changes.run_change import RunChange
from visformer.values.config import ModelConfig
from visformer.values.facts import KINDS, STACKS, Kind
from visformer.values.intervention import NO_CHANGES, Intervention, parse


def as_intervention(given: Intervention | str | None) -> Intervention:
    """Return an intervention, also from its text form or from one change.

    What it takes of other runs is read from their files. Raises InputError for text
    that is no change and for runs that cannot be read, TypeError for anything else.
    """
    if given is None or isinstance(given, Intervention):
        return (given or NO_CHANGES).filled()
    if isinstance(given, str):
        return parse([given]).filled()
    if isinstance(given, RunChange):
        return Intervention(given).filled()
    allowed = _("an Intervention, or text such as “causal off”")
    raise wrong_type("intervention", given, allowed)


def check_padding(change: Intervention, *, padded: bool) -> None:
    """Raise InputError for a mean over rows of which some are padding."""
    mean = change.one(HeadMean)
    if padded and mean is not None:
        raise InputError(
            "“{change}” is over the tokens of one sentence: run sentences of "
            "different lengths one by one.",
            change=mean,
        )


def modified_checkpoint(checkpoint: Loaded, intervention: Intervention) -> Loaded:
    """Return the checkpoint whose modules ask for the changes at every point.

    Weights and hooks are shared, not copied. If only masks are modified, which are
    given to each pass, it is the same object, so that the run is the model's own to the
    last bit.
    """
    if intervention.masks == intervention:
        return checkpoint
    config, facts = checkpoint.config, checkpoint.facts
    model = _twin(checkpoint.model)
    if intervention.masked_value is not None:
        config = replace(config, masked_value=intervention.masked_value)
    for name, stack in zip(STACKS, (model.encoder, model.decoder), strict=True):
        for index, layer in enumerate(stack):
            layer.changes = intervention.at(name, index)
            kinds = {"self_attention": name, "cross_attention": "cross"}
            for part, module in layer.named_modules():
                if isinstance(module, Attention):
                    module.masked_value = config.masked_value
                    kind = kinds.get(part.partition(".")[0], name)
                    module.changes = intervention.at(kind, index)
    find = checkpoint.tokenizer.id_of
    model.config = config
    model.changes = Intervention(*(one.looked_up(find) for one in intervention))
    tables = {name: p for name, p in model._parameters.items() if p is not None}
    model._parameters = {
        name: nn.Parameter(_changed(table.detach(), intervention), table.requires_grad)
        for name, table in tables.items()
    }
    model._buffers = {"positions": _changed(model.positions, intervention)}
    return replace(checkpoint, config=config, model=model, digest=facts.digest)


Module = TypeVar("Module", bound=nn.Module)


def _twin(module: Module) -> Module:
    """Return a copy of modules that shares every tensor and hook but not settings."""
    twin = object.__new__(type(module))
    vars(twin).update(vars(module))  # copy.copy refuses a parametrized module
    twin._modules = {
        name: None if child is None else _twin(child)
        for name, child in module._modules.items()
    }
    return twin


def _changed(table: Tensor, intervention: Intervention) -> Tensor:
    changed = change_table(table.float().cpu().numpy(), intervention.positions)
    return torch.from_numpy(changed).to(table.device)


class LayeredMasks(NamedTuple):
    """The masks of a pass: bool [B, Q, K] for each kind, or one per layer."""

    encoder: LayerMasks
    decoder: LayerMasks
    cross: LayerMasks


def modified_masks(
    intervention: Intervention, config: ModelConfig, original: Masks, opened: Tensor
) -> LayeredMasks:
    """Return the model's masks, bool [B, Q, K], modified by an intervention.

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
    """Return a kind's modified masks: one tensor, or one per layer if they differ.

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
    """Return one sentence's mask, bool [Q, K], or [L, Q, K] if layers differ."""
    if isinstance(masks, Tensor):
        return read_only(masks[row].cpu().numpy())
    return read_only(torch.stack([mask[row] for mask in masks]).cpu().numpy())
