"""The text form of an Intervention, read: what ``--change`` and the window take."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, get_args

from visformer.errors import InputError
from visformer.files import short
from visformer.language import _
from visformer.values.intervention import (
    NO_CHANGES,
    Causal,
    Cell,
    HideSource,
    Intervention,
    PositionChange,
    PositionForm,
    ScoreScale,
    check_positions,
)

_NUMBER = r"([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|-?inf)"
_LAYER = r"(?: @ layer (\d+))?"
_FORMS = "|".join(get_args(PositionForm))
EXAMPLES = (  # of every form
    *("causal off", "causal +1", "hide 3", "cell cross 2 5 off", "multiply"),
    *("masked score -1e4", "scale off", "scale 2"),
    *("positions none", "positions interleaved"),
    *("positions halves", "positions shifted 5", "positions scaled 2"),
    *("positions permuted 8 0", "positions constant 0"),
)


def parse(texts: Iterable[str]) -> Intervention:
    """Read the text form: changes, each alone or several separated by semicolons.

    Raises InputError, with examples of valid changes, for anything else.
    """
    intervention = NO_CHANGES
    for text in ";".join(texts).split(";"):
        words = " ".join(text.split())
        if words:
            intervention = _add(intervention, words)
    return intervention


def _add(intervention: Intervention, words: str) -> Intervention:
    if words == "multiply":
        return replace(intervention, masked_value=0.0)
    # files of version 1 say “fill”
    if match := re.fullmatch(rf"(?:masked score|fill) {_NUMBER}", words):
        return replace(intervention, masked_value=float(match[1]))
    if match := re.fullmatch(rf"scale (?:off|{_NUMBER}){_LAYER}", words):
        factor = None if match[1] is None else float(match[1])
        return intervention.with_scale(ScoreScale(factor, _index(match[2])))
    if match := re.fullmatch(rf"positions ({_FORMS})(?: {_NUMBER})?(?: (\d+))?", words):
        form: Any = match[1]
        amount, seed = float(match[2] or 0), int(match[3] or 0)
        change = PositionChange(form, amount, seed)
        check_positions(change)
        return replace(intervention, positions=change)
    if match := re.fullmatch(rf"causal (off|[+-]?\d+){_LAYER}", words):
        offset = None if match[1] == "off" else int(match[1])
        return intervention.with_mask(Causal(offset, _index(match[2])))
    if match := re.fullmatch(rf"hide ([1-9]\d*){_LAYER}", words):
        return intervention.with_mask(HideSource(int(match[1]) - 1, _index(match[2])))
    pattern = rf"cell (encoder|decoder|cross) ([1-9]\d*) ([1-9]\d*) (on|off){_LAYER}"
    if match := re.fullmatch(pattern, words):
        kind: Any = match[1]
        query, key, at = int(match[2]) - 1, int(match[3]) - 1, _index(match[5])
        return intervention.with_mask(Cell(kind, query, key, match[4] == "on", at))
    raise InputError(
        _(
            "“{words}” is not a valid change. Use, for example, {examples}; "
            "“visformer render --help” lists all.",
            words=short(words, 24),
            examples=", ".join(EXAMPLES[:7]),
        )
    )


def _index(layer: str | None) -> int | None:
    if layer == "0":
        raise InputError(_("Layers count from 1: there is no layer 0."))
    return None if layer is None else int(layer) - 1
