"""Reading pairs, splitting them without leaks, batches."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visformer.core.mask_rules import padded
from visformer.errors import InputError
from visformer.files import MOST_LINE, Pair, pair_lines, read_pairs
from visformer.training.loop import Example, batches, references, split_pairs

WORDS = st.sampled_from([*"abcdefgh", *"ABCD"])
PAIRS = st.lists(st.builds(Pair, WORDS, WORDS), max_size=40)


@given(PAIRS, st.integers(0, 10), st.integers(0, 10), st.integers(0, 3))
@settings(deadline=None, max_examples=150)
def test_split_leaks_nothing(
    pairs: list[Pair], valid: int, test: int, seed: int
) -> None:
    parts = split_pairs(pairs, valid=valid, test=test, seed=seed)
    assert sorted(p for part in parts for p in part) == sorted(pairs)
    assert len(parts.valid) <= valid
    assert len(parts.test) <= test
    for side in (0, 1):
        sets = [{pair[side].casefold() for pair in part} for part in parts]
        assert not sets[0] & sets[1]
        assert not sets[0] & sets[2]
        assert not sets[1] & sets[2]


def test_split_is_the_same_for_a_seed() -> None:
    pairs = [Pair(f"s{i}", f"t{i // 2}") for i in range(100)]
    one = split_pairs(pairs, valid=10, test=10, seed=1)
    assert one == split_pairs(pairs, valid=10, test=10, seed=1)
    assert one != split_pairs(pairs, valid=10, test=10, seed=2)
    assert (len(one.valid), len(one.test)) == (10, 10)


EXAMPLES = st.lists(
    st.builds(
        lambda s, t: Example([4] * s, [4] * t), st.integers(1, 30), st.integers(2, 30)
    ),
    max_size=50,
)


@given(EXAMPLES, st.integers(30, 200), st.one_of(st.none(), st.integers(0, 9)))
@settings(deadline=None, max_examples=100)
def test_batches_respect_the_limit(
    examples: list[Example], tokens: int, seed: int | None
) -> None:
    made = batches(examples, tokens=tokens, seed=seed)
    assert sorted(i for batch in made for i in batch) == list(range(len(examples)))
    for batch in made:
        for side in (0, 1):
            longest = max(len(examples[i][side]) for i in batch)
            assert longest * len(batch) <= tokens
    assert made == batches(examples, tokens=tokens, seed=seed)


def test_padded() -> None:
    assert padded([[1], [2, 3, 4]], 0).tolist() == [[1, 0, 0], [2, 3, 4]]


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz"])
def test_pairs_are_read_plain_or_gzip(tmp_path: Path, name: str) -> None:
    path, text = (
        tmp_path / name,
        b"\xef\xbb\xbfI go.\tJe vais.\t#12\r\n Hi. \tSalut.\n\n",
    )
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert read_pairs(path) == [("I go.", "Je vais."), ("Hi.", "Salut.")]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    for content, reason in (
        (b"a\tb\nonly one column\n", r"Line 2 of pairs\.tsv"),
        (b"a\t \n", r"Line 1 of pairs\.tsv"),
        (b"\xff\xfe\tb\n", "cannot be read"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=reason):
            read_pairs(path)
    cut = tmp_path / "cut.tsv.gz"
    cut.write_bytes(gzip.compress(b"a\tb\n" * 1000)[:-9])
    flipped = bytearray(gzip.compress(b"".join(b"%d\tb\n" % i for i in range(999))))
    flipped[60:90] = bytes(30)
    bad = tmp_path / "bad.tsv.gz"
    bad.write_bytes(flipped)
    for missing in (cut, bad, tmp_path / "nowhere.tsv"):
        with pytest.raises(InputError, match="cannot be read"):
            read_pairs(missing)


@pytest.mark.timeout(20)  # they have no end
@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
def test_a_pipe_and_a_device_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(InputError, match=r"is a \w+, not a file"):
            read_pairs(path)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_line_that_is_too_long_is_one_bad_line(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"pairs.tsv{ending}"
    for size in (MOST_LINE - 3, MOST_LINE, 2 * MOST_LINE - 3, 2 * MOST_LINE + 5):
        data = f"a\tb\n{'x' * size}\tb\nc\td\n".encode()
        path.write_bytes(gzip.compress(data) if ending else data)
        read = list(pair_lines(path))
        assert [number for number, _pair in read] == [1, 2, 3]
        assert read[2][1] == ("c", "d")
        if size > MOST_LINE - 3:
            assert str(read[1][1]).startswith(f"Line 2 of {path.name} is not a pair.")
            with pytest.raises(InputError, match="Line 2 of"):
                read_pairs(path)


def test_a_small_archive_does_not_eat_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visformer.files.available_memory", lambda: 1_000_000)
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * 100_000))
    with pytest.raises(InputError, match="more pairs than memory does: 1,"):
        read_pairs(path)
    path.write_bytes(gzip.compress(b"a\t" + b"b" * (1 << 23)))
    with pytest.raises(InputError, match="Line 1 of pairs"):
        read_pairs(path)


def test_references_gather_all_targets_of_a_source() -> None:
    pairs = [Pair("a", "1"), Pair("b", "2"), Pair("a", "3")]
    assert references(pairs) == {"a": ["1", "3"], "b": ["2"]}
