"""What is said of a run that was modified."""

from __future__ import annotations

from dataclasses import replace

from tests.traces import make_trace
from visformer.pictures.words.modified_run import modified_words
from visformer.values.change_text import parse
from visformer.values.intervention import NO_CHANGES


def test_the_change_and_both_texts_are_said() -> None:
    change, baseline = parse(["causal off"]), make_trace(target=3)
    assert modified_words(NO_CHANGES, baseline, None) == ""
    assert modified_words(NO_CHANGES, None, None) == ""
    assert modified_words(change, baseline, None) == "Requested change: causal off"
    run = replace(make_trace(target=2), intervention=change)
    assert modified_words(change, run, None) == "Modified run: causal off"
    original = "Modified run: causal off. Original text"
    words = modified_words(change, run, baseline)  # it was stopped
    assert words == f"{original}, without its end: “{baseline.text}”"
    steps = (*baseline.steps[:-1], replace(baseline.steps[-1], id=baseline.model.eos))
    ended = replace(baseline, steps=steps)
    words = modified_words(change, run, ended)
    assert words == f"{original}: “{baseline.text}”"
    same = replace(baseline, intervention=change)
    assert modified_words(change, same, baseline).endswith("The text stays the same.")
