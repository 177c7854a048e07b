"""The weights of a pass just run: its own, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import visformer
from visformer.core import parts, passes
from visformer.core.passes import run
from visformer.engine.decodes import lean
from visformer.values.facts import KINDS, Kind

SIZES: dict[str, Any] = {
    "source_vocabulary": 23,
    "target_vocabulary": 19,
    "d_model": 64,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward": 24,
}
SOURCE = torch.tensor([[4, 5, 6, 7, 8, 9], [10, 11, 12, 0, 0, 0], [3, 0, 4, 5, 0, 0]])
TARGET = torch.tensor([[2, 7, 8, 9], [2, 11, 0, 0], [2, 0, 12, 13]])


@pytest.mark.parametrize("preset", ["handout", "d2l", "labml", "modular", "scratch"])
@pytest.mark.parametrize("block", [3, 1024])
def test_weights_of_large_scores(
    preset: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of hundreds, as scaled embeddings make, leave no room for rounding."""
    checkpoint = visformer.build(preset, device="cpu", **SIZES)
    with torch.no_grad():
        checkpoint.model.source_embedding.weight.normal_(std=30)
        checkpoint.model.target_embedding.weight.normal_(std=30)
    blocks: list[list[Tensor]] = []  # of each attention
    original = parts.attention_weights

    def kept(*given: Any, **more: Any) -> Tensor:
        if given[5] == 0:  # its first row
            blocks.append([])
        blocks[-1].append(original(*given, **more))
        return blocks[-1][-1]

    with monkeypatch.context() as patch:
        patch.setattr(parts, "attention_weights", kept)
        patch.setattr(parts, "QUERY_BLOCK", block)
        traces = run(checkpoint, SOURCE, TARGET)
    monkeypatch.setattr(parts, "QUERY_BLOCK", block)
    used = [torch.cat(each, 2) for each in blocks]
    assert len(used) == 6
    by_kind: dict[Kind, list[Tensor]] = {
        "encoder": used[:2],
        "decoder": used[2::2],
        "cross": used[3::2],
    }
    first = traces[0]
    if preset != "labml":  # whose sublayers read a norm
        assert float(np.abs(first.scores("encoder", 0)).max()) > 100
    for row, trace in enumerate(traces):
        for kind in KINDS:
            for layer, weights in enumerate(by_kind[kind]):
                own = weights[row].numpy()
                found = trace.attention(kind, layer)
                assert np.array_equal(found, own, equal_nan=True)
                one = trace.attention(kind, layer, 1)
                assert np.array_equal(one, own[1], equal_nan=True)
                assert not one.flags.writeable


def test_one_head_of_a_long_pass_is_made_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = visformer.build("handout", device="cpu", **SIZES)
    trace = run(checkpoint, SOURCE, TARGET)[1]
    monkeypatch.setattr(passes, "WHOLE_LAYER", 10)
    one, every = trace.attention("cross", 1, 2), trace.attention("cross", 1)
    assert one.shape == (4, 6)
    assert np.allclose(one, every[2], rtol=0, atol=1e-6)


def test_what_leaves_the_process_derives_weights_and_what_is_cut_keeps_them() -> None:
    checkpoint = visformer.build("handout", device="cpu", **SIZES)
    trace = run(checkpoint, SOURCE, TARGET)[0]
    assert trace.own_weights is not None
    own, apart = trace.attention("decoder", 1), lean(trace)
    assert apart.own_weights is None
    assert np.allclose(apart.attention("decoder", 1), own, atol=1e-5)
    assert np.array_equal(trace.until(2).attention("decoder", 1), own[:, :2, :2])
    assert np.array_equal(trace.until(2).attention("decoder", 1, 3), own[3, :2, :2])
