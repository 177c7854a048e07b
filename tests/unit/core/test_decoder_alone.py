"""A decoder without an encoder, as tutorials 002 and 003 allow (finding 003-14)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import visformer
from tests.system.tutorials import labml
from tests.unit.core.variants import difference, maps_of, small, tutorial
from visformer.core.passes import run
from visformer.errors import InputError
from visformer.formats.loading import presets
from visformer.values.facts import Kind
from visformer.values.intervention import parse

TARGET = torch.tensor([[2, 7, 8, 9], [2, 11, 1, 1], [2, 1, 12, 13]])


def test_labml() -> None:
    checkpoint = small("labml")
    own = tutorial(checkpoint)
    mask = labml.masks(TARGET, TARGET)[1].permute(1, 2, 0)  # [T, T, B]
    with torch.no_grad():
        theirs = own.decode(None, None, TARGET.t(), mask).transpose(0, 1)
    for row, trace in enumerate(run(checkpoint, None, TARGET)):
        assert difference(trace.logits, theirs[row]) <= 2e-5
        for layer in range(3):
            weights = maps_of(own)["decoder", layer][row]
            assert difference(trace.attention("decoder", layer), weights) <= 2e-5


def test_modular() -> None:
    checkpoint = small("modular")
    checkpoint.tokenizer.pad = 1
    own = tutorial(checkpoint)
    with torch.no_grad():
        theirs = own.decoder(TARGET, None, own.target_mask(TARGET), None)
    for row, trace in enumerate(run(checkpoint, None, TARGET)):
        assert difference(trace.logits, theirs[row]) <= 2e-5
        weights = maps_of(own)["decoder", 2][row]
        assert difference(trace.attention("decoder", 2), weights) <= 2e-5
    assert np.allclose(trace.attention("decoder", 0)[:, 1], 1 / 4)  # a pad's own row


@pytest.mark.parametrize("preset", presets())
def test_there_is_nothing_of_an_encoder(preset: str, tmp_path: Path) -> None:
    checkpoint = small(preset)
    trace = run(checkpoint, None, TARGET)[0]
    assert (trace.source, trace.source_ids.tolist()) == ((), [])
    assert trace.layers("encoder") == trace.layers("cross") == 0
    assert trace.kinds == ("decoder",)
    assert trace.encoder_rows.size == trace.memory_rows.size == 0
    with pytest.raises(InputError, match="output is not in this trace"):
        _ = trace.encoder_output
    assert [step.origin for step in trace.steps] == ["reference"] * 3 + ["model"]
    kinds: tuple[Kind, ...] = ("encoder", "cross")
    for kind in kinds:
        with pytest.raises(InputError, match=f"no “{kind}” attention: it has decoder"):
            trace.attention(kind, 0)
    with pytest.raises(
        InputError, match="encoder's hidden states are not in this trace"
    ):
        trace.hidden("encoder", 0)
    trace.save(tmp_path / "alone.vis")
    again = visformer.open_trace(tmp_path / "alone.vis")
    assert again.layers("cross") == 0
    assert (
        difference(again.attention("decoder", 1), trace.attention("decoder", 1)) <= 2e-5
    )


def test_masks_and_changes_of_the_decoder_alone() -> None:
    checkpoint = small("paper")
    mask = np.ones((1, 4, 4), bool)
    given = run(checkpoint, None, TARGET[:1], masks={"decoder": mask})[0]
    assert given.masks["decoder"].all()
    changed = parse(["causal off"])
    opened = run(checkpoint, None, TARGET[:1], intervention=changed)[0]
    assert difference(opened.logits, given.logits) <= 2e-5
    with pytest.raises(InputError, match="the source has 0 tokens"):
        run(checkpoint, None, TARGET, intervention=parse(["cell cross 1 1 off"]))
    with pytest.raises(InputError, match="source_lengths needs source_ids"):
        run(small("d2l"), None, TARGET, source_lengths=[1, 1, 1])
