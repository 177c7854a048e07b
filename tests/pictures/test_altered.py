"""What is said of a run that was altered."""

from __future__ import annotations

from dataclasses import replace

from tests.traces import make_trace
from visformer.pictures.altered import altered_words
from visformer.values.intervention import UNTOUCHED, parse


def test_the_change_and_both_texts_are_said() -> None:
    change, baseline = parse(["causal off"]), make_trace(target=3)
    assert altered_words(UNTOUCHED, baseline, None) == ""
    assert altered_words(UNTOUCHED, None, None) == ""
    assert altered_words(change, baseline, None) == "To be changed: causal off"
    run = replace(make_trace(target=2), intervention=change)
    assert altered_words(change, run, None) == "Altered run: causal off"
    assert altered_words(change, run, baseline) == (
        f"Altered run: causal off. Untouched: “{baseline.text}”"
    )
    same = replace(baseline, intervention=change)
    assert altered_words(change, same, baseline).endswith("The text stays the same.")
