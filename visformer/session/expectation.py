"""Expectation: what a lesson says of a run's numbers, in a form that can be checked.

resources/lesson-format.md lists the forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from visformer.errors import InputError
from visformer.files import short
from visformer.pictures.selection import AttentionCell
from visformer.pictures.token_names import marks, word
from visformer.values.arrays import Floats, later, row_entropy
from visformer.values.facts import SIDES, Kind, SentenceSide
from visformer.values.pieces import listed, plain
from visformer.values.trace import Trace
from visformer.words import number

EXACT = 1e-4
FormFields = Mapping[str, str]  # what a form names: kind, layer, head, step, row, key …
FoundValue = float | tuple[str, ...]  # a number, or a text in all ways to write it
Measure = Callable[[Trace, FormFields], FoundValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One comparison; ``line`` is where its file has it."""

    text: str
    line: int
    form: ExpectForm
    given: FormFields
    sign: str
    wanted: str  # as it is written

    @classmethod
    def read(cls, text: str, line: int = 0) -> Self:
        """Read one; InputError for what is none."""
        text = " ".join(text.split())
        for form in FORMS:
            if match := re.fullmatch(f"{form.pattern} {form.right}", text):
                given = {name: part for name, part in match.groupdict().items() if part}
                sign, wanted = given.pop("sign"), given.pop("wanted")
                if given.get("kind") == "encoder" and "step" in given:
                    break
                return cls(
                    text=text,
                    line=line,
                    form=form,
                    given=given,
                    sign=sign,
                    wanted=wanted,
                )
        raise InputError(
            "“{text}” cannot be checked: write, for example, “darkest cross L2H1 step "
            "8 = it” or “weight encoder L3H5 from it to animal > 0.5”.",
            text=short(text, 60),
        )

    @property
    def step(self) -> int | None:
        """The step that it is of, from 1; None: all of the run."""
        return int(self.given["step"]) if "step" in self.given else None

    def found(self, trace: Trace) -> FoundValue:
        """Return what a run has: a number, or a text, first as it is shown.

        Raises InputError where the run has no such step, head or token.
        """
        return self.form.measure(trace, self.given)

    def holds(self, found: FoundValue) -> bool:
        """Tell whether it is true of what was found; nothing is of NaN."""
        if isinstance(found, tuple):
            return self.wanted.strip('"') in found
        value = float(self.wanted)
        if self.sign == "about":
            digits = len(self.wanted.partition(".")[2])
            return abs(found - value) <= 0.5000001 * 10.0**-digits
        if self.sign == "=":
            return abs(found - value) <= EXACT
        return found > value if self.sign == ">" else found < value

    def cell(self, trace: Trace) -> AttentionCell | None:
        """Return the cell that it says is the darkest of its row; None of others."""
        if self.form.measure is not _darkest:
            return None
        kind, row, weights = _row(trace, self.given)
        return AttentionCell(kind, row, int(weights.argmax()))


def found_words(found: FoundValue) -> str:
    """Write what was found."""
    return f"“{found[0]}”" if isinstance(found, tuple) else number(found)


class ExpectForm(NamedTuple):
    """A form of the left side, and what it measures."""

    pattern: str
    measure: Measure
    is_text: bool = False

    @property
    def right(self) -> str:
        """The pattern of what follows."""
        if self.is_text:
            return r"(?P<sign>=) (?P<wanted>.+)"
        return r"(?P<sign>[=<>]|about) (?P<wanted>-?\d{1,9}(?:\.\d{1,9})?)"


# ---- what is measured ------------------------------------------------------------


def _darkest(trace: Trace, given: FormFields) -> FoundValue:
    kind, _at, weights = _row(trace, given)
    side, key = SIDES[kind][1], int(weights.argmax())
    token = trace.tokens(kind)[1][key]
    if np.isnan(weights[key]):
        return ("NaN",)
    return word(trace, side, key), token, f"token {key + 1}"


def _weight(trace: Trace, given: FormFields) -> FoundValue:
    kind, _at, weights = _row(trace, given)
    return float(weights[_place(trace, SIDES[kind][1], given["key"])])


def _score(trace: Trace, given: FormFields) -> FoundValue:
    kind, row, _weights = _row(trace, given)
    scores = trace.scores(kind, *_head(trace, given))[row]
    return float(scores[_place(trace, SIDES[kind][1], given["key"])])


def _sum(trace: Trace, given: FormFields) -> FoundValue:
    return float(_row(trace, given)[2].sum())


def _row_entropy(trace: Trace, given: FormFields) -> FoundValue:
    return float(row_entropy(_row(trace, given)[2][None])[0])


def _later(trace: Trace, given: FormFields) -> FoundValue:
    weights = trace.attention("decoder", *_head(trace, given))
    return float(np.where(later(*weights.shape), weights, 0).max(initial=0))


def _next(trace: Trace, given: FormFields) -> FoundValue:
    step = trace.steps[_step(trace, given)]
    return plain(step.token, marks(trace, "target")), step.token


def _probability(trace: Trace, given: FormFields) -> FoundValue:
    step, how = trace.steps[_step(trace, given)], marks(trace, "target")
    if "key" not in given:
        return step.probability
    asked = given["key"].strip('"')
    for one in step.candidates:
        if asked in (one.token, plain(one.token, how), listed(one.token, how)):
            return one.probability
    raise InputError(
        "“{token}” is not among the {n} best tokens of this step.",
        token=short(asked),
        n=len(step.candidates),
    )


def _step_entropy(trace: Trace, given: FormFields) -> FoundValue:
    return trace.steps[_step(trace, given)].entropy


def _length(trace: Trace, given: FormFields) -> FoundValue:
    stack: Any = given["stack"]
    kind: Kind = stack
    if int(given["layer"]) > trace.layers(kind):
        raise _no_layer(trace, kind)
    row = _row_place(trace, kind, given)
    return float(np.linalg.norm(trace.hidden(stack, int(given["layer"]))[row]))


def _scale(trace: Trace, given: FormFields) -> FoundValue:
    kind: Any = given["kind"]
    if int(given["layer"]) > trace.layers(kind):
        raise _no_layer(trace, kind)
    return trace.scale(kind, int(given["layer"]) - 1)


def _count(
    of: Callable[[Trace, Any], int],
) -> Callable[[Trace, FormFields], FoundValue]:
    return lambda trace, given: float(of(trace, given["kind"]))


def _tokens(trace: Trace, given: FormFields) -> FoundValue:
    return float(len(trace.source if given["side"] == "source" else trace.target))


# ---- rows, heads and tokens ------------------------------------------------------


def _row(trace: Trace, given: FormFields) -> tuple[Kind, int, Floats]:
    """Return a row of a head: its kind, which it is, and its weights [K]."""
    kind: Any = given["kind"]
    weights = trace.attention(kind, *_head(trace, given))
    row = _row_place(trace, kind, given)
    return kind, row, weights[row]


def _row_place(trace: Trace, kind: Kind, given: FormFields) -> int:
    if "step" in given:
        return _step(trace, given)
    return _place(trace, SIDES[kind][0], given["row"])


def _head(trace: Trace, given: FormFields) -> tuple[int, int]:
    kind: Any = given.get("kind", "decoder")
    layer, head = int(given["layer"]), int(given["head"])
    if layer > trace.layers(kind) or head > trace.heads(kind):
        raise _no_layer(trace, kind)
    return layer - 1, head - 1


def _no_layer(trace: Trace, kind: Kind) -> InputError:
    return InputError(
        "There is no such layer or head: the model's {kind} attention has {layers} "
        "layers of {heads} heads.",
        kind=kind,
        layers=trace.layers(kind),
        heads=trace.heads(kind),
    )


def _step(trace: Trace, given: FormFields) -> int:
    step = int(given["step"])
    if step > len(trace.steps):
        raise InputError(
            "There is no step {step}: the run has {n}.", step=step, n=len(trace.steps)
        )
    return step - 1


def _place(trace: Trace, side: SentenceSide, given: str) -> int:
    """Return where a token stands that is named, or counted from 1."""
    tokens = trace.source if side == "source" else trace.target
    if counted := re.fullmatch(r"token (\d+)", given):
        found = [int(counted[1]) - 1] if int(counted[1]) <= len(tokens) else []
    else:
        asked = given.strip('"')
        found = [
            at
            for at, token in enumerate(tokens)
            if asked in (token, word(trace, side, at))
        ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError("The run has no “{token}” here.", token=short(given))
    raise InputError(
        "“{token}” occurs {n} times: name the one that is meant, as “token {place}”.",
        token=short(given),
        n=len(found),
        place=found[0] + 1,
    )


# ---- forms -----------------------------------------------------------------------

_TOKEN = r'(?:token [1-9]\d{0,6}|"[^"]+"|\S+)'
_KIND = "(?P<kind>encoder|decoder|cross)"
_PLACE = r"L(?P<layer>[1-9]\d{0,3})H(?P<head>[1-9]\d{0,3})"
_STACK = r"(?P<stack>encoder|decoder) L(?P<layer>\d{1,4})"
_STEP = r"step (?P<step>[1-9]\d{0,6})"
_FROM = rf"(?:{_STEP}|from (?P<row>{_TOKEN}))"
_KEY = rf"(?:to )?(?P<key>{_TOKEN})"
_HEAD_ROW = f"{_KIND} {_PLACE} {_FROM}"

FORMS = (
    ExpectForm(f"darkest {_HEAD_ROW}", _darkest, is_text=True),
    ExpectForm(f"next {_STEP}", _next, is_text=True),
    ExpectForm("translation", lambda trace, _given: (trace.text,), is_text=True),
    ExpectForm(f"weight {_HEAD_ROW} {_KEY}", _weight),
    ExpectForm(f"score {_HEAD_ROW} {_KEY}", _score),
    ExpectForm(f"sum {_HEAD_ROW}", _sum),
    ExpectForm(f"entropy {_HEAD_ROW}", _row_entropy),
    ExpectForm(f"entropy {_STEP}", _step_entropy),
    ExpectForm(f"later decoder {_PLACE}", _later),
    ExpectForm(f"probability {_STEP}(?: {_KEY})?", _probability),
    ExpectForm(
        rf"length (?P<stack>encoder|decoder) L(?P<layer>\d{{1,4}}) {_FROM}", _length
    ),
    ExpectForm(rf"scale {_KIND} L(?P<layer>[1-9]\d{{0,3}})", _scale),
    ExpectForm(f"layers {_KIND}", _count(Trace.layers)),
    ExpectForm(f"heads {_KIND}", _count(Trace.heads)),
    ExpectForm(f"size {_KIND}", _count(Trace.head_size)),
    ExpectForm("tokens (?P<side>source|target)", _tokens),
)
