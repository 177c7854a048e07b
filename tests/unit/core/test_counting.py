"""Parameters by block: each tensor once, and nothing forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tiny_models import tiny_checkpoint, tiny_model
from visformer.core.decoding import Decoding
from visformer.core.loaded import count_blocks
from visformer.formats.loading import build, presets
from visformer.trace_file.trace_file import read_trace


def test_the_blocks_of_a_small_model_are_counted_by_hand() -> None:
    counts = {
        part.block: part.parameters
        for part in count_blocks(
            tiny_model(shared_embedding=False, tied_output=False, output_bias=True)
        )
    }
    attention = 4 * (16 * 16 + 16)
    feed_forward = 16 * 32 + 32 + 32 * 16 + 16
    assert counts["source_embedding"] == counts["target_embedding"] == 30 * 16
    assert counts["encoder.1.self_attention"] == attention
    assert counts["decoder.0.cross_attention"] == attention
    assert counts["decoder.1.feed_forward"] == feed_forward
    assert counts["encoder.0.feed_forward_norm"] == 2 * 16
    assert counts["output"] == 16 * 30 + 30
    assert "encoder.norm" not in counts


def test_what_is_shared_is_counted_once_and_named() -> None:
    model = tiny_model(shared_embedding=True, tied_output=True, output_bias=True)
    parts = {part.block: part for part in count_blocks(model)}
    assert parts["target_embedding"] == ("target_embedding", 30 * 16, "")
    assert parts["source_embedding"] == ("source_embedding", 0, "target_embedding")
    assert parts["output"] == ("output", 30, "target_embedding")


@pytest.mark.parametrize("preset", presets())
def test_the_blocks_sum_to_the_parameters_of_every_preset(preset: str) -> None:
    sizes: Any = {"d_model": 16, "heads": 2, "feed_forward": 32, "max_positions": 20}
    vocabulary: Any = {"source_vocabulary": 40, "target_vocabulary": 40}
    for positions in ("learned", "sinusoidal"):
        facts = build(preset, **sizes, **vocabulary, positions=positions).facts
        assert sum(part.parameters for part in facts.blocks) == facts.parameters
        named = {part.block for part in facts.blocks}
        assert ("source_positions" in named) == (positions == "learned")


def test_a_file_keeps_the_blocks(tmp_path: Path) -> None:
    trace = Decoding(tiny_checkpoint(), "abc").step()
    trace.save(tmp_path / "new.vis")
    assert read_trace(tmp_path / "new.vis").model == trace.model
    assert trace.model.blocks
