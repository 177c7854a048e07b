"""Mutants of files, a few of them; the long run is made by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.unit.values.vis_mutants import mutants, outcome
from visformer.trace_file import file_blocks
from visformer.trace_file.file_blocks import BlockFile, BlockPlace


def test_mutants_open_to_right_numbers_or_are_one_sentence(tmp_path: Path) -> None:
    did = Counter(outcome(mutant, tmp_path / "a.vis") for mutant in mutants(500))
    assert min(did[what] for what in ("whole", "part", "error")) > 20


def test_a_mutant_is_always_the_same() -> None:
    assert [m.data for m in mutants(20)] == [m.data for m in mutants(20)]


def test_wrong_numbers_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without checksums a flipped bit is taken for a number."""

    def unchecked(file: BlockFile, name: bytes, place: BlockPlace) -> memoryview:
        start = file_blocks.HEAD.size + len(name)
        data = file.file.read(place.at, start + place.size)
        return memoryview(data)[start:]

    monkeypatch.setattr(BlockFile, "_read_at", unchecked)
    flips = [m for m in mutants(400, 5) if m.how == "flip" and m.runs]
    found = 0
    for mutant in flips:
        try:
            outcome(mutant, tmp_path / "a.vis")
        except AssertionError:
            found += 1
    assert found > 0
