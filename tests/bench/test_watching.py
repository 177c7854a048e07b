"""The benchmarks of watching, at a tiny size."""

from __future__ import annotations

import pytest

from tests.bench.time_training import watched_pass, watched_training
from tests.tiny_models import tiny_config


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_watching_is_measured_against_the_plain_pass() -> None:
    figure = watched_pass(tiny_config(), 1e6, "tiny")
    assert figure.met
    assert figure.parts["watched ms"] > figure.parts["plain ms"] > 0


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_trace_every_hundred_steps_is_measured() -> None:
    figure = watched_training(tiny_config(), 64)
    assert figure.value is not None
    parts = figure.parts
    share = parts["a Trace ms"] / parts["a training step ms"]
    assert figure.value == pytest.approx(share, rel=0.5)
