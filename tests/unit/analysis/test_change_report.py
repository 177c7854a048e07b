"""A change's report: its numbers against the logits, its equal rows against the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from tests.changes_by_hand import EFFECTS, OTHER, PATCHES
from tests.tiny_models import count_encodings, tiny_checkpoint
from visformer.analysis.change_report import change_report, no_effect_words
from visformer.core.decoding import Decoding
from visformer.core.model import Transformer
from visformer.core.passes import run
from visformer.errors import InputError
from visformer.values.intervention import parse
from visformer.values.measured import ChangeReport
from visformer.values.step import Choice
from visformer.values.trace import Trace

SOURCE, TARGET = [4, 5, 6, 7], [1, 8, 9, 10, 11]
LAYERS = 3 * (4 + 5)  # rows of both streams: before the first layer, after each of two


def runs(text: str) -> tuple[Trace, Trace]:
    checkpoint = tiny_checkpoint()
    made = (run(checkpoint, [SOURCE], [TARGET], intervention=t)[0] for t in ("", text))
    return next(made), next(made)


def report(text: str, step: int = -1) -> ChangeReport:
    return change_report(*runs(text), step)


def test_the_effect_is_that_of_the_logits() -> None:
    original, changed = runs("head cross off @ L2H1")
    found = change_report(original, changed, 2)
    was, now = (
        np.log(np.exp(x) / np.exp(x).sum())
        for x in (one.logits[2].astype(np.float64) for one in (original, changed))
    )
    token, other = 10, int(np.argsort(was)[-1])
    assert token != other
    assert found.token == changed.target[3]
    np.testing.assert_allclose(found.log_p, (was[token], now[token]), atol=1e-5)
    apart = was[token] - was[other], now[token] - now[other]
    np.testing.assert_allclose(found.logit_difference, apart, atol=1e-5)
    kl = (np.exp(was) * (was - now)).sum()
    assert found.divergence == pytest.approx(kl, abs=1e-6)
    assert kl > 1e-4
    ranks = [1 + int((x > x[token]).sum()) for x in (was, now)]
    assert found.rank == tuple(ranks)
    assert found.moved
    assert found.reason == ""


@pytest.mark.parametrize(
    ("text", "independent"),
    [
        # all of the encoder, the decoder's streams that enter layers 1 and 2
        ("head cross off @ L2H1", 12 + 10),
        ("head cross off", 12 + 5),
        ("cell cross 3 2 = 0.75 @ L2H1", 12 + 10 + 2),
        ("value decoder 4 off @ L1", 12 + 5 + 3 + 3),
        ("head encoder off @ L2H1", 8 + 5),
        ("layer encoder off @ L1", 4 + 5),
        ("causal off @ L2", 12 + 10),
        ("positions none", 0),
        ('embedding target 3 = "q"', 12 + 2 * 3),
        ('embedding source 1 = "q"', 5),
        ("cell decoder 2 4 on @ L2H1", 12 + 10 + 1),
    ],
)
def test_rows_that_cannot_depend_on_it_are_equal(text: str, independent: int) -> None:
    found = report(text)
    assert found.independent == found.equal == independent
    assert found.moved


@pytest.mark.parametrize(
    ("text", "distance"),
    [
        ("cell cross 3 2 = 0.75", 0),
        ("cell encoder 1 2 * 3 @ L1H1", 0),
        ("row decoder 4 = uniform", 0),
        ("head cross off", 0),
        ("cell cross 3 2 = 2 raw @ L1H1", None),
    ],
)
def test_whether_rows_sum_to_one_is_measured(text: str, distance: float | None) -> None:
    original, changed = runs(text)
    if distance is None:
        distance = 2 - original.attention("cross", 0, 0)[2, 1]
    assert change_report(original, changed).row_sums == pytest.approx(
        distance, abs=2e-6
    )


@pytest.mark.parametrize(
    ("text", "step", "reason"),
    [
        ("cell cross 4 2 off", 2, "it acts from step 4 on"),
        ("value decoder 5 off", 3, "it acts from step 5 on"),
        ("cell decoder 2 4 off", -1, "what it sets was so already"),
        ("cell decoder 1 1 = 1", -1, ""),
        ("head cross * 1", -1, ""),
        ("head cross only @ L1H1,L1H2", -1, ""),
    ],
)
def test_no_effect_is_said(text: str, step: int, reason: str) -> None:
    found = report(text, step)
    assert not found.moved
    assert found.reason == reason
    assert found.divergence == 0
    assert found.log_p[0] == found.log_p[1]


def test_runs_of_other_lengths_say_why_nothing_moved() -> None:
    original, changed = runs("cell decoder 2 4 off")
    for pair in ((original.until(3), changed), (original, changed.until(3))):
        assert no_effect_words(*pair, 2) == "what it sets was so already"


def test_nan_is_reported_as_nan() -> None:
    found = report("scale 1e3; head cross * 1000; masked score -inf; hide 1 @ L1")
    assert np.isfinite(found.divergence)
    hidden = "; ".join(f"hide {n}" for n in range(1, 5))
    empty = report(f"masked score -inf; {hidden}")
    assert np.isnan([empty.divergence, empty.log_p[1], empty.row_sums]).all()
    assert empty.moved


def test_runs_of_other_tokens_are_refused() -> None:
    original, changed = runs("head cross off")
    (other,) = run(tiny_checkpoint(), [SOURCE], [[1, 8, 9, 12, 11]])
    assert change_report(other, changed, 2).moved  # the same tokens so far
    with pytest.raises(InputError, match="own tokens"):
        change_report(other, changed, 3)
    with pytest.raises(InputError, match=r"step is 5, but must be a .* -5 to 4"):
        change_report(original, changed, 5)


def assert_alike(found: ChangeReport, expected: ChangeReport) -> None:
    rounded = {"log_p", "logit_difference", "divergence", "row_sums"}
    for name in set(ChangeReport._fields) - rounded:
        assert getattr(found, name) == getattr(expected, name), name
    for name in rounded:
        ours, theirs = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("text", [*EFFECTS, *PATCHES])
def test_a_decoding_tells_what_two_passes_tell(text: str) -> None:
    checkpoint = tiny_checkpoint()
    (clean,) = run(checkpoint, [OTHER[0]], [OTHER[1]])
    change = parse([text]).filled({"clean": clean})
    decoding = Decoding(checkpoint, SOURCE, limit=5, intervention=change)
    decoding.step(4)
    choices = [step.choice for step in decoding.trace.steps]
    together = decoding.change_reports(choices, 1)
    assert [*together] == ([1] if change.reaches_back else [*range(len(choices))])
    for at, report in together.items():
        alone = decoding.change_report(at)
        if abs(alone.divergence) < 1e-6:  # a row of a run of another length is put in
            alone = alone._replace(moved=report.moved)
        assert_alike(report, alone)
    for step in (-1, 0, 1):
        ids = decoding.trace.target_ids[: step + 1 or None].tolist()
        original, changed = (
            run(checkpoint, [SOURCE], [ids], intervention=one)[0]
            for one in ("", change)
        )
        token = decoding.trace.steps[step]
        changed = replace(changed, steps=(*changed.steps[:-1], token))
        expected = change_report(original, changed)
        found = decoding.change_report(step)
        assert_alike(found, expected)
        assert found.independent == found.equal
    with pytest.raises(InputError, match=r"step is 4, but must be a whole .* from -\d"):
        decoding.change_report(4)


@pytest.mark.parametrize(
    ("text", "rule", "passes"),
    [
        ("head cross off @ L1H1", "keys", [5, 5]),
        # a later token changes the rows: by the change, or as pads do in this model
        ("head decoder mean", "keys", [2, 2]),
        ("head cross off @ L1H1", "target_rows", [5, 5, 2, 2]),
    ],
)
def test_all_steps_take_one_pass_of_each_run(
    text: str, rule: str, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, decode = [], Transformer.decode

    def counted(self: Transformer, ids: Tensor, *given: Any) -> Any:
        made.append(ids.shape[1])
        return decode(self, ids, *given)

    monkeypatch.setattr(Transformer, "decode", counted)
    encoded = count_encodings(monkeypatch)
    checkpoint = tiny_checkpoint(mask_rule=rule)
    decoding = Decoding(checkpoint, SOURCE, intervention=text)
    choices = [Choice(id, "forced") for id in (8, 9, 0, 11, 12)]
    told = decoding.change_reports(choices, 1)
    assert [*told] == ([0, 1, 2, 3, 4] if passes == [5, 5] else [1])
    assert made == passes
    assert encoded == [len(SOURCE)] * len(passes)


def test_before_a_step_there_is_nothing_to_report() -> None:
    decoding = Decoding(tiny_checkpoint(), SOURCE, intervention="head cross off")
    with pytest.raises(InputError, match="Nothing was decoded"):
        decoding.change_report()


def test_a_decoding_without_a_change_reports_none() -> None:
    decoding = Decoding(tiny_checkpoint(), SOURCE)
    decoding.step(3)
    found = decoding.change_report()
    assert not found.moved
    assert found.log_p[0] == found.log_p[1]
    assert (found.divergence, found.row_sums) == (0, 0)
