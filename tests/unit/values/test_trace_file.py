"""Traces in files: the numbers come back, and a file is treated with care."""

from __future__ import annotations

import gc
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.general_traces import Shape, any_trace
from tests.traces import fed, make_trace
from visformer.errors import InputError
from visformer.trace_file.file_blocks import MAGIC, BlockFile
from visformer.trace_file.stored_arrays import StoredArray, StoredRows
from visformer.trace_file.trace_file import read_trace, write_trace
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import parse
from visformer.values.step import Candidates, Origin, step_origins
from visformer.values.trace import Trace


def assert_same(one: Trace, other: Trace) -> None:
    assert one.model == other.model
    assert (one.source, one.target) == (other.source, other.target)
    assert (one.source_text, one.source_spans) == (
        other.source_text,
        other.source_spans,
    )
    assert (one.prompt, one.intervention) == (other.prompt, other.intervention)
    assert (one.fills, one.text) == (other.fills, other.text)
    assert tuple(one.steps) == tuple(other.steps)
    np.testing.assert_array_equal(one.source_ids, other.source_ids)
    np.testing.assert_array_equal(one.target_ids, other.target_ids)
    for name in ("encoder_rows", "memory_rows", "decoder_rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for kind in one.kinds:
        for layer in range(one.layers(kind)):
            assert_same_layer(one, other, kind, layer)


def assert_same_layer(one: Trace, other: Trace, kind: Kind, layer: int) -> None:
    left, right = one.attention_heads(kind, layer), other.attention_heads(kind, layer)
    np.testing.assert_array_equal(left.mask, right.mask)
    np.testing.assert_array_equal(left.scores(), right.scores())
    np.testing.assert_array_equal(left.weights(), right.weights())
    assert one.is_captured(kind, layer) == other.is_captured(kind, layer)


@pytest.mark.parametrize("length", [0, 1, 4, 64, 65, 130])
def test_round_trip(tmp_path: Path, length: int) -> None:
    trace = make_trace(target=length)
    trace.save(tmp_path / "a.vis")
    assert_same(read_trace(tmp_path / "a.vis"), trace)
    assert [file.name for file in tmp_path.iterdir()] == ["a.vis"]


SETS: list[tuple[Kind, ...]] = [
    KINDS,
    ("encoder",),
    ("decoder",),
    ("decoder", "cross"),
    ("encoder", "cross"),
]


@pytest.mark.parametrize("kinds", SETS)
@pytest.mark.parametrize("bias", ["none", "distance", "full"])
@pytest.mark.parametrize("captured", [False, True])
def test_any_model_comes_back(
    tmp_path: Path, kinds: tuple[Kind, ...], bias: Any, captured: bool
) -> None:
    trace = any_trace(
        Shape(kinds=kinds), bias=bias, captured=captured, source=7, target=70
    )
    trace.save(tmp_path / "a.vis")
    again = read_trace(tmp_path / "a.vis")
    assert_same(again, trace)
    assert_same(again.until(3), trace.until(3))
    assert_same(again.until(66), trace.until(66))
    shared = {id(bias) for bias in trace.biases.get(kinds[0], ())}
    assert len({id(bias) for bias in again.biases.get(kinds[0], ())}) == len(shared)


@pytest.mark.parametrize("what", ["steps", "hidden", "output", "scores"])
def test_what_a_model_lacks_is_lacking(tmp_path: Path, what: str) -> None:
    shape = Shape(
        hidden=what != "hidden",
        output=what not in ("output", "hidden"),
        masked_value=-1e4 if what == "scores" else -np.inf,
    )
    trace = any_trace(shape, steps=what != "steps", prompt=2)
    trace.save(tmp_path / "a.vis")
    again = read_trace(tmp_path / "a.vis")
    assert_same(again, trace)
    if what == "hidden":
        with pytest.raises(InputError, match="hidden states are not in this trace"):
            again.hidden("decoder", 0)


def test_candidates_of_a_masked_token_and_nan_come_back(tmp_path: Path) -> None:
    shares = np.array([0.5, np.nan], np.float32)
    fills = {1: Candidates(np.array([4, 9]), ["▁a", "▁b"], shares)}
    replace(any_trace(), fills=fills).save(tmp_path / "a.vis")
    first, second = read_trace(tmp_path / "a.vis").fills[1]
    assert first == (4, "▁a", 0.5)
    assert (second.id, second.token) == (9, "▁b")
    assert np.isnan(second.probability)


def test_masks_by_layer_and_a_modified_run_come_back(tmp_path: Path) -> None:
    trace = make_trace()
    by_layer = np.stack([trace.masks["decoder"], np.ones((4, 4), bool)])
    trace = replace(
        trace,
        masks={**trace.masks, "decoder": by_layer},
        intervention=parse(["causal off @ L2; masked score -inf; hide 3"]),
    )
    trace.save(tmp_path / "a.vis")
    again = read_trace(tmp_path / "a.vis")
    assert_same(again, trace)
    assert again.masks["decoder"].ndim == 3
    np.testing.assert_array_equal(again.until(2).mask("decoder", 1), np.ones((2, 2)))


def test_texts_that_shrink_or_differ_come_back(tmp_path: Path) -> None:
    trace = make_trace(target=3)
    texts = "abc", "xbc, then a long one", "abd"
    steps = [
        replace(step, text=text) for step, text in zip(trace.steps, texts, strict=True)
    ]
    replace(trace, steps=tuple(steps)).save(tmp_path / "a.vis")
    assert [step.text for step in read_trace(tmp_path / "a.vis").steps] == [*texts]


def test_a_file_grows_in_proportion_to_its_steps(tmp_path: Path) -> None:
    """The text so far, which each step has, is not written again with each."""
    sizes = []
    for length in (500, 1000):
        trace = any_trace(Shape(kinds=("cross",), hidden=False), target=length)
        steps = make_trace(target=length, layers=1, d_model=2).steps
        replace(trace, steps=steps).save(tmp_path / "a.vis")
        sizes.append((tmp_path / "a.vis").stat().st_size)
    assert sizes[1] < 2.2 * sizes[0]


def test_a_lone_surrogate_is_written_as_a_question_mark(tmp_path: Path) -> None:
    trace = replace(make_trace(), source_text="a\ud800")
    trace.save(tmp_path / "a.vis")
    assert read_trace(tmp_path / "a.vis").source_text == "a?"


# ---- numbers that stay in the file -------------------------------------------------


def test_who_chose_is_read_without_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visformer.trace_file.file_blocks.VERIFIED", 0)
    origins: dict[int, Origin] = {1: "forced", 70: "rule", 71: "reference"}
    trace = fed(make_trace(target=80), origins)
    trace.save(tmp_path / "a.vis")
    read = read_trace(tmp_path / "a.vis")
    expected = tuple(origins.get(row, "model") for row in range(80))
    assert step_origins(read.steps) == expected
    assert step_origins(read.until(7).steps) == expected[:7]
    assert step_origins(read.steps[:30]) == expected[:30]


def test_numbers_are_read_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visformer.trace_file.file_blocks.VERIFIED", 0)
    any_trace(bias="full", captured=True, target=200).save(tmp_path / "a.vis")
    asked: list[str] = []
    read = BlockFile.read

    def noted(self: BlockFile, name: str) -> memoryview:
        asked.append(name)
        return read(self, name)

    monkeypatch.setattr(BlockFile, "read", noted)
    trace = read_trace(tmp_path / "a.vis")
    assert set(asked) == {"session", "0/facts"}
    asked.clear()
    first = trace.until(1)
    assert first.scores("decoder", 1, 0).shape == (1, 1)
    assert set(asked) == {
        "0/decoder/queries/1/0",
        "0/decoder/keys/1/0",
        "0/mask/decoder/0",
        "0/bias/decoder/1/0",
    }
    asked.clear()
    assert trace.steps[150].rank == 1
    assert set(asked) == {"0/steps/2", "0/texts/2"}


def test_slices_of_unread_arrays_are_numpys(tmp_path: Path) -> None:
    whole = any_trace(captured=True, target=130)
    whole.save(tmp_path / "a.vis")
    trace = read_trace(tmp_path / "a.vis")
    array, expected = trace.captured["cross", 0], whole.captured["cross", 0]
    assert isinstance(array, StoredArray)
    for key in (
        np.s_[:],
        np.s_[1],
        np.s_[-1, 63:66],
        np.s_[..., :3],
        np.s_[:, 70:, 1:],
        np.s_[:2, 5:5],
        np.s_[..., 3],
        np.s_[:, ::2],
        np.s_[[0, 2]],
        np.s_[1, 128, 2],
    ):
        np.testing.assert_array_equal(array[key], expected[key])
    parts = array[1:][:, 60:100][0][3:70, 1:]
    np.testing.assert_array_equal(parts, expected[1:][:, 60:100][0][3:70, 1:])
    rows: Any = trace.decoder_rows
    assert isinstance(rows, StoredRows)
    for key in (np.s_[:5], np.s_[:, 3:40], np.s_[60:70, 5:8], np.s_[7], np.s_[:, 2]):
        np.testing.assert_array_equal(rows[key], whole.decoder_rows[key])
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(array)[0, 0, 0] = 1


def test_traces_cut_from_a_file_share_what_they_are_of(tmp_path: Path) -> None:
    any_trace(bias="full", captured=True).save(tmp_path / "a.vis")
    trace = read_trace(tmp_path / "a.vis")
    assert trace.until(2).whole is trace
    assert trace.until(3).until(2).whole is trace


def test_a_trace_from_a_file_pickles_and_copies(tmp_path: Path) -> None:
    trace = any_trace(bias="full", captured=True, target=70)
    trace.save(tmp_path / "a.vis")
    again = read_trace(tmp_path / "a.vis")
    (tmp_path / "a.vis").unlink()
    copied = pickle.loads(pickle.dumps(again.until(66)))
    assert_same(copied, trace.until(66))
    assert type(copied.decoder_rows) is np.ndarray


def test_a_trace_is_saved_over_its_own_file(tmp_path: Path) -> None:
    trace = any_trace(bias="full", captured=True, target=70)
    path = tmp_path / "a.vis"
    trace.save(path)
    read_trace(path).save(path)
    assert_same(read_trace(path), trace)
    read_trace(path).until(65).save(path)
    assert_same(read_trace(path), trace.until(65))


def test_a_file_replaced_while_it_is_open_stays_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    make_trace(seed=1).save(path)
    old = read_trace(path)
    make_trace(seed=2).save(path)
    assert_same(old, make_trace(seed=1))
    assert_same(read_trace(path), make_trace(seed=2))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors")
def test_a_file_is_closed_when_its_trace_goes(tmp_path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    make_trace().save(tmp_path / "a.vis")
    (tmp_path / "b.vis").write_bytes(MAGIC + b"\x09\x00")
    gc.collect()
    before = count()
    trace = read_trace(tmp_path / "a.vis")
    assert count() == before + 1
    assert trace.until(2).attention("cross", 0).size
    del trace
    assert count() == before
    with pytest.raises(InputError):
        read_trace(tmp_path / "b.vis")
    gc.collect()
    assert count() == before


# ---- files that are none -------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a Visformer trace"),
        (b"<html>not found</html>", "is not a Visformer trace"),
        (MAGIC + bytes((9, 0)), "newer Visformer"),
        (MAGIC + bytes((0, 0)), "is cut off"),
        (MAGIC + bytes((3,)), "is cut off"),
        (MAGIC + bytes((1, 0)), "no longer read"),
        (MAGIC + bytes((3, 0)), "“0/facts” is missing"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.vis"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_trace(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.vis")
    for path in (tmp_path / "pipe.vis", Path("/dev/zero")):
        with pytest.raises(InputError, match=r"is a (pipe|device), not a file"):
            read_trace(path)


def test_odd_names_are_one_sentence(tmp_path: Path) -> None:
    for name, words in (
        ("a\0b.vis", "name is not valid"),
        ("\ud800.vis", "cannot be read"),
        ("x" * 300, "cannot be read"),
        ("none.vis", "cannot be read"),
    ):
        with pytest.raises(InputError, match=words) as raised:
            read_trace(tmp_path / name)
        assert len(str(raised.value)) <= 200
    with pytest.raises(InputError, match="is a folder"):
        read_trace(tmp_path)


# ---- writing -------------------------------------------------------------------------


def test_unwritable_paths_are_one_sentence(tmp_path: Path) -> None:
    for name in ("no/a.vis", "a\0b.vis", "x" * 300):
        with pytest.raises(InputError, match="cannot be written"):
            write_trace(make_trace(), tmp_path / name)
    with pytest.raises(InputError, match="cannot be written"):
        write_trace(make_trace(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_trace_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    make_trace().save(path)
    odd = make_trace()
    for wrong in (
        replace(odd, source_spans=((0, 99),) * 5),
        replace(odd, decoder_rows=odd.decoder_rows[:, 1:]),
    ):
        with pytest.raises(InputError, match="cannot be written"):
            wrong.save(path)
    assert_same(read_trace(path), make_trace())


def test_weights_of_the_models_own_are_kept_where_they_differ(tmp_path: Path) -> None:
    trace = make_trace()
    own = {
        (kind, layer): trace.attention(kind, layer)
        for kind in KINDS
        for layer in range(2)
    }
    own["cross", 1] = own["cross", 1] + np.float32(5e-5)
    own["decoder", 0] = own["decoder", 0] + np.float32(1e-6)
    ran = replace(
        trace,
        own_weights=lambda kind, layer, head: own[kind, layer][
            slice(None) if head is None else head
        ],
    )
    ran.save(tmp_path / "a.vis")
    again = read_trace(tmp_path / "a.vis")
    assert [*again.captured] == [("cross", 1)]
    np.testing.assert_array_equal(again.attention("cross", 1), own["cross", 1])
    np.testing.assert_array_equal(again.attention("cross", 1, 1), own["cross", 1][1])
    np.testing.assert_array_equal(
        again.attention("decoder", 0), trace.attention("decoder", 0)
    )
