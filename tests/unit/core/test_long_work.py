"""Long work in parts: what is announced before each, and where it stops."""

from __future__ import annotations

from collections.abc import Generator

from visformer.core.long_work import announced, in_turn
from visformer.core.models import WorkDone
from visformer.core.search import exhausted


def test_each_part_is_announced_before_it_is_measured() -> None:
    measured: list[str] = []

    def measure(part: str) -> int:
        measured.append(part)
        return len(part)

    work = in_turn(["ab", "c"], "rows", measure)
    assert next(work) == WorkDone(0, 2, "rows")
    assert measured == []
    assert next(work) == WorkDone(1, 2, "rows")
    work.close()  # as who stops it does
    assert measured == ["ab"]
    assert exhausted(in_turn(["ab", "c"], "rows", len)) == [2, 1]


def test_other_work_announces_what_it_is_part_of() -> None:
    results: list[str] = []

    def inner() -> Generator[int, None, str]:
        yield 1
        yield 2
        return "made"

    def outer() -> Generator[str, None, None]:
        results.append((yield from announced(inner(), "pair 1")))

    assert [*outer()] == ["pair 1", "pair 1"]
    assert results == ["made"]
