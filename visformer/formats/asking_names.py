"""Questions about tensors whose names a layout does not know."""

from __future__ import annotations

from collections.abc import Iterator

from visformer.files import short
from visformer.formats.misfits import Remedy
from visformer.formats.proposing import LAYER, plain
from visformer.language import N_, _
from visformer.values.questions import IGNORE, PLACE, RENAME, Question, Value

_SURPLUS: tuple[tuple[Value, str], ...] = ((True, N_("leave it out")),)


def name_questions(remedy: Remedy) -> Iterator[Question]:
    """Ask for each name that a file has instead of the layout's, and for the surplus.

    A few words that differ everywhere are asked once each, else every module is.
    """
    if len(remedy.rename) < len(remedy.proposed.places):
        for pattern, replacement in remedy.rename.items():
            yield _question(
                f"{RENAME}{pattern}",
                plain(pattern),
                _("The file has this in names where the layout has the other."),
                replacement,
                ((replacement, replacement.strip(".") or _("nothing")),),
            )
    else:
        for ours, theirs in remedy.proposed.places.items():
            yield _question(
                f"{PLACE}{ours}",
                _readable(ours),
                _("Which tensor this is; those of its shape can be chosen."),
                theirs,
                tuple(
                    (name, _readable(name)) for name in remedy.proposed.choices[ours]
                ),
            )
    for pattern, name in zip(remedy.ignore, remedy.proposed.surplus, strict=True):
        yield _question(
            f"{IGNORE}{pattern}",
            short(name),
            _("The layout has no such tensor, and the model runs without it."),
            True,
            tuple((value, _(words)) for value, words in _SURPLUS),
        )


def _question(
    name: str,
    label: str,
    why: str,
    default: Value,
    choices: tuple[tuple[Value, str], ...],
) -> Question:
    return Question(
        name=name,
        label=short(label),
        kind="choice",
        why=why,
        default=default,
        choices=choices,
        mandatory=True,
    )


def _readable(name: str) -> str:
    return short(name.removesuffix(".weight").replace(LAYER, "…"))
