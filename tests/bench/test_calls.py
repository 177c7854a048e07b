"""The benchmarks of whole calls at a tiny size: both sides give the same."""

from __future__ import annotations

import pytest

import visformer
from tests.bench import time_calls
from tests.bench.test_decoding import TINY, assert_measured
from tests.bench.time_decoding import SHAPES
from visformer import paths

LINES = ["I have a cat.", "The old man reads a red book.", "Who?"]


@pytest.mark.parametrize("beams", [1, 2])
def test_peers_translate_the_same(beams: int) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    model = visformer.load(paths.checkpoint(), device="cpu")
    figures = time_calls.against_peers(model, LINES, beams)
    assert [one.parts["equal texts"] for one in figures] == [len(LINES)] * 2
    for figure in figures:
        assert_measured(figure)


def test_a_page_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHAPES, "small", TINY)
    monkeypatch.setattr(time_calls, "TOKENS", 3)
    size, taken = time_calls.page()
    assert 0.01 < (size.value or 0) < 2
    assert_measured(taken)
