"""A file whose tensors do not make its layout's model, and what would make them fit."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from visformer.core.assembly import MisfitError, check_fit
from visformer.errors import CheckpointError
from visformer.formats.given_options import GivenOptions
from visformer.formats.layout_spec import Files, LayoutSpec, Tensors
from visformer.formats.names import NORMS_OF_STACKS
from visformer.formats.proposing import (
    Proposal,
    as_typed,
    moves,
    place_rules,
    plain,
    proposal,
    shortest_rules,
)
from visformer.formats.tutorial_files import (
    TutorialFiles,
    known_config,
    read_files,
    read_tensors,
)
from visformer.language import _
from visformer.values.questions import keyword

_ROOM = 90  # characters of a remedy in a sentence


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would make a file fit."""

    proposed: Proposal
    rename: Mapping[str, str]  # keywords of ``load``
    typed: Mapping[str, str]  # the same, as short as they may be
    ignore: tuple[str, ...]
    made: TutorialFiles  # the file as they make it
    fits: bool

    @property
    def words(self) -> str:
        """Say which keywords to give, if they are short, or where they are listed."""
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
    """Raise MisfitError unless a file's tensors make a model; it says what would."""
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
        stored = [*files.stored]  # nothing tells the width
        raise MisfitError("", missing=[], surplus=stored, wrong=[])
    check_fit(
        known_config(files),
        files.parameters,
        name=files.name,
        spelling=files.spelling,
    )


def remedy_where_needed(files: TutorialFiles) -> Remedy | None:
    """Return what would make a file fit; None if it does fit.

    Raises MisfitError if nothing is known that would.
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
    """Propose names for what the layout does not know, and what to leave out."""
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
    rename = shortest_rules(moved, files.stored) or _used(places, files.stored)
    every = {name: moved.get(name, name) for name in files.stored}
    return Remedy(
        proposed=Proposal(
            places, {ours: found.choices[ours] for ours in places}, tuple(surplus)
        ),
        rename=rename,
        typed=as_typed(rename, every),
        ignore=tuple(f"^{re.escape(name)}$" for name in surplus),
        made=made,
        fits=fits,
    )


def guessed_layout(files: Files, layouts: Iterable[LayoutSpec]) -> str:
    """Return the layout whose model a file's tensors make under other names; "": none.

    Of several, the one whose names resemble the file's most.
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


def _used(places: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    every = list(names)
    return {
        pattern: replacement
        for pattern, replacement in place_rules(places).items()
        if any(re.search(pattern, name) for name in every)
    }


def _read(files: TutorialFiles, tensors: Tensors) -> TutorialFiles:
    made = read_tensors(files.spec, files.name, tensors, files.weights, files.options)
    return dataclasses.replace(made, paths=files.paths)
