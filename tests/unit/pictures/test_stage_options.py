"""Dropout of a row, and the four numbers of the tutorial, against numbers by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.pictures.computed import looked_at, shown, state_of, traced
from visformer.formats.layouts.native import dropout_rates
from visformer.pictures.computation.feed_forward_stages import (
    kept,
    own_rate,
    rate_words,
)
from visformer.pictures.computation.stage_picture import StagePicture
from visformer.pictures.computation.stages import picture, stage_of
from visformer.pictures.selection import StageOptions
from visformer.session.state import State


@pytest.fixture(scope="module")
def state() -> State:
    return state_of(*traced())


def made(state: State, stage: str, options: StageOptions) -> StagePicture:
    subject = replace(looked_at(state), options=options)
    found = picture(stage_of(stage), subject)
    assert isinstance(found, StagePicture)
    return found


def test_training_drops_numbers_and_divides_the_others(state: State) -> None:
    told = made(state, "dropout", StageOptions(rate=0.25, seed=3))
    evaluated, mask, trained = (one.make().values for one in told.maps)
    assert set(np.unique(mask)) == {0, 1}
    assert np.array_equal(trained == 0, (mask == 0) | (evaluated == 0))
    assert np.allclose(trained[mask == 1], evaluated[mask == 1] / 0.75, rtol=1e-6)
    assert not np.signbit(trained[mask == 0]).any()
    (w2,) = (one.make().values for one in shown(state, "w2").maps[-1:])
    assert np.array_equal(evaluated, w2)
    assert f"{int((mask[-1] == 0).sum())} number" in told.words


def test_the_mean_of_many_draws_is_the_row_in_evaluation(state: State) -> None:
    table = made(state, "dropout", StageOptions(rate=0.5, seed=2)).table
    row, _flags, _trained, mean = table.values
    # 6 deviations of the mean of 1,000 draws, each of which is 0 or twice the number
    assert (np.abs(mean - row) <= 6 * np.abs(row) / np.sqrt(1000) + 1e-6).all()
    assert not np.array_equal(mean, row)


def test_without_dropout_training_is_evaluation(state: State) -> None:
    told = made(state, "dropout", StageOptions(rate=0.0))
    evaluated, mask, trained = (one.make().values for one in told.maps)
    assert mask.all()
    assert np.array_equal(trained, evaluated)
    assert "drops 0 numbers" in told.words
    assert "differs from evaluation by at most 0." in told.words


def test_a_seed_is_one_draw_and_rows_to_come_change_none() -> None:
    one, other = kept((3, 40), 0.3, 1), kept((3, 40), 0.3, 2)
    assert np.array_equal(one, kept((5, 40), 0.3, 1)[:3])
    assert not np.array_equal(one, other)
    assert abs(kept((200, 200), 0.3, 1).mean() - 0.7) < 0.01


@pytest.mark.parametrize(
    ("rates", "rate", "first", "words"),
    [
        ((), None, 0.1, "The model's files name no rate: p = 0.1 is the paper's."),
        ((0.2,), None, 0.2, "The model was trained with p = 0.2."),
        ((0.0,), None, 0.1, "The model was trained without dropout (p = 0);"),
        ((0.1, 0.15), None, 0.1, "trained in stages, with p from 0.1 to 0.15;"),
        ((0.2,), 0.4, 0.2, "You chose p = 0.4."),
    ],
)
def test_it_is_said_where_the_rate_is_from(
    rates: tuple[float, ...], rate: float | None, first: float, words: str
) -> None:
    assert own_rate(rates) == first
    assert words in rate_words(rates, rate)


@pytest.mark.parametrize(
    ("card", "config", "rates"),
    [
        ("| options | norm_first False, dropout 0.05, epochs 24 |", "", (0.05,)),
        ("dropout 0.0, epochs 3\nvisformer train --dropout 0 --out x", "", (0.0,)),
        ("`--dropout 0.15` then `--dropout 0.1`", "", (0.1, 0.15)),
        ("", '{"attention_dropout": 0.3, "dropout": 0.1}', (0.1,)),
        ("", '{"dropout_rate": 0.1}', (0.1,)),
        ("no word on it, 0.1", "{}", ()),
    ],
)
def test_the_rates_are_those_that_the_files_name(
    tmp_path: Path, card: str, config: str, rates: tuple[float, ...]
) -> None:
    (tmp_path / "README.md").write_text(card)
    (tmp_path / "config.json").write_text(config)
    assert dropout_rates(tmp_path) == rates


def test_a_path_without_files_names_no_rate(tmp_path: Path) -> None:
    assert dropout_rates(tmp_path / "model.pt") == ()


def test_the_layers_own_numbers_are_shown_at_first(state: State) -> None:
    values = shown(state, "norms").maps[0].make().values
    assert values.shape != (2, 2)
