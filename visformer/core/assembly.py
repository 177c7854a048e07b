"""Building a model from tensors, compared in full before memory is allocated."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from visformer.core.model import Transformer
from visformer.core.position_rules import fixed_table
from visformer.errors import MOST_CHARACTERS, CheckpointError
from visformer.files import available_memory, check_memory, listed
from visformer.language import N_, _
from visformer.values.config import ModelConfig


class MisfitError(CheckpointError):
    """Tensors do not make the model of a config: which are missing, surplus, wrong."""

    def __init__(
        self,
        opening: str,
        *,
        missing: Sequence[str],
        surplus: Sequence[str],
        wrong: Sequence[str],
        remedy: str = "",
    ) -> None:
        """Take the file's names, of the wrong ones with their shapes in words."""
        self.missing, self.surplus, self.wrong = missing, surplus, wrong
        faults = {
            N_("Missing: {tensors}."): missing,
            N_("Unexpected: {tensors}."): surplus,
            N_("Wrong shape: {tensors}."): wrong,
        }
        room = (130 - len(remedy)) // (sum(map(bool, faults.values())) or 1)
        width = max(24, room - 14) if remedy else 80
        sentences = [
            _(sentence, tensors=listed([*names], room=room, width=width))
            for sentence, names in faults.items()
            if names
        ]
        text = " ".join(filter(None, [opening, *sentences, remedy]))
        if (
            remedy and len(text) > MOST_CHARACTERS
        ):  # the names can be listed, the remedy not
            counts = _(
                "Missing: {missing:,} tensors. Unexpected: {surplus:,}.",
                missing=len(missing),
                surplus=len(surplus),
            )
            text = " ".join(filter(None, [opening, counts, remedy]))
        super().__init__(text)


def build_model(
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    *,
    device: torch.device,
    name: str,
    spelling: Callable[[str], str] = str,
    table: Tensor | None = None,
) -> Transformer:
    """Return a model with these tensors, float32, in eval mode, on ``device``.

    ``tensors`` are named like the model's own parameters, shared ones once;
    ``spelling`` gives the file's name for each. Missing, unexpected and mis-shaped ones
    are named in a CheckpointError, before allocation. ``table`` [P, D] are the file's
    own positions.
    """
    model = _outline(config)
    parameters = dict(model.named_parameters())
    _check_fit(parameters, tensors, name, spelling)
    numbers = sum(parameter.numel() for parameter in parameters.values())
    numbers += 4 * config.max_positions * config.d_model  # while it is computed
    check_memory(4 * numbers, name, _free(device))
    for key in parameters:
        module, _dot, leaf = key.rpartition(".")
        weight = tensors[key].to(device, torch.float32).contiguous()
        parameter = nn.Parameter(weight, requires_grad=False)
        setattr(model.get_submodule(module), leaf, parameter)
    if config.tied_output:  # replacing the parameters has untied them
        model.output.weight = model.target_embedding.weight
    if table is None:
        table = fixed_table(config)
    model.replace_positions(table)
    return model.eval()


def check_fit(
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    *,
    name: str,
    spelling: Callable[[str], str],
) -> None:
    """Raise the CheckpointError that ``build_model`` would raise, before building."""
    _check_fit(dict(_outline(config).named_parameters()), tensors, name, spelling)


def _outline(config: ModelConfig) -> Transformer:
    """Return a model whose parameters have names and shapes but no memory."""
    with torch.device("meta"), _Unfilled():
        learned = config.positions == "learned"  # parameters, so that their size counts
        brief = config if learned else dataclasses.replace(config, max_positions=1)
        model = Transformer(brief)
    model.config = config
    return model


class _Unfilled(TorchFunctionMode):
    """Skips the initialisation of parameters.

    ``normal_`` and ``arange`` on the meta device import a compiler: 800 modules, 1.6 s.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Skip initialisers, and run ``arange`` on the CPU."""
        kwargs = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return kwargs.get("tensor", *args[:1])
        if func is torch.arange:
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def _free(device: torch.device) -> int:
    """Return the free bytes of a device's memory."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_memory()


def _check_fit(
    parameters: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    name: str,
    spelling: Callable[[str], str],
) -> None:
    """Raise CheckpointError unless names, shapes and number formats fit the model."""
    missing = [key for key in parameters if key not in tensors]
    surplus = [key for key in tensors if key not in parameters]
    shared = [key for key in parameters if key in tensors]
    wrong = [key for key in shared if tensors[key].shape != parameters[key].shape]
    shapes = [
        _(
            "{tensor} is {found}, not {expected}",
            tensor=spelling(k),
            found=list(tensors[k].shape),
            expected=list(parameters[k].shape),
        )
        for k in wrong
    ]
    if missing or surplus or wrong:
        raise MisfitError(
            _("{file} does not fit its config.", file=name),
            missing=_spelt(missing, spelling),
            surplus=_spelt(surplus, spelling),
            wrong=shapes,
        )
    whole = [key for key in shared if not tensors[key].is_floating_point()]
    if whole:
        raise CheckpointError(
            "{file} holds weights that are not floating-point numbers: {tensors}. "
            "Save them as float32.",
            file=name,
            tensors=listed(_spelt(whole, spelling)),
        )


def _spelt(keys: Iterable[str], spelling: Callable[[str], str]) -> list[str]:
    """Return the file's names, each once: one of its tensors may be three of ours."""
    return list(dict.fromkeys(map(spelling, keys)))
