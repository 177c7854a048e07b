"""A layout's names of our model's parts, and renaming a file's tensors.

``{l}`` stands for the number of a layer, counted from 0 in every file. Entries name
modules, whose tensors are ``weight`` and ``bias`` (or their equivalents). Single
tensors outside modules are listed by their full names.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from visformer.arguments import is_several, wrong_type
from visformer.errors import CheckpointError, InputError
from visformer.files import short
from visformer.language import _
from visformer.values.questions import keyword

_ATTENTIONS = ("self_attention", "cross_attention")
_PROJECTIONS = ("query", "key", "value", "output")
_FEED = ("feed_forward.w1", "feed_forward.w2", "feed_forward.gate")
_NUMBERED = re.compile(
    r"(.*?(?:layers\.|blks\.block))(0|[1-9]\d{0,2})(\..+)", re.DOTALL
)
NORMS_OF_STACKS = ("encoder.norm", "decoder.norm")  # after the last layers
_EVERYWHERE = {  # our names that every layout accepts: a program may have added them
    *(f"{norm}.{leaf}" for norm in NORMS_OF_STACKS for leaf in ("weight", "bias")),
    *("positions", "source_positions", "target_positions"),
}
LAYER = "{l}"
_BIASES = {  # last part of a weight's name -> that of its bias
    "weight": "bias",
    "gamma": "beta",
    "a_2": "b_2",
    "scale": "shift",
    "w": "b",
    "in_proj_weight": "in_proj_bias",
}
_LEAVES = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


@dataclass(frozen=True)
class Names:
    """The names of one layout: those of its modules and single tensors -> ours."""

    modules: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)
    leaves: tuple[str, str] = ("weight", "bias")  # of norms
    stored: Callable[[str], str] = str  # a name in the table -> the name in a file


@dataclass(frozen=True)
class NamedTensors:
    """A file's tensors under our names, with their names in the file."""

    tensors: dict[str, Tensor]
    theirs: dict[str, str]  # our name -> the file's; unknown ones are unchanged
    assumed: tuple[str, ...] = ()  # one line per guessed name


@dataclass(frozen=True)
class Spelling:
    """Translates our names of tensors to those that the file uses or would use."""

    names: Names
    prefix: str
    theirs: Mapping[str, str]

    def __call__(self, name: str) -> str:
        """Return the file's name of our tensor ``name``."""
        usual = self.prefix + their_name(self.names, name)
        return self.names.stored(self.theirs.get(name) or usual)


def layer_names(
    prefixes: str, *, attention: str, projections: str, feed: str, norms: str
) -> dict[str, str]:
    """Map their names of the parts of both stacks' layers to ours.

    Names are separated by spaces, in our order. ``prefixes`` precede each name, with
    ``{l}``; ``attention`` is self-attention and, in a decoder, cross-attention. In
    these and in ``norms``, a bar separates the encoder's names from the decoder's.
    ``feed`` are the two matrices of the feed-forward layer, and its gate if it may have
    one.
    """
    names: dict[str, str] = {}
    apart = (several.split(" | ") for several in (prefixes, attention, norms))
    stacks = zip(("encoder", "decoder"), *apart, strict=True)
    for stack, prefix, attentions, of_norms in stacks:
        kinds = _ATTENTIONS[: len(attentions.split())]
        parts = {
            f"{module}.{name}": f"{kind}.{part}"
            for module, kind in zip(attentions.split(), kinds, strict=True)
            for name, part in zip(projections.split(), _PROJECTIONS, strict=True)
        }
        parts |= dict(zip(feed.split(), _FEED, strict=False))
        ours = [f"{part}_norm" for part in (*kinds, "feed_forward")]
        parts |= dict(zip(of_norms.split(), ours, strict=True))
        for theirs, part in parts.items():
            names[f"{prefix}{theirs}"] = f"{stack}.layers.{{l}}.{part}"
    return names


def our_name(names: Names, name: str) -> str | None:
    """Return our name of the layout's tensor ``name``; None if unknown."""
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
    """Return the layout's name of our tensor ``name``."""
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
    """Split a name into the layer's number ("" if none) and the name with {l}."""
    match = _NUMBERED.fullmatch(name)
    return (match[2], f"{match[1]}{{l}}{match[3]}") if match else ("", name)


def known(names: Names, theirs: Iterable[str]) -> int:
    """Count the names that belong to a layout and differ from ours."""
    return sum(our_name(names, name) not in (None, name) for name in theirs)


def in_our_names(
    names: Names, prefix: str, tensors: Mapping[str, Tensor]
) -> NamedTensors:
    """Rename a file's tensors to ours; unknown ones become "?" + name.

    Names outside ``prefix`` count as unknown.
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


# ---- rename= and ignore=: the caller's rules for the names of a file's tensors -------


@dataclass(frozen=True, slots=True)
class NameRules:
    """Patterns with replacements, and patterns of names to leave out."""

    rename: tuple[tuple[re.Pattern[str], str], ...] = ()
    ignore: tuple[re.Pattern[str], ...] = ()
    places: frozenset[str] = frozenset()  # patterns that may match nothing
    weights: str = ""  # which of several sets of weights; "" for the usual one

    @property
    def patterns(self) -> set[str]:
        """The patterns that must match something, as written."""
        every = {rule.pattern for rule in (*dict(self.rename), *self.ignore)}
        return every - self.places

    def apply(
        self, tensors: Mapping[str, Tensor], file: str
    ) -> tuple[dict[str, Tensor], set[str]]:
        """Return the tensors under their new names, and the patterns that match one.

        Those that ``ignore`` matches by their names in the file are left out. Raises
        CheckpointError if two tensors would get the same name.
        """
        made: dict[str, Tensor] = {}
        used: set[str] = set()
        for name, tensor in tensors.items():
            ignored = {rule.pattern for rule in self.ignore if rule.search(name)}
            used |= ignored
            new = name
            for rule, replacement in self.rename:
                used |= {rule.pattern} if rule.search(new) else set()
                new = rule.sub(replacement, new)
            if ignored:
                continue
            if new in made:
                raise CheckpointError(
                    "{rename} gives two tensors of {file} the name {name}. Make its "
                    "patterns more exact, or leave one tensor out with {ignore}.",
                    rename=keyword("rename"),
                    ignore=keyword("ignore"),
                    file=file,
                    name=short(new),
                )
            made[new] = tensor
        return made, used


def name_rules(
    rename: Any, ignore: Any, places: Mapping[str, str] | None = None
) -> NameRules:
    """Read the keywords of ``load``; TypeError or InputError if they are not valid.

    ``places`` maps modules of a layout to those of the file, as answered by the user.
    """
    own = place_rules(places or {})
    if rename is not None and not isinstance(rename, Mapping):
        raise wrong_type("rename", rename, _("a dict from pattern to replacement"))
    if isinstance(ignore, str):
        ignore = [ignore]
    if ignore is not None and not is_several(ignore):
        raise wrong_type("ignore", ignore, _("a list of patterns"))
    return NameRules(
        tuple(
            (_pattern("rename", pattern, replacement), replacement)
            for pattern, replacement in {**(rename or {}), **own}.items()
        ),
        tuple(_pattern("ignore", pattern) for pattern in ignore or ()),
        frozenset(own),
    )


def bias_of(weight: str) -> str:
    """Return the name of a weight's bias; "" if it cannot have one."""
    start, dot, last = weight.rpartition(".")
    return f"{start}{dot}{_BIASES[last]}" if last in _BIASES else ""


def place_rules(places: Mapping[str, str]) -> dict[str, str]:
    """Return patterns of names in a file -> replacements, for weights and biases."""
    rules = {}
    for ours, theirs in places.items():
        if bias_of(ours).endswith(".bias") and bias_of(theirs).endswith(".bias"):
            group = 2 if LAYER in theirs else 1
            source = _exactly(theirs.removesuffix("weight"))
            target = ours.removesuffix("weight").replace(LAYER, r"\1")
            rules[f"^{source}(weight|bias)$"] = rf"{target}\{group}"
            continue
        for target, source in ((ours, theirs), (bias_of(ours), bias_of(theirs))):
            if target and source:
                rules[f"^{_exactly(source)}$"] = target.replace(LAYER, r"\1")
    return rules


def _exactly(name: str) -> str:
    return re.escape(name).replace(re.escape(LAYER), r"(\d+)")


def _pattern(name: str, pattern: Any, replacement: Any = "") -> re.Pattern[str]:
    for part in (pattern, replacement):
        if not isinstance(part, str):
            raise wrong_type(name, part, _("a pattern of names of tensors"))
    try:
        made = re.compile(pattern)
        made.sub(replacement, "")
    except (re.error, IndexError, RecursionError, OverflowError) as error:
        raise InputError(
            "{keyword} cannot use the pattern “{pattern}” ({reason}). It must be a "
            "regular expression.",
            keyword=keyword(name),
            pattern=short(pattern),
            reason=short(str(error), 40),
        ) from error
    return made
