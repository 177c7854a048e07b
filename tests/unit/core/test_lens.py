"""The logit lens against the Trace's own prediction, and against plain numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.lenses import plain_lens
from tests.tiny_models import tiny_checkpoint
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.lens_rows import read_streams
from visformer.errors import InputError
from visformer.values.arrays import Floats
from visformer.values.step import TOP
from visformer.values.trace import Trace

MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm_first": True, "final_norm": True},
    "pre-norm, no final norm": {"norm_first": True},
    "own norm": {"norm_first": True, "final_norm": True, "norm": "unbiased"},
    "output bias": {"output_bias": True},
    "softmax inside": {"output_bias": True, "softmax_output": True},
}


@pytest.fixture(params=MODELS)
def pair(request: pytest.FixtureRequest) -> tuple[Checkpoint, Trace]:
    checkpoint = tiny_checkpoint(3, **MODELS[request.param])
    forced = [20, 9, 15, 4, 27]  # hardly ever the best
    return checkpoint, Decoding(checkpoint, "abcd").follow(
        [(id, "forced") for id in forced]
    )


def final_norm(checkpoint: Checkpoint) -> Callable[[Floats], Floats]:
    config = checkpoint.config
    if not config.final_norm:
        return lambda x: x
    norm = checkpoint.model.decoder.norm
    gamma, beta = (getattr(norm, name).detach().numpy() for name in ("weight", "bias"))

    def apply(x: Floats) -> Floats:
        centred = x - x.mean(-1, keepdims=True)
        count = x.shape[-1] - (config.norm == "unbiased")
        variance = (centred**2).sum(-1, keepdims=True) / count
        made: Floats = gamma * centred / np.sqrt(variance + config.norm_eps) + beta
        return made

    return apply


def test_the_last_layer_is_the_models_own_prediction(
    pair: tuple[Checkpoint, Trace],
) -> None:
    _checkpoint, trace = pair
    assert max(step.rank for step in trace.steps) > 10
    for row, (look, step) in enumerate(zip(trace.lens(), trace.steps, strict=True)):
        best = step.candidates[:TOP]
        assert look.ids[-1].tolist() == [c.id for c in best]
        assert look.tokens[-1] == tuple(c.token for c in best)
        own = [c.probability for c in best]
        np.testing.assert_allclose(look.probabilities[-1], own, atol=2e-5)
        assert look.chosen_ranks[-1] == step.rank
        assert look.chosen_probabilities[-1] == pytest.approx(
            step.probability, abs=2e-5
        )
        shift = look.log_sums[-1] if trace.model.config.softmax_output else 0.0
        own_logit = trace.logits[row, step.id]
        assert look.chosen_logits[-1] - shift == pytest.approx(own_logit, abs=2e-5)


def test_every_layer_is_what_plain_numpy_makes_of_it(
    pair: tuple[Checkpoint, Trace],
) -> None:
    checkpoint, trace = pair
    norm = final_norm(checkpoint)
    assert trace.output_weight is not None
    expected = plain_lens(
        trace,
        [4, 1],
        trace.output_weight,
        trace.output_bias,
        norm=norm,
        temperature=0.7,
    )
    hidden, ids = trace.streams([4, 1]), np.array([27, 9])
    made = read_streams(checkpoint, hidden, ids, temperature=0.7)
    for look, plain in zip(made, expected, strict=True):
        assert look.ids.shape == (3, TOP)
        assert (look.ids == plain.ids).all()
        assert (look.chosen_ranks == plain.chosen_ranks).all()
        for name in (
            *("logits", "probabilities", "log_sums", "chosen_logits"),
            *("chosen_probabilities", "tempered_log_sum", "weight", "bias"),
        ):
            one, other = getattr(look, name), getattr(plain, name)
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(one, other, atol=2e-5, err_msg=name)


def test_the_numbers_add_up(pair: tuple[Checkpoint, Trace]) -> None:
    _checkpoint, trace = pair
    (look,) = trace.lens(1)
    summed = float(trace.decoder_output[1] @ look.weight) + (look.bias or 0.0)
    assert summed == pytest.approx(float(look.chosen_logits[-1]), abs=2e-5)
    p = np.exp(look.logits - look.log_sums[:, None])
    np.testing.assert_allclose(p, look.probabilities, atol=2e-5)


def test_a_small_vocabulary_is_shown_whole() -> None:
    checkpoint = tiny_checkpoint(source_vocabulary=6, target_vocabulary=6)
    trace = Decoding(checkpoint, [4, 5], limit=2).finish()
    look = trace.lens()[0]
    assert look.ids.shape == (3, 6)
    np.testing.assert_allclose(look.probabilities.sum(1), 1, atol=2e-5)


def test_rows_of_another_model_are_refused() -> None:
    checkpoint = tiny_checkpoint()
    trace = Decoding(checkpoint, "ab", limit=3).finish()
    with pytest.raises(InputError, match=r"row is 3, but .* from -3 to 2"):
        trace.lens([3])
    other = tiny_checkpoint(decoder_layers=3)
    with pytest.raises(InputError, match=r"\[3, 3, 16\], but must have \[3, 4, 16\]"):
        read_streams(other, trace.streams(range(3)), np.array([4, 5, 6]))
    ids = np.array([99])
    with pytest.raises(InputError, match="id 99"):
        read_streams(checkpoint, trace.streams([0]), ids)
