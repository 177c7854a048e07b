from __future__ import annotations

import math

import numpy as np
import pytest

from tests.traces import make_trace
from visformer.errors import InputError
from visformer.pictures.positions import (
    MOST_COMPARED,
    MOST_CURVES,
    cell_words,
    curves,
    default_dimensions,
    default_last,
    heat_picture,
    pair_words,
    parse_dimensions,
    similarity,
    similarity_picture,
    table_words,
    waves_of,
)
from visformer.values.encodings import sinusoid
from visformer.words import number

RNG = np.random.default_rng(0)
LEARNED = RNG.normal(0, 0.02, (40, 6)).astype(np.float32)


def test_only_a_table_that_equals_the_formula_is_called_sinusoidal() -> None:
    position = np.arange(512, dtype=np.float32)[:, None]
    step = np.exp(np.arange(0, 256, 2, dtype=np.float32) * -(math.log(1e4) / 256))
    angle = position * step.astype(np.float32)  # as models compute it, in float32
    table = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(512, 256)
    assert waves_of(table) == "interleaved"
    assert waves_of(sinusoid(10, 5)) == "interleaved"
    halves = np.concatenate([table[:, ::2], table[:, 1::2]], axis=1)
    assert waves_of(halves) == "halves"
    assert waves_of(LEARNED) == "none"
    assert waves_of(np.full((2, 2), np.nan, np.float32)) == "none"
    assert "the paper's sinusoids" in table_words(table, waves="interleaved")
    assert "measured" in table_words(LEARNED, waves="none")


def test_the_heat_map_has_zero_in_the_middle_of_its_colours() -> None:
    picture = heat_picture(sinusoid(8, 4), 2, 5)
    assert picture.rows == ("2", "3", "4", "5")
    assert picture.columns == ("0", "1", "2", "3")
    assert picture.title == "positional encodings, pos 2 to pos 5"
    assert (picture.row_names[0], picture.column_names[3]) == ("pos 2", "dim 3")
    assert (picture.row_axis, picture.column_axis) == (
        "position (pos)",
        "dimension (dim)",
    )
    assert picture.ends == ("−1", "1")
    np.testing.assert_allclose(picture.shade, picture.values / 2 + 0.5, atol=1e-6)
    small = heat_picture(np.array([[0, 0.5], [-0.25, 0]], np.float32), 0, 1)
    assert small.shade.tolist() == [[0.5, 1], [0.25, 0.5]]
    assert small.ends == ("−0.5", "0.5")


def test_similarity_is_symmetric_and_known() -> None:
    rows = np.array([[3, 4], [4, 3], [0, 0]], np.float32)
    assert similarity(rows, "dot product").tolist() == [
        [25, 24, 0],
        [24, 25, 0],
        [0, 0, 0],
    ]
    cosine = similarity(rows, "cosine")
    np.testing.assert_allclose(cosine[:2, :2], [[1, 0.96], [0.96, 1]], atol=1e-6)
    assert np.isnan(cosine[2]).all()
    products = similarity(sinusoid(20, 8), "dot product")
    np.testing.assert_allclose(products, products.T, atol=1e-6)
    np.testing.assert_allclose(np.diag(products), 4, atol=1e-5)  # D / 2


def test_similarity_is_painted_on_a_range_that_is_named() -> None:
    picture = similarity_picture(sinusoid(6, 8), 1, 4, likeness="dot product")
    assert picture.rows == ("1", "2", "3", "4")
    values = (
        sinusoid(6, 8)[1:5] @ sinusoid(6, 8)[1:5].T
    )  # all positive: their own range
    assert picture.ends == (number(float(values.min())), "4")
    assert not picture.signed
    assert (picture.shade.min(), picture.shade.max()) == (0, 1)
    assert "smallest to the largest" in picture.note
    said = pair_words(picture, "dot product", 0, 1)
    assert said == "pos 1 and pos 2: dot product 3.535"
    picture = similarity_picture(LEARNED, 0, 3, likeness="cosine")
    assert picture.ends == ("−1", "1")
    mixed = similarity_picture(
        np.array([[1.0], [-2.0]], np.float32), 0, 1, likeness="dot product"
    )
    assert mixed.ends == ("−4", "4")
    assert mixed.signed
    many = np.ones((MOST_COMPARED + 9, 1), np.float32)
    picture = similarity_picture(many, 0, len(many) - 1, likeness="cosine")
    assert len(picture.rows) == MOST_COMPARED
    assert "the first 1,024" in picture.note


def test_curves_are_columns_with_their_wavelength_in_words() -> None:
    table = sinusoid(20, 4)
    fast, slow = curves(table, (1, 2), 5, 9, waves="interleaved")
    assert fast.positions.tolist() == [5, 6, 7, 8, 9]
    assert fast.values.tolist() == table[5:10, 1].tolist()
    assert fast.words == "dim 1 (cos): wavelength 2π·10000^(0/4) = 6.3 positions"
    assert slow.words == "dim 2 (sin): wavelength 2π·10000^(2/4) = 628.3 positions"
    (learned,) = curves(LEARNED, (3,), 0, 39, waves="none")
    assert "measured from the table" in learned.words
    bad = np.full((3, 1), np.nan, np.float32)
    assert "no finite" in curves(bad, (0,), 0, 2, waves="none")[0].words


def test_dimensions_are_read_as_typed() -> None:
    assert parse_dimensions("0, 1, 8-11, 64", 256) == (0, 1, 8, 9, 10, 11, 64)
    assert parse_dimensions("3 3;2 – 3", 4) == (3, 2)
    for width in (1, 2, 3, 8, 256):
        text = ",".join(map(str, default_dimensions(width, "interleaved")))
        assert parse_dimensions(text, width) == default_dimensions(width, "interleaved")
    assert default_dimensions(256, "interleaved") == (0, 1, 16, 32, 64, 128)
    assert default_dimensions(256, "halves") == (0, 8, 16, 32, 64, 128)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Type dimensions"),
        ("a", "“a” is not a dimension"),
        ("1.5", "not a dimension"),
        ("-1", "not a dimension"),
        ("٣", "not a dimension"),
        ("256", "There is no dim 256: choose 0 to 255"),
        ("9" * 5000, "not a dimension"),
        ("0-999999999", "There is no dim 999999999"),
        ("9-3", "runs backwards: type 3-9"),
        ("0-99", f"At most {MOST_CURVES}"),
    ],
)
def test_bad_dimensions_are_answered_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_dimensions(text, 256)


def test_the_first_range_holds_the_sentence() -> None:
    table = sinusoid(50, 4)
    assert default_last(table, None) == 31
    trace = make_trace(source=40, target=3)
    assert default_last(table, trace) == 39
    assert default_last(table[:7], trace) == 6
    assert default_last(None, None) == -1


def test_a_cell_is_said_in_words_with_its_tokens() -> None:
    trace = make_trace(source=3, target=2)
    table = sinusoid(9, 4)
    words = cell_words(table, trace, 1, 1)
    assert words == (
        "pos 1 · source “s1” (token 2) · target “t0” (token 2) · dim 1: 0.5403"
    )
    assert cell_words(table, trace, 5, 0) == "pos 5 · dim 0: −0.9589"
    assert cell_words(table, None, 1, 1) == "pos 1 · dim 1: 0.5403"


def test_halves_have_their_own_wavelengths() -> None:
    paper = sinusoid(40, 8)
    table = np.concatenate([paper[:, ::2], paper[:, 1::2]], axis=1)
    assert waves_of(table) == "halves"
    slow, first, cosine = curves(table, (1, 4, 5), 0, 39, waves="halves")
    assert "1 (sin): wavelength 2π·10000^(2/8) = 62.8" in slow.words
    assert "4 (cos): wavelength 2π·10000^(0/8) = 6.3" in first.words
    assert "5 (cos): wavelength 2π·10000^(2/8) = 62.8" in cosine.words
    assert "cos in dim 4+i" in table_words(table, waves="halves")
