from __future__ import annotations

import numpy as np

from visformer.values.attention_heads import running_rollout, through, with_residual


def test_two_layers_by_hand() -> None:
    first = np.array([[0, 1], [0, 1]], np.float32)  # with residual: .5 .5 / 0 1
    second = np.array([[1, 0], [1, 0]], np.float32)  # with residual: 1 0 / .5 .5
    assert with_residual(first).tolist() == [[0.5, 0.5], [0, 1]]
    # second @ first, since the second layer reads what the first one made
    last = list(running_rollout([first, second]))[-1]
    assert last.tolist() == [[0.5, 0.5], [0.25, 0.75]]


def test_rows_sum_to_one_and_are_renormalised() -> None:
    random = np.random.default_rng(1)
    layers = random.dirichlet(np.ones(6), (3, 6)).astype(np.float32)
    layers[1] *= 0.5  # as where tokens were left out
    for product in running_rollout(layers):
        assert np.allclose(product.sum(axis=1), 1)
    oracle = np.eye(6)
    for layer in layers.astype(np.float64):
        mixed = 0.5 * layer + 0.5 * np.eye(6)
        oracle = mixed / mixed.sum(1, keepdims=True) @ oracle
    assert np.allclose(product, oracle, atol=1e-6)


def test_nan_reaches_only_those_that_read_it() -> None:
    below = np.array([[0.5, 0.5], [np.nan, np.nan]], np.float32)
    weights = np.array([[1, 0], [0.5, 0.5], [np.nan, np.nan]], np.float32)
    made = through(weights, below)
    assert made[0].tolist() == [0.5, 0.5]
    assert np.isnan(made[1:]).all()
