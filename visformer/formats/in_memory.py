"""Models that are no files: a module of torch, or a state dict."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from visformer.files import short
from visformer.formats.module_settings import modules, settings_of, tensors_of
from visformer.formats.weight_file import Weights, checked_state, options_of
from visformer.tokenizers.vocabularies import vocabularies_in


def name_in_memory(source: nn.Module | Mapping[str, Any]) -> Path:
    """Return what stands for the name of a file."""
    if isinstance(source, nn.Module):
        return Path(short(type(source).__name__))
    return Path("state_dict")


def weights_in_memory(
    source: nn.Module | Mapping[str, Any], wanted: str = ""
) -> Weights:
    """Copy a model's tensors, so that training on changes nothing that is shown.

    Raises CheckpointError if there are none, or if one cannot be shown.
    """
    options: Mapping[str, Any]
    vocabularies: Mapping[str, Mapping[str, int]] = {}
    if isinstance(source, nn.Module):
        tree = list(modules(source, _look))
        tables = {k: t for k, t in tensors_of(tree).items() if torch.is_tensor(t)}
        value: Mapping[str, Any] = {**tables, **source.state_dict()}
        options = settings_of(tree)
    else:
        value, options = source, options_of(source)
        vocabularies = vocabularies_in(source)
    name = str(name_in_memory(source))
    state = checked_state(value, name, anywhere=True, wanted=wanted)
    tensors = {
        key: tensor.to("cpu", copy=True).contiguous()
        for key, tensor in state.tensors.items()
    }
    digest = hashlib.sha256()
    for key, tensor in tensors.items():
        digest.update(f"{key} {tensor.dtype} {list(tensor.shape)} ".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    made = digest.hexdigest()
    return Weights(tensors, made, options, vocabularies, state.name, state.others)


def _look(value: Any) -> tuple[str, Mapping[str, Any]] | None:
    if not isinstance(value, nn.Module):
        return None
    return type(value).__name__, vars(value)
