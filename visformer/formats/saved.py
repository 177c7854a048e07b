"""What a training script saved around its weights: wrappers, prefixes, options.

The objects come from PyTorch's restricted unpickler: tensors, numbers, texts, lists,
dicts and ``argparse.Namespace``; nothing here executes code from the file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch import Size, Tensor

from visformer.text import clean
from visformer.tokenizers.vocabularies import is_vocabulary

_WRAPPERS = ("model_state_dict", "state_dict", "model")  # keys that hold the weights
_PREFIXES = ("module.", "_orig_mod.")  # of DataParallel and torch.compile
_HALVES = ("encoder", "decoder")
_COUNTERS = {"n_averaged"}  # of torch.optim.swa_utils.AveragedModel
_FEWEST = 8  # tensors of one of several sets in one dict, at least
_DEPTH = 4  # dicts inside dicts whose options are read
_LOOKED_INTO = 100  # dicts searched for weights: stays below Python's recursion limit


class SavedState(NamedTuple):
    """The tensors of a state dict, and where there are others like it."""

    tensors: dict[str, Tensor]
    name: str = ""  # under which it is saved
    others: tuple[str, ...] = ()  # names of complete sets of the same tensors


def state_of(loaded: object, wanted: str = "") -> SavedState:
    """Return the state dict inside what was saved; no tensors if there is none.

    Of several sets of the same tensors, such as averages beside them, it is the one
    that is ``wanted``, else the usual one. A prefix of one of PyTorch's wrappers, if
    all names have it, is removed.
    """
    chosen = _tensors_in(_weights_in(loaded, set()))
    shapes = _shapes(chosen)
    named = ((name, _tensors_in(part)) for name, part in _parts(loaded, "", 0))
    sets = {name: part for name, part in named if shapes and _shapes(part) == shapes}
    usual = next((name for name in sets if _same(sets[name], chosen)), "")
    name = wanted if wanted in sets else usual
    made = sets.get(name, chosen)
    others = tuple(other for other in sets if not _same(sets[other], made))
    return SavedState(made, name, others)


def _tensors_in(state: Mapping[Any, Any]) -> dict[str, Tensor]:
    tensors = [(k, v) for k, v in state.items() if isinstance(v, Tensor)]
    return dict(_without_prefixes([t for t in tensors if t[0] not in _COUNTERS]))


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(one[key] is other[key] for key in one)


def _parts(
    saved: object, name: str, depth: int
) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield what holds tensors, each with the keys that lead to it."""
    if not isinstance(saved, Mapping) or depth > _DEPTH or "param_groups" in saved:
        return
    for within, part in _sets_in(saved).items():
        yield ".".join(filter(None, (name, within))), part
    for key, value in saved.items():
        if isinstance(key, str):
            yield from _parts(value, f"{name}.{key}" if name else key, depth + 1)


def _sets_in(saved: Mapping[Any, Any]) -> dict[str, Mapping[Any, Any]]:
    """Return the sets of weights in one dict: it, or those under the same prefixes.

    Averages stay beside their model as ``ema.…`` beside ``model.…``. A dict without
    tensors has none.
    """
    tensors = {k: t for k, t in saved.items() if isinstance(t, Tensor)}
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        first, _dot, rest = str(key).partition(".")
        groups.setdefault(first, {})[rest] = tensor
    sets = {name: _tensors_in(part) for name, part in groups.items()}
    shapes = {name: _shapes(part) for name, part in sets.items()}
    alike = max(shapes.values(), key=len, default={})
    same = {name: part for name, part in sets.items() if shapes[name] == alike}
    if len(same) > 1 and len(alike) >= _FEWEST and not same.keys() & {*_HALVES}:
        return {**same}
    return {"": saved} if tensors else {}


def _shapes(part: Mapping[str, Tensor]) -> dict[str, Size]:
    return {key: tensor.shape for key, tensor in part.items()}


def options_of(loaded: object) -> dict[str, Any]:
    """Return the plain values that were saved beside the weights, outer ones first."""
    options: dict[str, Any] = {}
    level = {id(loaded): loaded}
    seen: set[int] = set()
    for _ in range(_DEPTH):
        seen |= level.keys()
        inner: dict[int, object] = {}
        for key, value in (pair for part in level.values() for pair in _items(part)):
            if type(value) in (bool, int, float, str):
                options.setdefault(key, value)
            elif id(value) not in seen and _may_hold_options(value):
                inner[id(value)] = value
        level = inner
    return options


def _items(part: object) -> Iterator[tuple[str, Any]]:
    if isinstance(part, argparse.Namespace):
        part = vars(part)
    if isinstance(part, Mapping):
        yield from ((key, value) for key, value in part.items() if type(key) is str)


def _may_hold_options(part: object) -> bool:
    """Leave out weights, vocabularies, and an optimizer's state, which has options."""
    inside = dict(_items(part))
    tensors = any(isinstance(value, Tensor) for value in inside.values())
    vocabulary = isinstance(part, Mapping) and is_vocabulary(part)
    return not tensors and not vocabulary and "param_groups" not in inside


def _weights_in(saved: object, outer: set[int]) -> Mapping[Any, Any]:
    """Return the dict of weights: under a usual key, this one, or the largest inside.

    ``outer`` are the ids of the dicts searched before: none is searched twice.
    """
    if isinstance(saved, list | tuple):  # of a state dict and others beside it
        parts = [part for part in saved[:_LOOKED_INTO] if isinstance(part, Mapping)]
        saved = {str(at): part for at, part in enumerate(parts)}
    if not isinstance(saved, Mapping) or id(saved) in outer or "param_groups" in saved:
        return {}
    if len(outer) > _LOOKED_INTO:
        return {}
    outer.add(id(saved))
    for key in _WRAPPERS:
        if inner := _weights_in(saved.get(key), outer):
            return inner
    if sets := _sets_in(saved):
        return next(
            (sets[key] for key in _WRAPPERS if key in sets), next(iter(sets.values()))
        )
    inner = {key: _weights_in(value, outer) for key, value in saved.items()}
    if halves := _joined(inner):
        return halves
    return max(inner.values(), key=len, default={})


def _joined(inner: Mapping[Any, Mapping[Any, Any]]) -> dict[str, Any]:
    """Join an encoder's and a decoder's state dicts, saved side by side."""
    parts = [inner.get(h) or inner.get(f"{h}_state_dict") for h in _HALVES]
    if not all(parts):
        return {}
    return {
        f"{half}.{name}": tensor
        for half, part in zip(_HALVES, parts, strict=True)
        for name, tensor in (part or {}).items()
    }


def _without_prefixes(
    tensors: list[tuple[Any, Tensor]],
) -> Iterator[tuple[str, Tensor]]:
    names = [clean(str(key)) for key, _ in tensors]
    while shared := [p for p in _PREFIXES if all(n.startswith(p) for n in names)]:
        if not names:
            break
        names = [name.removeprefix(shared[0]) for name in names]
    return zip(names, (tensor for _, tensor in tensors), strict=True)
