"""Each term says its formula and the number that it has now."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.tiny_models import tiny_checkpoint
from tests.traces import VOCABULARY, make_trace
from tests.unit.pictures.test_explanations import scene
from tests.unit.pictures.test_output import state_of
from visformer.analysis.head_measures import entropy, maximum, place_correlation
from visformer.pictures.output import known_rows
from visformer.pictures.selection import SUMMARIES, Look, Order
from visformer.pictures.words.terms import TERMS, term_words
from visformer.words import number


@pytest.mark.parametrize("term", TERMS)
def test_every_term_is_explained_with_and_without_a_run(term: str) -> None:
    said = term_words(term, scene())  # type: ignore[arg-type]
    assert len(said) > 20
    assert "{" not in said
    empty = replace(scene(), trace=None, model=None)
    assert "{" not in term_words(term, empty)  # type: ignore[arg-type]
    assert term_words(term, scene(make_trace().until(0))) is not None  # type: ignore[arg-type]


def test_a_heads_measure_is_the_current_heads() -> None:
    looked = scene()
    assert looked.trace is not None
    weights = looked.trace.attention("cross", 1, 1)
    measures: dict[Order, float] = {
        "entropy": entropy(weights),
        "maximum": maximum(weights),
        "alignment": place_correlation(weights),
    }
    for order in measures:
        said = term_words("order", replace(looked, look=Look(order=order)))
        assert f"{measures[order]:.2f}".replace("-", "−") in said
        assert "layer 2, head 2" in said


def test_each_summary_has_its_formula() -> None:
    looked = scene(kind="decoder")
    said = {
        summary: term_words("summary", replace(looked, look=Look(summary=summary)))
        for summary in SUMMARIES
    }
    assert len({*said.values()}) == len(SUMMARIES)
    assert "½ A + ½ I" in said["rollout"]
    assert "the layers 1 to 2" in said["rollout"]


def test_a_rollout_of_cross_attention_multiplies_one_layer_with_the_encoder() -> None:
    said = term_words("summary", scene(look=Look(summary="rollout")))
    assert "of layer 2 times the rollout of the whole encoder" in said
    assert "½" not in said


def test_the_logit_and_its_sum_are_the_steps() -> None:
    state = state_of(4)
    look = known_rows(state.visible, state.lens)[3]
    said = term_words("logit", state.scene)
    z, total = float(look.chosen_logits[-1]), float(look.log_sums[-1])
    assert f"{z:.4f}".replace("-", "−") in said
    assert f"= {total:.4f}".replace("-", "−") in said
    p = float(look.chosen_probabilities[-1])
    assert np.isclose(math.exp(z - total), p, rtol=1e-4)
    assert f"= {p:.4f}" in said or p < 1e-4


def test_label_smoothing_is_named_where_it_is_known() -> None:
    said = term_words("probability", scene(smoothing=0.1))
    goal = 1 - 0.1 + 0.1 / VOCABULARY
    assert "ε = 0.1: even where" in said
    assert f"= {goal:.3f}" in said
    assert "often 0.1" in term_words("probability", scene())
    assert "without label smoothing" in term_words("probability", scene(smoothing=0.0))


def test_no_limit_is_claimed_that_the_model_may_not_have() -> None:
    looked = scene()
    said = term_words("limit", looked)
    assert "the model's own rule where it has one" in said
    assert said.endswith("With S = 5, 2 S + 50 = 60.")
    assert term_words("limit", replace(looked, limit=7)) == "At most 7 target tokens."


def test_a_cosine_has_the_number_of_the_list() -> None:
    ask = tiny_checkpoint().extras.nearest
    assert ask is not None
    near = ask("source", 5)
    looked = replace(scene(), near=near)
    assert number(float(near.cosines[1])) in term_words("cosine", looked)
