from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from visformer.pictures.attention.mosaic import reduced
from visformer.pictures.picture import (
    HIGH,
    LOG_FLOOR,
    LOW,
    Matrix,
    Table,
    codes,
    csv_text,
    largest,
    shade,
    signed_shade,
)
from visformer.pictures.selection import SCALES, Scale

WEIGHTS = np.array([[0, 1e-5, 1e-4, 1e-2, 1]], np.float32)


def test_the_logarithmic_scale_begins_at_its_floor() -> None:
    shades, ends, note = shade(WEIGHTS, "log")
    assert ends == ("≤ 0.0001", "1")
    assert LOG_FLOOR == 1e-4
    np.testing.assert_allclose(shades, [[0, 0, 0, 0.5, 1]], atol=1e-6)
    assert note == "0.0001 to 1, logarithmic"


@pytest.mark.parametrize(
    ("scale", "ends", "expected"),
    [
        ("fixed", ("0", "1"), [[0.5, 0.25], [0.125, 0]]),
        ("head", ("0", "0.5"), [[1, 0.5], [0.25, 0]]),
        ("row", ("0", "row max"), [[1, 0.5], [1, 0]]),
    ],
)
def test_a_linear_scale_begins_at_zero(
    scale: Scale, ends: tuple[str, str], expected: list[list[float]]
) -> None:
    values = np.array([[0.5, 0.25], [0.125, 0]], np.float32)
    shades, said, _ = shade(values, scale)
    assert said == ends
    np.testing.assert_array_equal(shades, expected)
    np.testing.assert_array_equal(shade(values[None], scale)[0], [expected])


@pytest.mark.parametrize("scale", SCALES)
def test_a_weight_beyond_the_range_takes_the_colour_of_its_end(scale: Scale) -> None:
    """As codes, which are bytes, they would begin again at the other end."""
    values = np.array([[-2, -1e-7, 0, 0.5, np.nan, 1], [1, 1, 1, 1, 1, 3]], np.float32)
    shades = shade(values, scale)[0]
    assert shades.dtype == np.float32
    assert np.nanmin(shades) == 0
    assert np.nanmax(shades) == 1
    assert np.isnan(shades).sum() == 1
    assert codes(shades)[:, -1].tolist() == [HIGH if scale != "head" else 85, HIGH]
    assert codes(shades)[0, :3].tolist() == [LOW] * 3


def test_the_remainder_of_a_reduction_keeps_its_maximum() -> None:
    values = np.arange(25, dtype=np.float32).reshape(1, 5, 5)
    expected = [[12, 14], [22, 24]]
    assert reduced(values, (3, 3))[0].tolist() == expected
    assert reduced(-values, (3, 3))[0].tolist() == [[0, -3], [-15, -18]]


def test_what_lies_beyond_the_signed_range_takes_the_colour_of_its_end() -> None:
    values = np.array([[-2, -1, 0, 1, 2, -np.inf, np.inf, np.nan]], np.float32)
    shades = signed_shade(values, 2)
    expected = [0, 0.25, 0.5, 0.75, 1, 0, 1, np.nan]
    np.testing.assert_array_equal(shades, np.array([expected], np.float32))
    assert largest(values) == 2
    assert largest(np.full((2, 2), np.nan, np.float32)) == 1


def test_columns_of_csv_stand_under_their_names() -> None:
    values = np.array([[0.5, 0.25], [1, 0]], np.float32)
    table = Table(("q1", "q2"), ("k1", "k2"), values)
    rows = '"q1",0.5,0.25\n"q2",1.0,0.0\n'
    assert csv_text(table) == ',"k1","k2"\n' + rows
    told = Table(table.rows, table.columns, values, "mean of 2 heads")
    assert csv_text(told) == '"mean of 2 heads","k1","k2"\n' + rows


def test_csv_has_every_digit_and_quotes() -> None:
    values = np.array([[0.1]], np.float32)
    assert csv_text(Table(('a"b',), ("<s>",), values)) == (
        ',"<s>"\n"a""b",0.10000000149011612\n'
    )


def test_a_weight_is_written_as_in_the_status_bar() -> None:
    weights = Matrix(
        title="",
        values=np.array([[4.852e-06, 0.95487]], np.float32),
        shade=np.zeros((1, 2), np.float32),
        rows=("a",),
        columns=("b", "c"),
        row_axis="",
        column_axis="",
        ends=("0", "1"),
        note="",
        row_role="query",
        column_role="key",
    )
    assert [weights.said((0, key)) for key in (0, 1)] == ["4.9e−06", "0.9549"]
    scores = replace(weights, signed=True)
    assert scores.said((0, 0)) == "4.852e−06"
