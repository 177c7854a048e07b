"""What is said of a run that was modified."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.traces import make_trace
from visformer.pictures.words.modified_run import effect_words, modified_words
from visformer.values.intervention import NO_CHANGES, parse


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


def test_the_effect_on_the_step_is_said() -> None:
    baseline, change = make_trace(target=3), parse(["head cross off"])
    step = baseline.steps[1]
    best = step.candidates[0]
    lower = replace(step, id=best.id, token=best.token, probability=0.001, rank=4)
    steps = (baseline.steps[0], lower, baseline.steps[2])
    run = replace(baseline, steps=steps, intervention=change)
    effect = math.log(0.001 / best.probability)
    said = (
        f"step 2: log p of “{best.token.removeprefix('▁')}” {effect:+.3g}, rank 1 → 4"
    )
    assert effect_words(run, baseline, 2) == said.replace("-", "−")
    assert effect_words(run, baseline, 0) == effect_words(run, None, 2) == ""
    assert effect_words(baseline, baseline, 2) == ""
    later = parse(["cell cross 3 1 off"])
    same = replace(baseline, intervention=later)
    words = "no effect on step 2: it acts from step 3 on"
    assert effect_words(same, baseline, 2) == words
    whole = f"Modified run: {later} ({words}). The text stays the same."
    assert modified_words(later, same, baseline, 2) == whole
