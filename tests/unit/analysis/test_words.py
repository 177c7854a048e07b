from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.traces import make_trace
from visformer.analysis.attention_summary import glued_source, glued_target, merged
from visformer.values.pieces import is_punctuation, marks_of, word_groups, word_text


def grouped(text: str) -> list[str]:
    tokens = text.split()
    groups = word_groups(tokens, [i for i, t in enumerate(tokens) if t == "</s>"])
    assert [at for group in groups for at in group] == list(range(len(tokens)))
    marks = marks_of(tuple(tokens))
    return [word_text([tokens[at] for at in group], marks) for group in groups]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("▁did n ' t ▁cross .", ["didn't", "cross", "."]),
        ("▁well - k n ow n", ["well-known"]),
        ("▁L ' an ima l ▁n ' a", ["L'animal", "n'a"]),
        ("▁be cause </s>", ["because", "</s>"]),
        ("▁3 . 5 ▁cats", ["3", ".", "5", "cats"]),
        ("▁ 我 有 一只 猫", ["我", "有", "一只", "猫"]),
        ("▁ש לום ▁עולם", ["שלום", "עולם"]),
        ("▁I ▁ 🙂 ?", ["I", "🙂", "?"]),
        ("▁x <unk:é> y", ["xéy"]),
        ("▁ </s>", ["␣", "</s>"]),
        ("▁a <unk> <unk> b", ["a", "<unk>", "<unk>", "b"]),
    ],
)
def test_words(pieces: str, words: list[str]) -> None:
    assert grouped(pieces) == words


def test_without_marks_every_token_is_a_word() -> None:
    assert not marks_of(("a", "b"))
    assert word_groups(["a", "b"]) == ((0,), (1,))
    assert word_groups([]) == ()


def test_punctuation_is_what_holds_nothing_else() -> None:
    marks = [is_punctuation(token) for token in ("▁.", "»", "'", "a.", "▁", "<unk:。>")]
    assert marks == [True, True, True, False, False, True]


def test_keys_are_summed_and_queries_averaged() -> None:
    weights = np.array([[0.5, 0.25, 0.25], [0, 0.75, 0.25], [1, 0, 0]], np.float32)
    made = merged(weights, ((0, 1), (2,)), ((0,), (1, 2)))
    assert made.tolist() == [[0.25, 0.75], [1, 0]]
    assert made.dtype == np.float32


def test_rows_still_sum_to_one_and_nan_stays() -> None:
    random = np.random.default_rng(2)
    weights = random.dirichlet(np.ones(9), 7).astype(np.float32)
    weights[6] = np.nan
    queries = ((0, 1, 2), (3,), (4, 5), (6,))
    made = merged(weights, queries, ((0, 1, 2, 3), (4,), (5, 6), (7, 8)))
    assert np.allclose(made[:3].sum(axis=1), 1)
    assert np.isnan(made[3]).all()


def test_no_rows_or_no_keys_merge_to_nothing() -> None:
    assert merged(np.zeros((0, 2), np.float32), (), ((0, 1),)).shape == (0, 1)
    assert merged(np.zeros((2, 0), np.float32), ((0, 1),), ()).shape == (1, 0)


def test_a_gap_that_the_text_has_not_begins_no_word() -> None:
    trace = replace(
        make_trace(source=6, target=4),
        source_text="dogs' l'été",
        source=("▁dogs", "’", "▁l", "'", "▁été", "</s>"),
        source_spans=((0, 4), (4, 4), (4, 7), (7, 8), (8, 11), (11, 11)),
        target=("<s>", "▁l", "'", "▁été"),
    )
    texts = ("l", "l'", "l'été", "l'été fini")
    steps = tuple(replace(s, text=t) for s, t in zip(trace.steps, texts, strict=True))
    trace = replace(trace, steps=steps)
    assert glued_source(trace) == {4}
    assert glued_target(trace) == {3}
    assert word_groups(trace.source, {5}, {4}) == ((0, 1), (2, 3, 4), (5,))
    assert word_groups(trace.source, {5}) == ((0, 1), (2, 3), (4,), (5,))
