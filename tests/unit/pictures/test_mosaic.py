from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.states import showing
from tests.traces import make_trace
from visformer.pictures.attention import mosaic as mosaics
from visformer.pictures.attention.mosaic import Mosaic, reduced
from visformer.pictures.picture import LOW, codes
from visformer.pictures.selection import SCALES, Scale
from visformer.session.state import State
from visformer.values.facts import KINDS, Kind
from visformer.values.memo import Memo


def made(shown: State, kind: Kind, thumbnail: tuple[int, int] = (999, 999)) -> Mosaic:
    *_, last = parts(shown, kind, thumbnail)
    return last


def parts(shown: State, kind: Kind, thumbnail: tuple[int, int]) -> list[Mosaic]:
    assert shown.trace is not None
    assert shown.visible is not None
    queries, keys = shown.trace.tokens(kind)
    made = mosaics.mosaic_parts(
        shown.visible,
        shown.selection,
        kind,
        extent=(len(queries), len(keys)),
        thumbnail=thumbnail,
    )
    return list(made)


@pytest.mark.parametrize("kind", KINDS)
def test_every_head_stands_in_its_place(kind: Kind) -> None:
    trace = make_trace(5, 4, layers=2, heads=2)
    picture = made(showing(trace), kind)
    for layer in range(2):
        for head in range(2):
            x, y, width, height = picture.frame(layer, head)
            thumbnail = picture.image[y : y + height, x : x + width]
            expected = trace.attention(kind, layer, head)
            assert np.array_equal(thumbnail, codes(expected))
            assert picture.hit(x, y) == (layer, head)
            assert picture.hit(x + width - 0.1, y + height - 0.1) == (layer, head)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_rows_kept_from_another_step_are_those_of_this_one(
    kind: Kind, causal: bool, scale: Scale
) -> None:
    trace = make_trace(7, 9, layers=2, heads=2)
    if not causal:
        mask = np.ones((9, 9), bool)
        trace = replace(trace, masks={**trace.masks, "decoder": mask})
    for thumbnail in ((999, 999), (3, 3)):
        for step in (1, 4, 5, 9, 3, 8):
            shown = replace(showing(trace, step), scale=scale)
            fresh = replace(showing(replace(trace, memo=Memo()), step), scale=scale)
            kept, new = made(shown, kind, thumbnail), made(fresh, kind, thumbnail)
            np.testing.assert_array_equal(kept.image, new.image)


def test_beside_the_thumbnails_is_no_head() -> None:
    picture = made(showing(make_trace()), "cross")
    assert picture.hit(-1, 0) is None
    assert picture.hit(0, picture.image.shape[0]) is None


def test_thumbnails_keep_their_size_while_rows_are_added() -> None:
    trace = make_trace(5, 4)
    whole, part = made(showing(trace), "decoder"), made(showing(trace, 2), "decoder")
    assert part.image.shape == whole.image.shape
    assert part.filled == (2, 2)
    assert (part.image[2:4] == LOW).all()
    assert np.array_equal(part.image[:2, :2], whole.image[:2, :2])


@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_nothing_decoded_is_an_empty_grid(kind: Kind) -> None:
    assert (made(showing(make_trace(), 0), kind).image == LOW).all()
    assert made(showing(make_trace(target=0)), kind).image.size == 0


def test_a_nan_is_not_lost_in_the_reduction() -> None:
    values = np.full((1, 4, 4), 0.5, np.float32)
    values[0, 3, 0] = np.nan
    assert np.isnan(reduced(values, (4, 2))).tolist() == [[[True, False]]]


def test_a_reduction_is_said_in_the_note() -> None:
    shown = showing(make_trace(source=9, target=8, sharpness=5))
    picture = made(shown, "cross", thumbnail=(4, 3))
    assert (picture.height, picture.width) == (4, 3)
    assert "maximum of 2 × 3 weights" in picture.note
    assert "maximum of" not in made(shown, "cross").note
    for scale in ("fixed", "row", "head", "log"):
        whole = made(replace(shown, scale=scale), "cross")
        part = made(replace(shown, scale=scale), "cross", thumbnail=(4, 3))
        assert part.image.max() == whole.image.max()


def test_layer_counts_may_differ() -> None:
    trace = make_trace(layers=3, decoder_layers=1)
    shown = showing(trace, kind="encoder", layer=2)
    assert made(shown, "encoder").chosen == (2, 0)
    assert made(shown, "cross").chosen == (0, 0)
    assert made(shown, "cross").layers == 1


def test_the_walk_stays_inside() -> None:
    picture = made(showing(make_trace(layers=2, heads=2)), "cross")
    assert picture.walk((0, 0), 1, 0) == (1, 0)
    assert picture.walk((1, 1), 1, 1) == (1, 1)
    assert picture.walk((0, 0), -1, -1) == (0, 0)


@pytest.mark.parametrize("scale", ["fixed", "row", "head", "log"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limits", [(0, 1 << 20), (0, 0)])
def test_a_long_sentence_gives_the_same_in_parts(
    monkeypatch: pytest.MonkeyPatch, scale: Scale, kind: Kind, limits: tuple[int, int]
) -> None:
    shown = showing(make_trace(source=9, target=8), 7, scale=scale)
    expected = made(shown, kind, (4, 3)).image
    monkeypatch.setattr(mosaics, "TOGETHER", limits[0])
    monkeypatch.setattr(mosaics, "WHOLE_HEAD", limits[1])
    monkeypatch.setattr(mosaics, "SLICE", 30)
    found = parts(shown, kind, (4, 3))
    assert len(found) > 4
    assert np.array_equal(found[-1].image, expected)
