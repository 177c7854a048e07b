"""Places count from 1 in words; numbers are written in one style."""

from __future__ import annotations

import math

import pytest

from visformer import words


def test_places_count_from_one() -> None:
    assert words.token_words("cat", 2) == "“cat” (token 3)"
    assert words.layer_words(0) == "layer 1"
    assert words.head_words(1, 4) == "layer 2, head 5"


def test_positions_and_dimensions_keep_the_formulas_count() -> None:
    assert words.position_words(0) == "pos 0"
    assert words.dimension_words(7) == "dim 7"


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.12345, "0.1235"), (0, "0"), (1, "1.0000"), (3.21e-6, "3.2e−06")],
)
def test_probabilities_are_never_rounded_to_nothing(p: float, text: str) -> None:
    assert words.probability(p) == text


def test_one_minus_sign_and_names_for_nan_and_infinity() -> None:
    for write in (words.number, words.decimals, words.short):
        assert write(-0.5).startswith("−0.5")
        assert write(math.nan) == "NaN"
        assert write(-math.inf) == "−∞"
    assert words.probability(math.nan) == "NaN"


@pytest.mark.parametrize("value", [0, 1, -9999.5, 12345, 1e-7, -3e30, 0.00012345])
def test_short_numbers_fit_in_seven_characters(value: float) -> None:
    assert len(words.short(value)) <= 8 - (value >= 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0000"),
        (-1.23456, "−1.2346"),
        (147.7711, "147.77"),
        (3.2e-6, "3.2e−06"),
        (-1e9, "−1.0e+09"),
        (float("nan"), "NaN"),
        (float("-inf"), "−∞"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert words.short(value) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1.0, "1.0"),
        (0.995, "1.0"),
        (0.992, ".99"),
        (0.96, ".96"),
        (0.5, ".50"),
        (0.005, ".01"),
        (0.004, "~0"),
        (math.nan, "NaN"),
    ],
)
def test_shares_are_short(p: float, text: str) -> None:
    assert words.share(p) == text


def test_percentages_and_fewer_digits() -> None:
    assert words.percent(0.125) == "12.5%"
    assert words.percent(math.nan) == "NaN"
    assert words.number(-0.123456, 2) == "−0.12"
    assert words.number(3e-7, 1) == "3e−07"
