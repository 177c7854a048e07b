"""What a lesson expects of a run: every form, true and false, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.traces import make_trace
from visformer.errors import InputError
from visformer.session.expectation import Expectation
from visformer.values.trace import Trace

TRACE = make_trace(source=6, target=5, sharpness=3.0)
CROSS = TRACE.attention("cross", 1, 0)  # [5, 6]: layer 2, head 1
SELF = TRACE.attention("encoder", 0, 1)  # [6, 6]: layer 1, head 2
STEP = TRACE.steps[2]  # the third


def holds(text: str, trace: Trace = TRACE) -> bool:
    one = Expectation.read(text)
    return one.holds(one.found(trace))


def bare(token: str) -> str:
    return token.removeprefix("▁")


ROW = CROSS[2].astype(np.float64)
KEY, OTHER = int(ROW.argmax()), int(ROW.argmin())
QUERY = SELF[4].astype(np.float64)
BITS = -(ROW * np.log2(ROW)).sum()
SCORES = TRACE.queries("cross", 1, 0) @ TRACE.keys("cross", 1, 0).T
SCORE = SCORES[2, 1] * TRACE.scale("cross", 1)
SECOND = STEP.candidates[1]
LENGTH = np.sqrt((TRACE.hidden("decoder", 1)[2].astype(np.float64) ** 2).sum())
FORMS = [  # what is true, and what is not
    (
        f"darkest cross L2H1 step 3 = {bare(TRACE.source[KEY])}",
        f"darkest cross L2H1 step 3 = {bare(TRACE.source[OTHER])}",
    ),
    (
        f"darkest encoder L1H2 from token 5 = token {QUERY.argmax() + 1}",
        f"darkest encoder L1H2 from token 5 = token {QUERY.argmin() + 1}",
    ),
    (
        f"weight cross L2H1 step 3 token {KEY + 1} = {ROW[KEY]:.6f}",
        f"weight cross L2H1 step 3 token {KEY + 1} = {ROW[KEY] + 0.001:.6f}",
    ),
    (
        f"weight encoder L1H2 from token 5 to token 1 about {QUERY[0]:.2f}",
        f"weight encoder L1H2 from token 5 to token 1 about {QUERY[0] + 0.02:.2f}",
    ),
    (
        f"score cross L2H1 step 3 token 2 = {SCORE:.6f}",
        f"score cross L2H1 step 3 token 2 = {SCORE + 1:.6f}",
    ),
    ("sum cross L2H1 step 3 = 1", "sum cross L2H1 step 3 > 1.0001"),
    (
        f"entropy cross L2H1 step 3 about {BITS:.3f}",
        f"entropy cross L2H1 step 3 < {BITS - 0.01:.3f}",
    ),
    ("later decoder L1H1 = 0", "later decoder L1H1 > 0"),
    (f"next step 3 = {bare(STEP.token)}", "next step 3 = nothing"),
    (f"next step 3 = {STEP.token}", f"next step 4 = {STEP.token}"),
    (f"translation = {TRACE.text}", f"translation = {TRACE.text} more"),
    (
        f"probability step 3 = {STEP.probability:.6f}",
        f"probability step 3 < {STEP.probability / 2:.6f}",
    ),
    (
        f"probability step 3 {SECOND.token} about {SECOND.probability:.4f}",
        f"probability step 3 {SECOND.token} > {SECOND.probability + 0.01:.4f}",
    ),
    (
        f"entropy step 3 about {STEP.entropy:.2f}",
        f"entropy step 3 > {STEP.entropy + 1:.2f}",
    ),
    (
        f"length decoder L1 step 3 about {LENGTH:.3f}",
        f"length decoder L1 step 3 > {LENGTH + 0.1:.3f}",
    ),
    ("scale cross L2 = 0.5", "scale cross L2 = 1"),
    ("layers cross = 2", "layers cross = 3"),
    ("heads encoder = 2", "heads encoder = 1"),
    ("size decoder = 4", "size decoder = 8"),
    ("tokens source = 6", "tokens source = 5"),
    ("tokens target = 5", "tokens target > 5"),
]


@pytest.mark.parametrize(("true", "false"), FORMS)
def test_each_form_is_true_of_its_numbers_and_false_of_others(
    true: str, false: str
) -> None:
    assert holds(true)
    assert not holds(false)


def test_a_leak_is_seen_on_later_tokens_alone() -> None:
    open_mask = np.ones((5, 5), bool)
    leaking = replace(TRACE, masks={**TRACE.masks, "decoder": open_mask})
    most = max(
        leaking.attention("decoder", 0, 0)[q, k]
        for q in range(5)
        for k in range(q + 1, 5)
    )
    assert holds(f"later decoder L1H1 = {most:.6f}", leaking)


def test_nothing_holds_of_numbers_that_are_none() -> None:
    rows = np.full_like(TRACE.decoder_rows, np.nan)
    broken = replace(TRACE, decoder_rows=rows)
    for right in ("= 0", "> 0", "< 1", "about 0"):
        assert not holds(f"weight cross L2H1 step 3 token 1 {right}", broken)
    assert not holds(f"darkest cross L2H1 step 3 = {bare(TRACE.source[0])}", broken)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "darkest",
        "darkest cross L2H1 step 3",
        "darkest cross L0H1 step 3 = a",
        "darkest encoder L1H1 step 3 = a",  # a step is no row of the encoder
        "weight cross L2H1 step 3 a = b",
        "weight cross L2H1 step 3 a > 1e9999",
        "weight cross L2H1 step 3 a about",
        "probability step 0 > 0.5",
        "translation > 3",
        "next step 99999999999 = a",
    ],
)
def test_what_is_no_expectation_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot be checked"):
        Expectation.read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("darkest cross L3H1 step 3 = a", "no such layer or head"),
        ("darkest cross L2H9 step 3 = a", "no such layer or head"),
        ("sum cross L2H1 step 6 = 1", "There is no step 6: the run has 5"),
        ("weight cross L2H1 step 3 zebra > 0", "has no “zebra”"),
        ("weight cross L2H1 step 3 token 7 > 0", "has no “token 7”"),
        ("probability step 3 zebra > 0", "not among the 5 best"),
        ("scale cross L3 = 1", "no such layer or head"),
    ],
)
def test_what_a_run_does_not_have_is_said(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        holds(text)


def test_a_token_that_is_there_twice_needs_its_place() -> None:
    twice = replace(TRACE, source=("▁a", "▁b", "▁a", *TRACE.source[3:]))
    with pytest.raises(InputError, match=r"occurs 2 times: .*“token 1”"):
        holds("weight cross L2H1 step 3 a > 0", twice)
    assert holds("weight cross L2H1 step 3 token 3 > 0", twice)


def test_the_answer_to_a_question_is_a_cell() -> None:
    one = Expectation.read("darkest cross L2H1 step 3 = a")
    assert one.cell(TRACE) == ("cross", 2, int(CROSS[2].argmax()))
    assert Expectation.read("sum cross L2H1 step 3 = 1").cell(TRACE) is None
