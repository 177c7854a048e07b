"""Passes over whole targets: who chose the tokens, what is predicted last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.tiny_models import tiny_checkpoint
from visformer.core.decoding import Decoding
from visformer.core.passes import run
from visformer.values.facts import KINDS


def test_the_last_choice_is_the_models_and_the_others_are_given() -> None:
    checkpoint = tiny_checkpoint()
    (trace,) = run(checkpoint, [[4, 5, 6]], [[1, 8, 9]])
    assert [step.origin for step in trace.steps] == ["reference", "reference", "model"]
    assert [step.id for step in trace.steps[:2]] == [8, 9]
    last = trace.steps[-1]
    assert last.id == int(trace.logits[-1].argmax())
    assert (last.rank, last.probability) == (1, last.candidates[0].probability)


@pytest.mark.parametrize("rule", ["keys", "rows_and_keys", "target_rows"])
def test_a_step_is_masked_as_in_a_pass_where_the_target_has_a_pad(rule: Any) -> None:
    checkpoint = tiny_checkpoint(mask_rule=rule, masked_value=-math.inf)
    decoding = Decoding(checkpoint, [4, 5, 6], limit=6)
    pad = checkpoint.tokenizer.pad
    trace = decoding.follow([(8, "forced"), (pad, "forced"), (9, "forced")])
    (whole,) = run(checkpoint, [[4, 5, 6]], [trace.target_ids.tolist()])
    for kind in KINDS:
        np.testing.assert_array_equal(trace.mask(kind, 0), whole.mask(kind, 0))
