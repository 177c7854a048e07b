"""Rows of a cut Trace keep the weights of the pass, though they read later tokens."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.existing import existing
from tests.general_traces import Shape, any_trace
from tests.tiny_models import BOS, tiny_checkpoint
from tests.traces import make_trace
from visformer.core.passes import run
from visformer.pictures.attention.reading import reading
from visformer.pictures.attention.weights import head_weights, row_weights
from visformer.pictures.selection import Look, Selection
from visformer.pictures.words.scene import Scene, computed
from visformer.trace_file.trace_file import read_trace
from visformer.values.changes.weight_changes import CellWeight
from visformer.values.facts import KINDS
from visformer.values.intervention import Intervention
from visformer.values.reading_order import as_read, unshown
from visformer.values.trace import Trace

CUT = 2


def given_masks() -> Trace:
    """Return a pass whose rows read all tokens, with the operations that made it."""
    ones = torch.ones(1, 5, 5, dtype=torch.bool)
    given = [[4, 5, 6, 7]], [[BOS, 7, 8, 9, 10]]
    return run(tiny_checkpoint(), *given, masks={"decoder": ones})[0]


def ahead(trace: Trace) -> Trace:
    """Return it with a mask that lets the first rows read the last token."""
    mask = trace.masks["decoder"].copy()
    mask[:CUT, -1] = True
    return replace(trace, masks={**trace.masks, "decoder": mask})


PASSES = {
    "masks that are given": given_masks(),
    "of a file": replace(given_masks(), own_weights=None),
    "masked keys count": make_trace(masked_value=0.0),
    "biased": ahead(any_trace(bias="full")),
    "biased by distance": ahead(any_trace(bias="distance")),
    "captured": any_trace(captured=True),
    "weight set": replace(
        make_trace(), intervention=Intervention(CellWeight("decoder", 1, 3, "=", 0.5))
    ),
    "grouped": ahead(any_trace(Shape(kinds=("decoder",), key_heads=1), prompt=2)),
}


@pytest.mark.parametrize("name", PASSES)
def test_weights_are_the_corner_of_the_passs(name: str, tmp_path: Path) -> None:
    trace = PASSES[name]
    cut, corner = trace.until(CUT), np.s_[..., :CUT, :CUT]
    whole = trace.attention("decoder")
    assert (np.abs(whole[..., :CUT, CUT:]) > 1e-3).any()  # they do read what is cut
    assert np.array_equal(cut.attention("decoder"), whole[corner])
    assert np.array_equal(cut.until(1).attention("decoder", 1), whole[1, ..., :1, :1])
    assert np.array_equal(cut.scores("decoder"), trace.scores("decoder")[corner])
    assert np.array_equal(
        cut.entropy("decoder"), trace.entropy("decoder")[..., :CUT], equal_nan=True
    )
    assert np.array_equal(cut.rollout("decoder"), trace.rollout("decoder")[corner])
    assert np.array_equal(cut.z("decoder", -1, 0), trace.z("decoder", 1, 0)[:CUT])
    derived = whole[corner]
    if trace.own_weights is not None:  # torch's, which numpy does not repeat to a digit
        derived = replace(trace, own_weights=None).attention("decoder")[corner]
    for layer, head in np.ndindex(derived.shape[:2]):
        assert np.array_equal(
            row_weights(cut, "decoder", layer, head, slice(1, 2))[0],
            derived[layer, head, 1],
        )
        for _ in range(2):  # derived, and kept
            found = head_weights(cut, "decoder", layer, head)
            assert np.array_equal(found, derived[layer, head])
    cut.save(tmp_path / "cut.vis")
    for apart in (read_trace(tmp_path / "cut.vis"), pickle.loads(pickle.dumps(cut))):
        assert apart.whole is apart
        np.testing.assert_allclose(apart.attention("decoder"), whole[corner], atol=1e-6)


def test_where_no_row_reads_on_nothing_is_derived_of_later_rows() -> None:
    trace = make_trace()
    for shown in map(trace.until, (1, 2)):
        assert as_read(shown, "decoder", range(2)) is shown
    heads = trace.until(CUT).attention_heads("decoder", 0)
    assert (len(heads.keys), heads.shown) == (CUT, None)
    assert unshown(trace.until(CUT), "decoder", range(2)) == 0
    assert unshown(PASSES["captured"].until(CUT), "encoder", range(2)) == 0


def test_what_a_row_reads_most_may_not_be_shown() -> None:
    trace = PASSES["weight set"]
    cut, selection = trace.until(CUT), Selection(kind="decoder", layer=0, head=0)
    row = trace.attention("decoder", 0, 0)[1]
    assert row.argmax() == 3
    found = existing(computed(Scene(trace=cut, model=cut.model, selection=selection)))
    assert found.key == trace.target[3].strip("▁")
    assert found.weight == pytest.approx(0.5)


def test_a_map_says_how_much_is_not_shown() -> None:
    trace = PASSES["masked keys count"]
    selection = Selection(kind="decoder", layer=0, head=0)
    shown = reading(trace.until(CUT), selection, Look(), "decoder")
    most = trace.attention("decoder", 0)[:, :CUT, CUT:].sum(-1).max()
    assert shown is not None
    assert shown.done == f"rows read later tokens, not shown: {most:.1%} at most"
    rolled = existing(
        reading(trace.until(CUT), selection, Look(summary="rollout"), "decoder")
    )
    wanted = trace.rollout("decoder", 0)[:CUT, :CUT]
    np.testing.assert_allclose(rolled.values, wanted, atol=1e-6)
    for kind in KINDS[::2]:
        shown = existing(reading(trace.until(CUT), selection, Look(), kind))
        assert shown.done == ""
