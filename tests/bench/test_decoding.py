"""The benchmarks of decoding at a tiny size: both sides compute the same."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.bench import time_decoding
from tests.bench import time_decoding as decoding
from tests.bench.measurements import Measurement
from tests.bench.time_decoding import random_checkpoint, random_source
from visformer.core.decoding import Decoding

TINY = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "heads": 2,
    "feed_forward": 24,
    "source_vocabulary": 40,
    "target_vocabulary": 40,
}


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round, on a clock by which all that is done earlier takes longer."""
    ticks = itertools.count(10_000, -1)

    def seconds(work: Callable[[], object], clock: object = None) -> float:
        work()
        return float(next(ticks))

    monkeypatch.setattr(decoding, "ROUNDS", 1)
    monkeypatch.setattr(decoding, "seconds", seconds)


def assert_measured(figure: Measurement) -> None:
    assert figure.value is not None
    assert figure.value > 0, figure
    assert all(part >= 0 for part in figure.parts.values())


def test_a_random_model_never_ends_a_sentence() -> None:
    checkpoint = random_checkpoint(**TINY)
    source = random_source(checkpoint, 7)
    steps = Decoding(checkpoint, source, limit=20).finish().steps
    assert len(steps) == 20
    assert {checkpoint.tokenizer.eos, checkpoint.tokenizer.pad}.isdisjoint(
        [*source, *(step.id for step in steps)]
    )


def test_figures_without_peers() -> None:
    assert_measured(decoding.against_reading(TINY, 3))
    assert_measured(decoding.against_decoding(TINY, 5))


def test_a_step_makes_as_many_calls_whatever_the_length() -> None:
    checkpoint = random_checkpoint(**TINY)
    sources = [random_source(checkpoint, length) for length in (3, 3, 90)]
    _, short, long = [decoding.calls(checkpoint, source) for source in sources]
    assert short == long > 50  # the first time is dearer


def test_busy_processes_end() -> None:
    with decoding.busy(1):
        pass


def test_against_transformers() -> None:
    figure = decoding.against_generate("tiny", TINY, 1.0, 3)
    assert_measured(figure)
    assert figure.parts["largest difference of a weight"] < 1e-6


def test_against_ctranslate2() -> None:
    assert_measured(decoding.against_translate("tiny", TINY, 1.0, 3))


def test_a_peer_that_differs_is_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time_decoding.transformers_marian

    def other(checkpoint: Any) -> Any:
        peer = real(checkpoint)
        with torch.no_grad():
            peer.model.decoder.layers[0].self_attn.q_proj.weight.mul_(3)
        return peer

    monkeypatch.setattr(decoding, "transformers_marian", other)
    figure = decoding.against_generate("tiny", TINY, 1.0, 3)
    assert figure.value is None
    assert "the peer's attention differs by" in figure.note


@pytest.mark.parametrize("package", ["transformers", "ctranslate2"])
def test_a_missing_peer_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    run = {
        "transformers": decoding.against_generate,
        "ctranslate2": decoding.against_translate,
    }[package]
    figure = run("tiny", TINY, 1.0, 3)
    assert figure.met is None
    assert f"needs {package}" in figure.line()
