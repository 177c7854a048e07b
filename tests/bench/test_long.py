"""The benchmarks of long sources at a small size: what is timed is what is named."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import visformer
from tests.bench import time_long as long
from tests.bench.test_decoding import TINY, assert_measured
from tests.bench.time_decoding import SHAPES
from tests.bench.windows import attention_of
from visformer.ui.window.window import MainWindow

TOKENS = 24


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "ROUNDS", 1)
    monkeypatch.setattr(long, "LONG", TOKENS)
    monkeypatch.setattr(long, "SHORTER", TOKENS)


@pytest.mark.parametrize("shape", ["small", "opus"])
def test_a_model_reads_as_many_tokens_as_are_measured(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = TINY | {"source_vocabulary": 200, "target_vocabulary": 200}
    monkeypatch.setitem(SHAPES, "opus", sizes)
    long.write_model(shape, TOKENS, tmp_path / shape)
    model = visformer.load(tmp_path / shape, device="cpu")
    assert model.config.max_positions == TOKENS
    assert len(model.vocabulary.read("I see 1 cat. " * 99).ids) == TOKENS
    if shape == "opus":
        assert model.config.d_model == sizes["d_model"]
        trace = visformer.Decoding(model, "I see 1 cat.", limit=9).finish()
        assert len(trace) == 9  # which random weights would end sooner or later
        assert not any("<unk" in token for token in trace.source)


@pytest.mark.slow
@pytest.mark.usefixtures("qapp")
def test_figures_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    turned = long.turned

    def watched(window: MainWindow, **to: Any) -> float:
        taken, state = turned(window, **to), window.session.state
        assert state.trace is not None
        assert len(state.trace.source) == TOKENS
        assert not attention_of(window).drawing
        seen.append((state.kind, state.head))
        return taken

    monkeypatch.setattr(long, "turned", watched)
    monkeypatch.setattr(long, "memory_of", lambda module: 0)
    with long.long_model("small", TOKENS) as opened:  # once: it takes an engine
        monkeypatch.setattr(long, "long_model", lambda *_: nullcontext(opened))
        figures = [*long.shorter_source(), *long.long_source("small", 4)]
        figures.append(long.newer_sentence("small"))
    for figure in figures:
        assert_measured(figure)
    assert [figure.budget for figure in figures] == [11] * 6 + [24]
    (shown, _head), *_heads = seen
    assert [head for _kind, head in seen[:3] + seen[6:]] == [1, 2, 3] * 2
    assert {kind for kind, _head in seen[:3]} == {shown}
    assert [kind for kind, _head in seen[3:6]] == ["encoder", shown, "encoder"]
    assert shown != "encoder"  # its heads are drawn for the first time
