"""Propose which tensor of a file is which of a layout's where their names differ.

First by shape: a norm is a vector, an attention's matrix is square. Among equal shapes
by similarity of the names, and by order, which layers usually preserve. Proposals are
never used before the user has seen them.
"""

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from torch import Tensor

from visformer.core.assembly import MisfitError, check_fit
from visformer.errors import CheckpointError
from visformer.formats.given_options import GivenOptions
from visformer.formats.layout_spec import Files, LayoutSpec, Tensors
from visformer.formats.names import (
    LAYER,
    NORMS_OF_STACKS,
    Names,
    bias_of,
    our_name,
    place_rules,
)
from visformer.formats.tutorial_files import (
    TutorialFiles,
    known_config,
    read_files,
    read_tensors,
)
from visformer.language import _
from visformer.values.questions import keyword

MOST_UNITS, LONGEST = 400, 200  # of modules in a file, and of characters in a name
_MEANINGS = {  # the function of a part -> words for it in names
    "query": {"q", "wq", "query", "queries", "qproj"},
    "key": {"k", "wk", "key", "keys", "kproj"},
    "value": {"v", "wv", "value", "values", "vproj"},
    "output": {
        *("o", "wo", "out", "output", "concat", "fc", "proj", "dense", "generator"),
    },
    "cross": {
        *("cross", "src", "enc", "encdec", "context", "memory", "multihead", "inter"),
    },
    "self": {"self", "slf", "masked"},
    "source": {"src", "source", "enc", "encoder", "input"},
    "target": {"tgt", "trg", "target", "dec", "decoder"},
}
_CONTRARY = (
    ("query", "key", "value", "output"),
    ("cross", "self"),
    ("source", "target"),
)
_ENCODER, _DECODER = re.compile(r"enc|src|source"), re.compile(r"dec|tgt|trg|target")


_ROOM = 90  # longest remedy in a sentence, in characters


@dataclass(frozen=True, slots=True)
class Unit:
    """A module of a layout or a file, in every layer that has it."""

    weight: str  # the name of its weight, with {l} for the layer's number
    kind: str  # square, joint, up, down, norm, table or positions
    stack: str  # encoder, decoder, or "" if the name does not show it
    words: str  # the part of the name that shows its function

    @property
    def numbered(self) -> bool:
        """Whether it belongs to a numbered layer."""
        return LAYER in self.weight

    @property
    def group(self) -> tuple[str, str, bool]:
        """The properties that matching units share."""
        return self.stack, self.kind, self.numbered


@dataclass(frozen=True, slots=True)
class Proposal:
    """Matches of a layout's units with a file's."""

    places: Mapping[str, str]  # a layout's unit -> the file's, by their weights
    choices: Mapping[str, tuple[str, ...]]  # a layout's unit -> all units of its shape


def proposal(names: Names, prefix: str, tensors: Mapping[str, Tensor]) -> Proposal:
    """Propose matches for the tensors whose names a layout does not know."""
    known = {
        n: ours
        for n in tensors
        if n.startswith(prefix)
        and (ours := _ours(names, n.removeprefix(prefix))) is not None
    }
    unknown = {n: t for n, t in tensors.items() if n not in known}
    if (
        len({*map(general, unknown)}) > MOST_UNITS
        or max(map(len, unknown), default=0) > LONGEST
    ):
        return Proposal({}, {})
    square_feeds = not any(
        t.dim() == 2 and t.shape[0] not in (t.shape[1], 3 * t.shape[1])
        for n, t in tensors.items()
        if general(n) != n
    )
    missing = [
        unit
        for unit in _units_of_layout(names, prefix, square_feeds=square_feeds)
        if general(unit.weight) not in {general(name) for name in known}
    ]
    theirs = _units_of_file(unknown, _width(tensors.values()))
    places: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    for group in dict.fromkeys(unit.group for unit in missing):
        mine = [unit for unit in missing if unit.group == group]
        _stack, *kind = group
        fitting = [x for x in theirs if x.group in (group, ("", *kind))]
        free = [unit for unit in fitting if unit.weight not in places.values()]
        places |= _matched(mine, free)
        every = tuple(unit.weight for unit in fitting)
        choices |= {unit.weight: every for unit in mine}
    return Proposal(places, choices)


def _ours(names: Names, name: str) -> str | None:
    """Return our name, including that of a joint projection, which is split later."""
    return our_name(names, re.sub(r"\.in_proj_(weight|bias)$", r".in_q.\1", name))


def general(name: str) -> str:
    """Replace the layer's number, the first numeric part of a name, by {l}."""
    return re.sub(r"(^|\.)(block)?\d+(?=\.)", rf"\1\2{LAYER}", name, count=1)


def _units_of_layout(names: Names, prefix: str, *, square_feeds: bool) -> list[Unit]:
    units: dict[str, Unit] = {}
    known = {*names.modules.values()}
    every = {
        **{
            f"{theirs}.{names.leaves[0] if 'norm' in ours else 'weight'}": ours
            for theirs, ours in names.modules.items()
        },
        **names.tensors,
        **{f"{name}.weight": name for name in NORMS_OF_STACKS if name not in known},
        **({} if "positions" in names.tensors.values() else {"positions": "positions"}),
    }
    for theirs, ours in every.items():
        name = names.stored(theirs)
        kind = "joint" if name != theirs else _kind_of_ours(ours)
        if square_feeds and kind in ("up", "down"):
            kind = "square"
        stack = ours.partition(".")[0] if ours.startswith(("enc", "dec")) else ""
        if not stack and kind == "table":
            ours = f"{ours} {ours.replace('_', ' ')}"
        words = ours.replace("cross_attention", "cross").replace(
            "self_attention", "self"
        )
        units.setdefault(name, Unit(prefix + name, kind, stack, words))
    return list(units.values())


def _kind_of_ours(ours: str) -> str:
    kinds = {"norm": "norm", "positions": "positions"}
    kinds |= {"w1": "up", "gate": "up", "w2": "down", "embedding": "table"}
    usual = "square" if "attention" in ours else "table"
    return next((kind for end, kind in kinds.items() if ours.endswith(end)), usual)


def _width(tensors: Iterable[Tensor]) -> int:
    """Return the most common dimension of matrices; 0 if there is no matrix."""
    sides = Counter(side for t in tensors if t.dim() == 2 for side in {*t.shape})
    return sides.most_common(1)[0][0] if sides else 0


def _units_of_file(unknown: Mapping[str, Tensor], width: int) -> list[Unit]:
    """Return the modules that tensors belong to; a bias counts with its weight."""
    biases = {bias for name in unknown if (bias := bias_of(name)) in unknown}
    shapes = {general(n): t for n, t in unknown.items() if n not in biases}
    before = list(dict.fromkeys(n.partition(LAYER)[0] for n in shapes if LAYER in n))
    units = []
    for name, tensor in shapes.items():
        start, numbered, _rest = name.partition(LAYER)
        stack = _stack(start.lower()) if numbered else ""
        if numbered and not stack and len(before) == 2:
            stack = ("encoder", "decoder")[before.index(start)]
        kind = _kind_of_tensor(name, tensor, width)
        if not numbered and kind == "norm":
            stack = _stack(name.lower())
        words = name if not numbered else name[len(start) :]
        units.append(Unit(name, kind, stack, words))
    return units


def _stack(words: str) -> str:
    encoder, decoder = _ENCODER.search(words), _DECODER.search(words)
    if bool(encoder) == bool(decoder):
        return ""
    return "encoder" if encoder else "decoder"


def _kind_of_tensor(name: str, tensor: Tensor, width: int) -> str:
    last = name.lower()
    if width not in tensor.shape:
        return ""
    if tensor.dim() == 1:
        return "norm"
    if tensor.dim() == 3 or re.search(r"pos|(^|[._])pe([._]|$)", last):
        return "positions"
    if tensor.dim() != 2:
        return ""
    rows, columns = tensor.shape
    if LAYER not in name:
        return "table"
    if rows == columns:
        return "square"
    if rows == 3 * columns and "proj" in last:
        return "joint"
    return "up" if rows > columns else "down"


def _meanings(words: str) -> set[str]:
    parts = {part for part in re.split(r"[^a-z]+", words.lower()) if part}
    return {meaning for meaning, known in _MEANINGS.items() if parts & known}


def _likeness(ours: Unit, theirs: Unit) -> float:
    """Return how similar the names of two units are."""
    mine, other = _meanings(ours.words), _meanings(theirs.words)
    score = 2 * SequenceMatcher(None, ours.weight, theirs.weight).ratio()
    for group in _CONTRARY:
        first, second = mine & {*group}, other & {*group}
        if first and second:
            score += 4 if first & second else -4
    return score


def _matched(ours: Sequence[Unit], theirs: Sequence[Unit]) -> dict[str, str]:
    """Pair units one to one, the most similar names first, then by order."""
    scores = {
        (i, j): _likeness(mine, other)
        - 2 * abs(i / max(len(ours), 1) - j / max(len(theirs), 1))
        for i, mine in enumerate(ours)
        for j, other in enumerate(theirs)
    }
    pairs: dict[int, int] = {}
    for i, j in sorted(scores, key=lambda pair: -scores[pair]):
        if i not in pairs and j not in pairs.values():
            pairs[i] = j
    return {ours[i].weight: theirs[j].weight for i, j in sorted(pairs.items())}


def moves(places: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return old name -> new name of the matched tensors."""
    rules = [(re.compile(p), r) for p, r in place_rules(places).items()]
    return {
        name: rule.sub(replacement, name)
        for name in names
        for rule, replacement in rules
        if rule.search(name)
    }


def plain(pattern: str) -> str:
    """Simplify a regular expression for a person, dropping anchors and escapes."""
    text = re.sub(r"\\b|\\(?=\W)", "", pattern)
    return text.removeprefix("^").removesuffix("$")


def shortest_rules(moved: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return rules that make exactly these renamings, as plain words if possible.

    Otherwise as words between dots; {} if these would rename more.
    """
    every = list(names)
    for dotted in (False, True):
        words: dict[str, str] = {}
        for old, new in moved.items():
            if old != new:
                pattern, replacement = _difference(old.split("."), new.split("."))
                bounded = dotted and pattern[:1] not in ("^", "\\")
                pattern = rf"\b{pattern}\b" if bounded else pattern
                words.setdefault(pattern, replacement)
        if _make(words, moved, every):
            return words
    return {}


def as_typed(rules: Mapping[str, str], moved: Mapping[str, str]) -> dict[str, str]:
    """Return rules for a sentence, simplified if they still make the same renamings."""
    bare = {plain(pattern): replacement for pattern, replacement in rules.items()}
    with contextlib.suppress(re.error):
        if _make(bare, moved, list(moved)):
            return bare
    return dict(rules)


def _make(
    rules: Mapping[str, str], moved: Mapping[str, str], names: Sequence[str]
) -> bool:
    """Whether rules make exactly these renamings."""
    compiled = [(re.compile(pattern), new) for pattern, new in rules.items()]
    for name in names:
        made = name
        for rule, replacement in compiled:
            made = rule.sub(replacement, made)
        if made != moved.get(name, name):
            return False
    return True


def _difference(old: list[str], new: list[str]) -> tuple[str, str]:
    """Return the differing parts, as a pattern and its replacement."""
    shared = min(len(old), len(new))
    start = next((i for i in range(shared) if old[i] != new[i]), shared)
    room = shared - start
    end = next((i for i in range(room) if old[-1 - i] != new[-1 - i]), room)
    mine, other = old[start : len(old) - end], new[start : len(new) - end]
    if mine and other:
        return re.escape(".".join(mine)), ".".join(other)
    if start:  # an insertion or deletion after an unchanged part
        before = old[start - 1]
        pattern = re.escape(".".join([before, *mine, ""]))
        return rf"\b{pattern}", ".".join([before, *other, ""])
    return f"^{re.escape('.'.join([*mine, '']))}" if mine else "^", ".".join(
        [*other, ""]
    )


# ---- Remedies for a file whose tensors do not make up its layout's model -------------


@dataclass(frozen=True, slots=True)
class Remedy:
    """Keywords that would make a file fit."""

    proposed: Proposal
    surplus: tuple[str, ...]  # names of tensors without a match
    rename: Mapping[str, str]  # keywords of ``load``
    typed: Mapping[str, str]  # the same, simplified
    ignore: tuple[str, ...]  # a pattern for each surplus tensor
    made: TutorialFiles  # the file after renaming
    fits: bool

    @property
    def words(self) -> str:
        """Name the keywords if they are short, else say where they are listed."""
        if not self.fits:
            return ""
        parts = []
        if self.rename:
            parts.append(keyword("rename", self.typed))
        if self.ignore:
            parts.append(keyword("ignore", [plain(name) for name in self.ignore]))
        keywords = ", ".join(parts)
        if len(keywords) <= _ROOM:
            return _("Try {keywords}.", keywords=keywords)
        return _("“visformer inspect” lists names that would fit.")


def checked(files: TutorialFiles) -> None:
    """Raise MisfitError unless a file's tensors make up a model; it names a remedy."""
    try:
        _check(files)
    except MisfitError as error:
        found = remedy_for(files)
        raise MisfitError(
            _(
                "{file} does not fit the layout {layout}.",
                file=files.name,
                layout=files.spec.name,
            ),
            missing=error.missing,
            surplus=error.surplus,
            wrong=error.wrong,
            remedy=found.words or _("Or call visformer.watch(model)(…)."),
        ) from None


def _check(files: TutorialFiles) -> None:
    if not any(
        key.endswith(("norm.weight", "embedding.weight")) for key in files.tensors
    ):
        stored = [*files.stored]  # the width is unknown
        raise MisfitError("", missing=[], surplus=stored, wrong=[])
    check_fit(
        known_config(files), files.parameters, name=files.name, spelling=files.spelling
    )


def remedy_where_needed(files: TutorialFiles) -> Remedy | None:
    """Return the remedy for a file; None if it fits.

    Raises MisfitError if no remedy is known.
    """
    try:
        _check(files)
    except MisfitError:
        found = remedy_for(files)
        if found.fits:
            return found
        checked(files)
    return None


def remedy_for(files: TutorialFiles) -> Remedy:
    """Propose names for unknown tensors, and which to leave out."""
    prefix, names = files.spelling.prefix, files.spec.names
    found = proposal(names, prefix, files.stored)
    own = {f"{prefix}{theirs}.{names.leaves[0]}" for theirs in names.modules}
    added = {f"{prefix}{norm}.weight" for norm in NORMS_OF_STACKS} - own
    usual = {ours: t for ours, t in found.places.items() if ours not in added}
    remedy = _tried(files, found, found.places)
    return remedy if remedy.fits else _tried(files, found, usual)


def _tried(files: TutorialFiles, found: Proposal, places: Mapping[str, str]) -> Remedy:
    moved = moves(places, files.stored)
    named = {moved.get(name, name): tensor for name, tensor in files.stored.items()}
    made, surplus, fits = files, list[str](), False
    with contextlib.suppress(CheckpointError):
        made = _read(files, named)
        theirs = made.spelling.theirs
        surplus = [theirs[key] for key in made.tensors if key[0] == "?"]
        made = _read(files, {n: t for n, t in named.items() if n not in surplus})
        _check(made)
        fits = True
    rename = shortest_rules(moved, files.stored) or {
        pattern: replacement
        for pattern, replacement in place_rules(places).items()
        if any(re.search(pattern, name) for name in files.stored)
    }
    every = {name: moved.get(name, name) for name in files.stored}
    return Remedy(
        proposed=Proposal(places, found.choices),
        surplus=tuple(surplus),
        rename=rename,
        typed=as_typed(rename, every),
        ignore=tuple(f"^{re.escape(name)}$" for name in surplus),
        made=made,
        fits=fits,
    )


def guessed_layout(files: Files, layouts: Iterable[LayoutSpec]) -> str:
    """Return the layout that fits a file's tensors under other names; "" if none does.

    Of several, the one with the most similar names.
    """
    likeness: dict[str, float] = {}
    for spec in layouts:
        with contextlib.suppress(CheckpointError):
            remedy = remedy_for(read_files(spec, files, GivenOptions()))
            if remedy.fits and len(remedy.made.tensors) > len(remedy.ignore):
                likeness[spec.name] = sum(
                    SequenceMatcher(None, ours, theirs).ratio()
                    for ours, theirs in remedy.proposed.places.items()
                ) / max(len(remedy.proposed.places), 1)
    return max(likeness, key=lambda name: likeness[name], default="")


def _read(files: TutorialFiles, tensors: Tensors) -> TutorialFiles:
    made = read_tensors(files.spec, files.name, tensors, files.weights, files.options)
    return dataclasses.replace(made, paths=files.paths)
