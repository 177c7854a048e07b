"""Every picture says itself whether its colours run from minus to plus."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.pictures import computed
from tests.unit.pictures import test_mask_lab as mask_lab
from tests.unit.pictures import test_output as output
from tests.unit.pictures import test_position_lab as position_lab
from tests.unit.pictures.test_maps import looked
from visformer.pictures.attention.reading import attention_map
from visformer.pictures.comparison import difference_picture
from visformer.pictures.computation.stages import stage_names
from visformer.pictures.mask_lab import paint_picture
from visformer.pictures.masks import PARTS, mask_picture
from visformer.pictures.output import SHOWS, all_lens, output_picture, step_lens
from visformer.pictures.picture import Matrix
from visformer.pictures.positions import LIKENESSES, heat_picture, similarity_picture
from visformer.values.facts import KINDS

TABLE = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)


def check(picture: Matrix | None, *, signed: bool) -> None:
    """Zero is in the middle of the colours of a signed picture, else at their end."""
    assert picture is not None
    assert picture.signed == signed
    seen = np.isfinite(picture.values)
    if picture.masked is not None:
        seen &= ~picture.masked
    values, shades = picture.values[seen], picture.shade[seen]
    if signed:
        near = np.abs(values) > 1e-5
        assert (np.sign(shades - 0.5) == np.sign(values))[near].all()
        assert {"−", "-"} & set(picture.ends[0])
    else:
        assert (shades[values == 0] == 0).all()
        assert not {"−", "-"} & set(picture.ends[0])


def test_tables_of_positions_are_signed() -> None:
    check(heat_picture(TABLE, 0, 7), signed=True)
    for likeness in LIKENESSES:
        check(similarity_picture(TABLE, 0, 7, likeness=likeness), signed=True)
    state, _ = position_lab.decoded()
    for picture in (*position_lab.inputs(state, "source"), *position_lab.tables(state)):
        check(picture, signed=True)
    for picture in position_lab.attentions(state):
        check(picture, signed=False)


def test_weights_and_masks_are_not_signed_and_differences_are() -> None:
    state = mask_lab.both()
    assert state.trace is not None
    for kind in KINDS:
        check(attention_map(*looked(state), kind), signed=False)
        for part in PARTS:
            check(mask_picture(state.trace, kind, part, 0), signed=False)
    check(paint_picture(state.visible, state.selection, None), signed=False)
    check(difference_picture(mask_lab.runs_of(state), state.selection), signed=True)


def test_the_decoders_output_is_signed_and_the_lens_is_not() -> None:
    state = output.state_of()
    assert state.visible is not None
    check(output_picture(state.visible), signed=True)
    for written in (
        step_lens(state.visible, state.lens),
        *(all_lens(state.visible, state.lens, shows) for shows in SHOWS),
    ):
        check(written.matrix if written else None, signed=False)


@pytest.mark.parametrize("stage", stage_names())
def test_a_stage_is_signed_where_its_numbers_can_be_negative(stage: str) -> None:
    checkpoint, trace = computed.traced()
    state = computed.state_of(checkpoint, trace, kind="cross")
    for one in computed.shown(state, stage).maps:
        picture = one.make()
        share = picture.ends and picture.ends[0].startswith(("0", "False"))
        check(picture, signed=not (share or picture.bars))
