"""Layers, heads and rows as people type them: one, from the end, several, or all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.traces import make_trace
from visformer.errors import InputError
from visformer.pictures.attention.reading import summary

TRACE = make_trace()  # 2 layers of 2 heads of each kind
PLACES: list[tuple[Any, Any]] = [
    (-1, 0),
    (1, -2),
    (None, None),
    (None, -1),
    ([1, 0], [-1]),
    (slice(None, None, -1), slice(0, 1)),
    (np.array([0, 1]), np.int64(1)),
    ([-1], range(2)),
]


@pytest.mark.parametrize("name", ["attention", "scores", "queries", "keys", "values"])
@pytest.mark.parametrize(("layer", "head"), PLACES)
def test_several_are_stacked_layers_first(name: str, layer: Any, head: Any) -> None:
    read = getattr(TRACE, name)
    for kind in TRACE.kinds:
        every = np.stack([[read(kind, at, h) for h in range(2)] for at in range(2)])
        layers = slice(None) if layer is None else layer
        heads = slice(None) if head is None else head
        expected = every[layers][..., heads, :, :]  # [L, H, Q, K]
        np.testing.assert_array_equal(read(kind, layer, head), expected)


def test_masks_and_hidden_states_take_the_same_places() -> None:
    assert TRACE.mask("cross").shape == (2, *TRACE.mask("cross", 0).shape)
    assert (TRACE.mask("decoder", [-1])[0] == TRACE.mask("decoder", 1)).all()
    last = TRACE.hidden("decoder", -1)
    assert (TRACE.hidden("decoder")[2] == last).all()
    assert (TRACE.hidden("decoder", slice(1, None))[1] == last).all()
    assert TRACE.scale("cross", -1) == TRACE.scale("cross", 1)
    assert not TRACE.is_captured("cross", -1)
    with pytest.raises(InputError, match="layer is 2, but"):
        TRACE.is_captured("cross", 2)
    with pytest.raises(TypeError, match="a whole number, a list of them or a slice"):
        TRACE.mask("cross", slice("a", None))


def test_entropies_are_of_attention_or_of_the_next_tokens() -> None:
    weights = TRACE.attention("cross")
    by_hand = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1)
    found = TRACE.entropy("cross")  # [L, H, Q]
    np.testing.assert_allclose(found, by_hand, atol=1e-6)
    np.testing.assert_array_equal(TRACE.entropy("cross", -1, [0])[0], found[1, 0])
    steps = [step.entropy for step in TRACE.steps]
    assert TRACE.entropy().tolist() == np.array(steps, np.float32).tolist()
    assert TRACE.entropy().shape == (len(TRACE),)


def test_a_rollout_is_the_one_that_the_window_shows() -> None:
    for kind in TRACE.kinds:
        for layer in (0, 1):
            shown = summary(TRACE, kind, layer, "rollout")
            assert shown is not None
            made = TRACE.rollout(kind, layer)
            np.testing.assert_allclose(made, shown, atol=1e-6)
            np.testing.assert_allclose(made.sum(-1), 1, atol=1e-5)
        np.testing.assert_array_equal(TRACE.rollout(kind), made)
    first = TRACE.attention("encoder", 0).mean(0) + np.eye(len(TRACE.source))
    np.testing.assert_allclose(TRACE.rollout("encoder", 0), first / 2, atol=1e-6)


def test_only_vis_files_are_written(tmp_path: Any) -> None:
    for name in ("x.npz", "run.json", "x.vis.gz"):
        with pytest.raises(InputError, match=r"only as \.vis: choose a name"):
            TRACE.save(tmp_path / name)
        assert not (tmp_path / name).exists()
    for name in ("x.vis", "X.VIS", "plain"):
        TRACE.save(tmp_path / name)
        assert (tmp_path / name).exists()


def test_what_is_apart_from_its_model_has_no_lens() -> None:
    with pytest.raises(InputError, match="no logit lens: its model is not at hand"):
        TRACE.lens()
