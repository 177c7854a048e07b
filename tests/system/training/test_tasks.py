"""Toy tasks: what they make, and that no part sees another's strings."""

from __future__ import annotations

import pytest

from visformer.errors import InputError
from visformer.training.prepare import TASKS, SplitName, Task, TaskName


@pytest.mark.parametrize(
    ("name", "expected"), [("copy", "hello"), ("reverse", "olleh"), ("sort", "ehllo")]
)
def test_what_becomes_of_a_string(name: TaskName, expected: str) -> None:
    assert TASKS[name]("hello") == expected
    for source, target in Task(name=name).pairs("train", 20):
        assert target == TASKS[name](source)


def test_the_parts_are_disjoint_in_every_draw() -> None:
    task = Task(name="copy", longest=3)
    parts: tuple[SplitName, ...] = ("train", "valid", "test")
    drawn = [
        {pair.source for draw in range(4) for pair in task.pairs(part, 100, draw)}
        for part in parts
    ]
    assert not drawn[0] & drawn[1]
    assert not drawn[0] & drawn[2]
    assert not drawn[1] & drawn[2]


def test_draws_are_reproducible_and_within_the_lengths() -> None:
    task = Task(name="sort", alphabet="xyz", shortest=3, longest=6, seed=4)
    pairs = task.pairs("train", 50)
    assert pairs == task.pairs("train", 50)
    assert pairs != task.pairs("train", 50, 1)
    assert {len(p.source) for p in pairs} == {3, 4, 5, 6}
    assert {c for p in pairs for c in p.source} == set("xyz")
    assert len({p.source for p in pairs}) == 50


def test_tokenizer_has_the_special_ids_and_the_letters() -> None:
    tokenizer = Task(name="copy", alphabet="abc").tokenizer()
    assert (tokenizer.pad, tokenizer.bos, tokenizer.eos) == (0, 2, 3)
    assert [piece.id for piece in tokenizer.encode_source("cab?")] == [6, 4, 5, 1, 3]


@pytest.mark.parametrize(
    "options",
    [
        {"name": "shuffle"},
        {"name": "copy", "shortest": 0},
        {"name": "copy", "shortest": 5, "longest": 4},
        {"name": "copy", "alphabet": "a"},
        {"name": "copy", "alphabet": "aab"},
        {"name": "copy", "alphabet": "a b"},
        {"name": "copy", "alphabet": "ab<"},
    ],
)
def test_tasks_that_cannot_be(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Task(**options)  # type: ignore[arg-type]


def test_too_few_strings() -> None:
    with pytest.raises(InputError, match="fewer than 50"):
        Task(name="copy", alphabet="ab", longest=3).pairs("test", 50)
