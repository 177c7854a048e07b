"""A short run of the kills, and the proof that they notice a wrong picture."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kills.__main__ import difference, run
from tests.tiny_models import tiny_checkpoint
from visformer.core.decoding import Decoding
from visformer.session.recipe import WantedRun
from visformer.values.intervention import parse
from visformer.values.step import Choice


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_what_killed_windows_worked_on_comes_back(tmp_path: Path) -> None:
    report = run(tmp_path, kills=4, seed=1)
    assert report.faults == []
    # the second kill, for one, waits until work is kept, the third until it is open
    assert report.kept
    assert report.restored


def test_a_run_of_another_wish_is_noticed() -> None:
    checkpoint = tiny_checkpoint()
    wanted = WantedRun(sentence="abc", limit=6)
    trace = Decoding(checkpoint, "abc", limit=6).finish()
    assert difference(trace, wanted, checkpoint) == ""
    assert difference(trace.until(2), wanted, checkpoint) == ""
    assert difference(replace(trace, source_text="abd"), wanted, checkpoint)
    hidden = parse(["hide 1"])
    assert difference(replace(trace, intervention=hidden), wanted, checkpoint)
    changed = WantedRun(sentence="abc", limit=6, change=hidden.to_json())
    other = replace(trace, intervention=hidden)
    assert difference(other, changed, checkpoint)
    forced = WantedRun(
        sentence="abc", limit=6, prefix=(Choice(trace.steps[0].id + 1, "forced"),)
    )
    assert difference(trace, forced, checkpoint)


def test_a_run_that_has_not_come_to_its_end_is_compared_with_as_much() -> None:
    """Where the causal mask is off, tokens that follow change the rows before them."""
    checkpoint, change = tiny_checkpoint(), parse(["causal off"])
    whole = Decoding(checkpoint, "abc", limit=8, intervention=change).finish()
    prefix = tuple(step.choice for step in whole.steps[:5])
    wanted = WantedRun(sentence="abc", limit=8, change=change.to_json(), prefix=prefix)
    part = Decoding(checkpoint, "abc", limit=8, intervention=change).step(3)
    assert difference(part, wanted, checkpoint) == ""
    assert difference(whole.until(3), wanted, checkpoint)
