"""What a decoder keeps between steps, against numbers by hand and torch's own count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.general_traces import Shape, any_trace
from tests.tiny_models import tiny_checkpoint
from visformer.core.decoding import Decoding
from visformer.core.mask_rules import make_masks
from visformer.pictures.cache import (
    KINDS_KEPT,
    cache_maps,
    costs,
    kept_words,
    recomputes,
    sizes,
)
from visformer.values.intervention import NO_CHANGES, parse
from visformer.values.trace import Trace

SIZES = {"d_model": 8, "heads": 2, "feed_forward": 16}


def decoded(steps: int, *, change: str = "", **sizes: Any) -> Trace:
    checkpoint = tiny_checkpoint(**{**SIZES, **sizes})
    changed = parse((change,)) if change else None
    decoding = Decoding(checkpoint, "abcd", limit=9, intervention=changed)
    ids = [5, 6, 7, 5, 6][:steps]
    return decoding.follow([(id, "forced") for id in ids])


def test_the_maps_are_the_heads_own_keys_and_values() -> None:
    trace = decoded(3)
    maps = cache_maps(trace, 1, 1)
    assert np.array_equal(maps["decoder", "K"].values, trace.keys("decoder", 1, 1))
    assert np.array_equal(maps["cross", "V"].values, trace.values("cross", 1, 1))
    assert len(maps["decoder", "V"].rows) == 3
    assert maps["cross", "K"].rows[-1] == trace.source[-1]
    # those of the rows before are as they were
    before = cache_maps(trace.until(2), 1, 1)["decoder", "K"].values
    assert np.array_equal(maps["decoder", "K"].values[:2], before)


def test_numbers_and_bytes_are_counted_by_hand() -> None:
    trace = decoded(3)
    layers, source = trace.layers("decoder"), len(trace.source)
    table, words = sizes(trace)
    assert table is not None
    one, every, new = table.values.tolist()
    assert one == [24, 24, 8 * source, 8 * source, 48 + 16 * source, 192 + 64 * source]
    assert every == [layers * number for number in one]
    assert new == [8 * layers, 8 * layers, 0, 0, 16 * layers, 64 * layers]
    kept = sum(part.nbytes for part in _parts(trace))
    assert every[-1] == kept
    assert f"{kept:,} bytes" in words
    assert f"decoder self: 3 tokens × (8 + 8) × {layers} layers" in words


def _parts(trace: Trace) -> list[np.ndarray]:
    return [of(kind) for kind in KINDS_KEPT for of in (trace.keys, trace.values)]


@pytest.mark.parametrize("sizes", [{}, {"gated": True}, {"decoder_layers": 1}])
def test_multiply_adds_are_those_that_torch_counts(sizes: dict[str, Any]) -> None:
    checkpoint = tiny_checkpoint(**{**SIZES, **sizes})
    trace = decoded(4, **sizes)
    table, _words = costs(trace)
    assert table is not None
    source = torch.tensor(np.array(trace.source_ids)[None])
    target = torch.tensor(np.array(trace.target_ids)[None])
    masks = make_masks("keys", source != 0, target != 0)
    memory = checkpoint.model.encode(source, masks.encoder).output
    counter = FlopCounterMode(display=False)
    with counter, torch.inference_mode():
        checkpoint.model.decode(target, memory, masks.decoder, masks.cross)
    assert counter.get_total_flops() == 2 * table.values[1, -1]
    assert (table.values[:, :-1].sum(1) == table.values[:, -1]).all()


def test_a_row_is_counted_by_hand() -> None:
    trace = decoded(2, encoder_layers=1, decoder_layers=1)
    table, words = costs(trace)
    assert table is not None
    source = len(trace.source)
    scores = 2 * 8 + source * 8  # a query with 2 keys, and with the source's
    assert table.values[0].tolist()[:5] == [4 * 64, scores, scores, 2 * 64, 256]
    again = table.values[1]
    assert again[0] == 2 * 4 * 64 + 2 * source * 64  # the cross keys and values, too
    assert "of step 2 in all decoder layers" in words


@pytest.mark.parametrize(
    ("change", "again"),
    [("", False), ("positions none", False), ("causal off", True), ("scale off", True)],
)
def test_a_run_that_recomputes_is_told_as_it_decodes(change: str, again: bool) -> None:
    trace = decoded(3, change=change)
    assert recomputes(trace) == again
    assert kept_words(trace).startswith(
        "This run keeps nothing" if again else "At step 3 only row 3 is new"
    )
    changed = parse((change,)) if change else NO_CHANGES
    assert changed.whole == again


def test_each_run_is_told_what_it_keeps() -> None:
    first = kept_words(decoded(1))
    assert first.startswith("Step 1 makes the first key and value, which are kept.")
    before = kept_words(decoded(0))
    assert before.startswith("The keys and values of cross-attention are computed once")
    checkpoint = tiny_checkpoint(**SIZES)
    fed = Decoding(checkpoint, "abcd").feed([5, 6, 2])
    assert "in one pass, all 3 rows at once" in kept_words(fed)
    watched = any_trace(Shape(kinds=("decoder",)))
    assert "in passes over all tokens" in kept_words(watched)
    assert costs(watched) == (None, "")
    table, _words = sizes(watched)
    assert table is not None
    assert len(table.columns) == 4  # K and V of itself, their sum, bytes
    encoder = any_trace(Shape(kinds=("encoder",)))
    assert "has no decoder" in kept_words(encoder)
    assert sizes(encoder) == (None, "")
    assert "No sentence" in kept_words(None)


def test_a_row_without_keys_reads_all_of_them_again() -> None:
    trace = decoded(3)
    mask = np.array(trace.masks["decoder"])
    mask[1] = False
    object.__setattr__(trace, "masks", {**trace.masks, "decoder": mask})
    assert recomputes(trace)
