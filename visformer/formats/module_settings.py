"""What a module says besides its weights: heads, norms, activation, padding.

A module is seen through its attributes, so that one in memory and the stand-in of one
that was saved whole are read in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

MOST_MODULES = 20_000
DEEPEST = 60
_HEADS = ("num_heads", "n_heads", "nhead", "n_head", "heads", "h", "nheads", "head")
_ACTIVATIONS = {"ReLU": "relu", "GELU": "gelu", "SiLU": "silu", "Tanh": "tanh"}
_FUNCTIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "tanh": "tanh"}
_FLAGS = {1: "relu", 2: "gelu"}  # torch's own activation_relu_or_gelu


class SeenModule(NamedTuple):
    """One module of a tree."""

    prefix: str  # of its tensors' names: "" or "encoder.layers.0."
    kind: str  # its class's name
    attributes: Mapping[str, Any]


LookInside = Callable[[Any], tuple[str, Mapping[str, Any]] | None]  # None: no module


def modules(root: Any, look: LookInside) -> Iterator[SeenModule]:
    """Yield a module and those inside it; ValueError for a tree without end."""
    waiting: list[tuple[str, int, Any]] = [("", 0, root)]
    count = 0
    while waiting:
        prefix, depth, module = waiting.pop()
        seen = look(module)
        if seen is None:
            continue
        count += 1
        if count > MOST_MODULES or depth > DEEPEST:
            raise ValueError("too many modules")
        yield SeenModule(prefix, *seen)
        children = seen[1].get("_modules")
        if isinstance(children, Mapping):
            for name, child in reversed([*children.items()]):
                waiting.append((f"{prefix}{name}.", depth + 1, child))


def tensors_of(tree: list[SeenModule]) -> dict[str, Any]:
    """Return a tree's parameters and buffers by name, as ``state_dict`` would.

    A table of positions counts even if ``state_dict`` would leave it out.
    """
    made: dict[str, Any] = {}
    for module in tree:
        dropped = module.attributes.get("_non_persistent_buffers_set")
        for kind in ("_parameters", "_buffers"):
            inside = module.attributes.get(kind)
            for name, tensor in inside.items() if isinstance(inside, Mapping) else ():
                if tensor is None or not isinstance(name, str):
                    continue
                hidden = isinstance(dropped, set | list | frozenset) and name in dropped
                if not hidden or name.lower().startswith(("pe", "pos")):
                    made[f"{module.prefix}{name}"] = tensor
    return made


def settings_of(tree: list[SeenModule]) -> dict[str, Any]:
    """Return the plain values that a tree says about itself, under ``load``'s names.

    What two parts say differently is left out.
    """
    said: dict[str, Any] = {}
    for module in tree[:1]:
        for name, value in module.attributes.items():
            if isinstance(name, str) and name[:1] != "_" and _plain(value):
                said[name] = value
    found: dict[str, set[Any]] = {}
    for module in tree:
        for name, value in _told(module):
            found.setdefault(name, set()).add(value)
    for name, values in found.items():
        said.pop(name, None)
        if len(values) == 1:
            said[name] = next(iter(values))
    return said


def _plain(value: object) -> bool:
    return type(value) in (bool, int, float, str)


def _told(module: SeenModule) -> Iterator[tuple[str, Any]]:
    """Yield what one module says about the whole model."""
    own, kind = module.attributes, module.kind
    for name in _HEADS:
        if type(own.get(name)) is int and own[name] > 0:
            yield "heads", own[name]
            break
    if kind in _ACTIVATIONS:
        yield "activation", _ACTIVATIONS[kind]
    if own.get("activation_relu_or_gelu") in (1, 2):
        yield "activation", _FLAGS[own["activation_relu_or_gelu"]]
    elif word := _FUNCTIONS.get(_name_of(own.get("activation"))):
        yield "activation", word
    if type(own.get("norm_first")) is bool:
        yield "norm_first", own["norm_first"]
    if "norm" in kind.lower() and type(own.get("eps")) is float:
        yield "norm_eps", own["eps"]
    if kind == "Embedding" and type(own.get("padding_idx")) is int:
        yield "pad", own["padding_idx"]


def _name_of(value: Any) -> str:
    """Return the last part of a function's name, also of a stand-in's."""
    name = getattr(value, "qualified", None) or getattr(value, "__name__", "")
    return name.rpartition(".")[2] if isinstance(name, str) else ""
