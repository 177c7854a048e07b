"""On a GPU everything is placed there, and a step waits for it once."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import visformer
from tests.other_device import DEVICE, OtherDevice
from tests.system.training.toys import trainer
from tests.tiny_models import tiny_checkpoint
from visformer.core.decoding import Decoding
from visformer.core.model import Transformer
from visformer.training.loop import Trainer
from visformer.values.measured import ATTRIBUTIONS


def begun(text: str = "abcde", **given: Any) -> Decoding:
    checkpoint = tiny_checkpoint()
    checkpoint.model.to(DEVICE)
    return Decoding(checkpoint, text, limit=6, **given)


def test_it_tells_of_a_mixed_call_and_of_what_is_read() -> None:
    there = torch.zeros(3, 3, device=DEVICE)
    with OtherDevice() as seen, torch.inference_mode():
        with pytest.raises(RuntimeError, match="two devices"):
            _mixed = there + torch.ones(3)
        with pytest.raises(RuntimeError, match="two devices"):
            nn.functional.linear(torch.ones(3), there)
        assert (there + 1).device == DEVICE
        assert not seen.reads
        assert not there.any()
        assert there.cpu().device.type == "cpu"
        assert there.sum().item() == 0
        assert not there.nonzero().numel()
    assert not seen.reads  # they are not in the package


def test_a_step_waits_for_the_device_once() -> None:
    for strategy in ("greedy", "sample"):
        decoding = begun(strategy=strategy)
        with OtherDevice():
            assert len(decoding.start.source) == 6
        for _step in range(3):
            with OtherDevice() as seen:
                decoding.step()
            assert len(seen.reads) == 1, seen.reads
    decoding.back(2)
    with OtherDevice() as seen:
        decoding.feed("abcd")
    assert len(seen.reads) == 1, seen.reads


@pytest.mark.parametrize(
    "change", ["", "causal off", "head cross off @ L1H1", "positions none"]
)
def test_whole_passes_batches_and_beams_are_placed(change: str) -> None:
    given: dict[str, Any] = {"intervention": change} if change else {}
    with OtherDevice():
        decoding = begun(**given)
        decoding.step(3)
        ids = [[1, 2, 3], [4, 3, 2]], [[1, 2], [1, 3]]
        traces = visformer.run(decoding.checkpoint, *ids, **given)
        assert [len(trace) for trace in traces] == [2, 2]
        searched = begun(strategy="beam", **given).searching()
        for _step in range(3):
            next(searched)


@pytest.mark.parametrize("how", ATTRIBUTIONS)
def test_attribution_is_placed(how: Any) -> None:
    decoding = begun()
    with OtherDevice():
        decoding.feed("abc")
        values = decoding.attribution(how).values
    assert values is not None
    assert values.shape == (4, 6)


@pytest.mark.filterwarnings("ignore:for .* copying from a non-meta")
def test_a_step_of_training_reads_its_loss_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # which torch has for real devices alone
    monkeypatch.setattr(torch, "autocast", lambda *_given, **_more: nullcontext())
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda _kind: torch.bfloat16)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _kind: False)
    plain = trainer(tmp_path / "plain")
    model = Transformer(plain.model.config, dropout=0.1)
    examples = list(plain.data.epoch(0)[:4])
    with OtherDevice() as seen:
        there = Trainer(
            model, plain.data, plain.options, tmp_path / "on", device=DEVICE
        )
        seen.reads.clear()
        loss, count = there.step(examples, 1e-3)
    assert (loss, count) == (0, sum(len(one.target) - 1 for one in examples))
    assert len(seen.reads) == 1, seen.reads
