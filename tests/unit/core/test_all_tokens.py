"""Every token with its probability, against the steps of the run itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tiny_models import tiny_checkpoint
from visformer.core.all_tokens import distribution_of
from visformer.core.decoding import Decoding
from visformer.core.vocabulary import named
from visformer.errors import InputError
from visformer.values.intervention import NO_CHANGES, parse

MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm_first": True, "final_norm": True, "norm": "unbiased"},
    "softmax inside": {"output_bias": True, "softmax_output": True},
}


@pytest.mark.parametrize("change", ["", "causal off @ L2"])
@pytest.mark.parametrize("model", MODELS)
def test_a_stream_gives_what_its_step_chose_from(model: str, change: str) -> None:
    checkpoint = tiny_checkpoint(3, **MODELS[model])
    made = parse([change]) if change else NO_CHANGES
    decoding = Decoding(checkpoint, "abcd", intervention=made)
    trace = decoding.follow([(id, "forced") for id in (20, 9, 15)])
    size = checkpoint.config.target_vocabulary
    for row, step in enumerate(trace.steps):
        stream = trace.hidden("decoder", trace.layers("decoder"))[row]
        whole = distribution_of(checkpoint, stream)
        best = len(step.candidates)
        assert whole.ids[:best].tolist() == step.candidates.numbers[0].tolist()
        assert whole.tokens[:best] == step.candidates.tokens
        np.testing.assert_allclose(
            whole.probabilities[:best], step.candidates.numbers[1], atol=2e-7
        )
        assert sorted(whole.ids.tolist()) == list(range(size))
        assert whole.probabilities.sum() == pytest.approx(1, abs=1e-5)
        assert whole.ids[step.rank - 1] == step.id


def test_a_stream_of_another_width_is_refused() -> None:
    with pytest.raises(InputError, match="but must have"):
        distribution_of(tiny_checkpoint(3), np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("typed", "tokens", "first"),
    [
        ("elle", ("▁Elle", "elle", "▁elle", "▁elles"), "▁elle"),
        ("Elle", ("elle", "▁elle", "▁Elle"), "▁Elle"),
        ("_el", ("el", "▁el"), "▁el"),
        ("elle", ("##elle", "Elle", "elle"), "elle"),  # as WordPiece has them
        ("é", ("Ã©", "ĠÃ©", "Ġt"), "ĠÃ©"),  # as GPT-2 has them
    ],
)
def test_a_typed_word_names_the_piece_that_begins_it(
    typed: str, tokens: tuple[str, ...], first: str
) -> None:
    assert named(typed, tokens)[0][1] == first
