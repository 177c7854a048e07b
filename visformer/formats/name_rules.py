"""rename= and ignore=: what the caller says about the names of a file's tensors.

Patterns are regular expressions, found anywhere in a name. They apply before anything
else looks at the names, in the order in which they were given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from visformer.arguments import is_several, wrong_type
from visformer.errors import CheckpointError, InputError
from visformer.files import short
from visformer.language import _
from visformer.values.questions import keyword


@dataclass(frozen=True, slots=True)
class NameRules:
    """Patterns with their replacements, and patterns of names to leave out."""

    rename: tuple[tuple[re.Pattern[str], str], ...] = ()
    ignore: tuple[re.Pattern[str], ...] = ()
    places: frozenset[str] = frozenset()  # patterns that may match nothing
    weights: str = ""  # which of several sets of weights; "": the usual one

    @property
    def patterns(self) -> set[str]:
        """Every pattern that must match something, as it was written."""
        every = {rule.pattern for rule in (*dict(self.rename), *self.ignore)}
        return every - self.places

    def matching(self, names: Iterable[str]) -> set[str]:
        """Return the patterns that at least one of a file's names matches."""
        used: set[str] = set()
        for name in names:
            for rule in self.ignore:
                if rule.search(name):
                    used.add(rule.pattern)
            for rule, replacement in self.rename:
                if rule.search(name):
                    used.add(rule.pattern)
                name = rule.sub(replacement, name)
        return used

    def apply(self, tensors: Mapping[str, Tensor], file: str) -> dict[str, Tensor]:
        """Return the tensors under their new names, without those to ignore.

        ``ignore`` looks at the names in the file. Raises CheckpointError if two tensors
        would get the same name.
        """
        made: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            if any(rule.search(name) for rule in self.ignore):
                continue
            new = name
            for rule, replacement in self.rename:
                new = rule.sub(replacement, new)
            if new in made:
                raise CheckpointError(
                    _(
                        "{rename} gives two tensors of {file} the name {name}. Make "
                        "its patterns more exact, or leave one tensor out with "
                        "{ignore}.",
                        rename=keyword("rename"),
                        ignore=keyword("ignore"),
                        file=file,
                        name=short(new),
                    )
                )
            made[new] = tensor
        return made


def name_rules(
    rename: Any, ignore: Any, places: Mapping[str, str] | None = None
) -> NameRules:
    """Read the keywords of ``load``; TypeError or InputError if they are not valid.

    ``places`` are rules of our own, made for a person's answers.
    """
    if rename is not None and not isinstance(rename, Mapping):
        raise wrong_type("rename", rename, _("a dict from pattern to replacement"))
    if isinstance(ignore, str):
        ignore = [ignore]
    if ignore is not None and not is_several(ignore):
        raise wrong_type("ignore", ignore, _("a list of patterns"))
    return NameRules(
        tuple(
            (_pattern("rename", pattern, replacement), replacement)
            for pattern, replacement in {**(rename or {}), **(places or {})}.items()
        ),
        tuple(_pattern("ignore", pattern) for pattern in ignore or ()),
        frozenset(places or ()),
    )


def _pattern(name: str, pattern: Any, replacement: Any = "") -> re.Pattern[str]:
    for part in (pattern, replacement):
        if not isinstance(part, str):
            raise wrong_type(name, part, _("a pattern of names of tensors"))
    try:
        made = re.compile(pattern)
        made.sub(replacement, "")
    except (re.error, IndexError, RecursionError, OverflowError) as error:
        raise InputError(
            _(
                "{keyword} cannot use the pattern “{pattern}” ({reason}). It must be "
                "a regular expression.",
                keyword=keyword(name),
                pattern=short(pattern),
                reason=short(str(error), 40),
            )
        ) from error
    return made
