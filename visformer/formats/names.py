"""What a layout calls our model's parts, and how a file's tensors get our names.

``{l}`` stands for the number of a layer, which every file counts from 0. Entries name
modules; ``weight`` and ``bias`` (or their equivalents) follow. Single tensors outside
modules have entries with their full names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

_ATTENTIONS = ("self_attention", "cross_attention")
_PROJECTIONS = ("query", "key", "value", "output")
_FEED = ("feed_forward.w1", "feed_forward.w2", "feed_forward.gate")
_NUMBERED = re.compile(
    r"(.*?(?:layers\.|blks\.block))(0|[1-9]\d{0,2})(\..+)", re.DOTALL
)
NORMS_OF_STACKS = ("encoder.norm", "decoder.norm")  # after the last layers
_EVERYWHERE = {  # names of ours that every layout takes: a program may have added them
    *(f"{norm}.{leaf}" for norm in NORMS_OF_STACKS for leaf in ("weight", "bias")),
    *("positions", "source_positions", "target_positions"),
}
_LEAVES = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


@dataclass(frozen=True)
class Names:
    """The names of one layout: its modules and single tensors -> ours."""

    modules: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)
    leaves: tuple[str, str] = ("weight", "bias")  # of norms
    stored: Callable[[str], str] = str  # one of these names -> the name in a file


@dataclass(frozen=True)
class NamedTensors:
    """A file's tensors under our names, and what the file calls each of them."""

    tensors: dict[str, Tensor]
    theirs: dict[str, str]  # our name -> the file's; unknown ones keep their own
    assumed: tuple[str, ...] = ()  # a line for each name that was guessed


@dataclass(frozen=True)
class Spelling:
    """Translates our names of tensors to those that the file has or would have."""

    names: Names
    prefix: str
    theirs: Mapping[str, str]

    def __call__(self, name: str) -> str:
        """Return the file's name for a tensor that we call ``name``."""
        usual = self.prefix + their_name(self.names, name)
        return self.names.stored(self.theirs.get(name) or usual)


def layer_names(
    stack: str, prefix: str, *, attention: str, projections: str, feed: str, norms: str
) -> dict[str, str]:
    """Map the parts of a stack's layers: theirs, separated by blanks, in our order.

    ``prefix`` precedes each name, with ``{l}``; ``attention`` is self-attention and, in
    a decoder, cross-attention; ``feed`` the two matrices of the feed-forward layer, and
    its gate if it may have one.
    """
    kinds = _ATTENTIONS[: len(attention.split())]
    parts = {
        f"{module}.{name}": f"{kind}.{part}"
        for module, kind in zip(attention.split(), kinds, strict=True)
        for name, part in zip(projections.split(), _PROJECTIONS, strict=True)
    }
    parts |= dict(zip(feed.split(), _FEED, strict=False))
    ours = [f"{part}_norm" for part in (*kinds, "feed_forward")]
    parts |= dict(zip(norms.split(), ours, strict=True))
    return {
        f"{prefix}{theirs}": f"{stack}.layers.{{l}}.{part}"
        for theirs, part in parts.items()
    }


def our_name(names: Names, name: str) -> str | None:
    """Return what we call the tensor that a layout calls ``name``; None if unknown."""
    number, general = _numbered(name)
    module, _, leaf = general.rpartition(".")
    ours = names.tensors.get(general)
    if ours is None and module in names.modules and leaf in _LEAVES:
        ours = f"{names.modules[module]}.{_LEAVES[leaf]}"
        if leaf not in (names.leaves if "norm" in ours else ("weight", "bias")):
            return None
    if ours is None and name in _EVERYWHERE:
        return name
    return ours.replace("{l}", number) if ours else None


def their_name(names: Names, name: str) -> str:
    """Return what a layout calls the tensor that we call ``name``."""
    number, general = _numbered(name)
    for theirs, ours in names.tensors.items():
        if ours == general:
            return theirs
    module, _, leaf = general.rpartition(".")
    if "norm" in module:
        leaf = names.leaves[leaf == "bias"]
    for theirs, ours in names.modules.items():
        if ours == module:
            return f"{theirs}.{leaf}".replace("{l}", number)
    return name


def _numbered(name: str) -> tuple[str, str]:
    """Return the layer's number ("" if there is none) and the name for any layer."""
    match = _NUMBERED.fullmatch(name)
    return (match[2], f"{match[1]}{{l}}{match[3]}") if match else ("", name)


def known(names: Names, theirs: Iterable[str]) -> int:
    """Count the names that belong to a layout, except those that equal ours."""
    return sum(our_name(names, name) not in (None, name) for name in theirs)


def in_our_names(
    names: Names, prefix: str, tensors: Mapping[str, Tensor]
) -> NamedTensors:
    """Rename a file's tensors to ours; unknown ones become "?" + name.

    So do those outside ``prefix``.
    """
    named = NamedTensors({}, {})
    for name, tensor in tensors.items():
        ours = None
        if name.startswith(prefix):
            ours = our_name(names, name.removeprefix(prefix))
        if ours is None or ours in named.tensors:
            ours = f"?{name.removeprefix(prefix)}"
        named.tensors[ours], named.theirs[ours] = tensor, name
    return named
