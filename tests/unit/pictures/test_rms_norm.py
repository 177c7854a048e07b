"""Norms without a mean or without a shift, wherever the model's norm is described."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.traces import with_config
from tests.unit.pictures.computed import shown, state_of, traced, values
from visformer.session.state import State


def with_norm(**choices: Any) -> State:
    """Return a State whose model has another norm than it was computed with."""
    checkpoint, trace = traced()
    model = with_config(trace.model, **choices)
    state = state_of(checkpoint, replace(trace, model=model), kind="decoder")
    (parameters,) = state.parameters
    weights = parameters.self_attention
    norm = weights.norm
    if not choices.get("norm_bias", True):
        norm = replace(norm, beta=None)
    return replace(
        state,
        parameters=(
            replace(
                parameters, model=model, self_attention=replace(weights, norm=norm)
            ),
        ),
    )


def test_an_rms_norm_is_compared_under_its_own_name() -> None:
    state = with_norm(norm="rms", norm_bias=False)
    x, own, _batch = values(state, "norms")
    eps = state.trace.model.config.norm_eps if state.trace is not None else 0.0
    root = np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + eps)
    assert np.allclose(own, x / root, atol=1e-5)
    picture = shown(state, "norms")
    assert "uses RMS norm" in picture.words
    assert "layer norm" not in picture.words
    assert "mean of x²" in picture.formula
    assert picture.table.rows[1] == "RMS norm"


def test_a_residuals_steps_have_no_mean_and_no_shift() -> None:
    state = with_norm(norm="rms", norm_bias=False)
    picture = shown(state, "residual")
    assert "sum / root mean square" in picture.table.rows
    assert "γ" in picture.table.rows
    assert "β" not in picture.table.rows
    assert "root mean square" in picture.words
    layer = shown(with_norm(norm_bias=False), "residual")
    assert "(sum − mean) / deviation" in layer.table.rows
    assert "β" not in layer.table.rows
