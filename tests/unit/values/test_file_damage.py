"""Damaged files: what is whole opens, what is missing is said, nothing is made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.general_traces import Shape, any_trace
from tests.traces import make_trace, with_config
from tests.unit.values.test_trace_file import assert_same
from tests.unit.values.vis_files import Blocks, Facts, file_of, with_facts
from visformer.errors import InputError
from visformer.trace_file import file_blocks, run_arrays
from visformer.trace_file.file_blocks import START, foot, head
from visformer.trace_file.trace_file import read_session, read_trace
from visformer.values.trace import Trace

BLOCK = 2  # rows per block here


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_arrays, "HEIGHT", BLOCK)


def tiny() -> Trace:
    return make_trace(source=3, target=5, layers=1, d_model=4)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("verified", [0, 1 << 24])
@pytest.mark.parametrize(
    "every", [61, pytest.param(7, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_a_file_cut_anywhere_opens_to_its_last_whole_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verified: int, every: int
) -> None:
    monkeypatch.setattr(file_blocks, "VERIFIED", verified)
    path, trace = tmp_path / "a.vis", tiny()
    trace.save(path)
    whole = path.read_bytes()
    ends = {stop for _name, _start, stop in Blocks.of(whole).spans()}
    around = {end + by for end in ends for by in (-1, 0, 1)}
    opened: list[int] = []
    for size in sorted(around | {*range(0, len(whole), every)}):
        path.write_bytes(whole[:size])
        try:
            session = read_session(path)
        except InputError:
            assert not opened, "a longer file must open as well"
            continue
        found = session.shown.trace
        opened.append(len(found))
        assert_same(found, trace.until(len(found)))
        assert bool(found.missing) == (len(found) < len(trace))
        assert session.missing == found.missing
    assert opened == sorted(opened)
    assert set(opened) == {0, 2, 4, 5}
    assert opened.count(5) > 3  # the index is not needed


@pytest.mark.usefixtures("small_blocks")
def test_what_is_missing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    tiny().save(path)
    blocks = Blocks.of(path.read_bytes())
    path.write_bytes(blocks.without("0/decoder/keys/0/1").whole())
    assert read_trace(path).missing == (
        "a.vis is cut off or damaged: 2 of 5 target tokens could be read."
    )
    path.write_bytes(blocks.without("0/memory/keys/0/1").whole())
    with pytest.raises(InputError, match="its block “0/memory/keys/0/1” is missing"):
        read_trace(path)
    replace(tiny(), model=with_config(tiny().model, masked_value=0.0)).save(path)
    path.write_bytes(Blocks.of(path.read_bytes()).without("0/steps/1").whole())
    lost = "Weights are over these alone; the run had others, too."  # rows read later
    assert read_trace(path).missing.endswith(lost)


@pytest.mark.usefixtures("small_blocks")
def test_a_flipped_bit_is_noticed_in_the_block_it_is_in(tmp_path: Path) -> None:
    path, trace = tmp_path / "a.vis", tiny()
    trace.save(path)
    whole = path.read_bytes()
    for name, start, stop in Blocks.of(whole).spans():
        for at in {start, (start + stop) // 2, stop - 1}:
            flipped = whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]
            path.write_bytes(flipped)
            target = name.split("/")[1:2] in (["decoder"], ["steps"], ["texts"])
            if name == "index":
                assert_same(read_trace(path), trace)
            elif target or name in ("0/mask/decoder/1", "0/mask/cross/1"):
                found = read_trace(path)
                assert len(found) == BLOCK * int(name.split("/")[-1])
                assert_same(found, trace.until(len(found)))
                assert found.missing


@pytest.mark.usefixtures("small_blocks")
def test_damage_of_a_large_file_is_named_where_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_blocks, "VERIFIED", 0)
    path, trace = tmp_path / "a.vis", tiny()
    trace.save(path)
    whole = bytearray(path.read_bytes())
    for name, _start, stop in Blocks.of(bytes(whole)).spans():
        if name in ("0/decoder/keys/0/1", "0/steps/2"):
            whole[stop - 1] ^= 1
    path.write_bytes(whole)
    found = read_trace(path)
    assert len(found) == 5
    assert_same(found.until(2), trace.until(2))
    with pytest.raises(InputError, match="“0/decoder/keys/0/1” fails its checksum"):
        found.attention("decoder", 0)
    with pytest.raises(InputError, match="“0/steps/2” fails its checksum"):
        found.steps[-1]


def test_a_file_that_becomes_shorter_while_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_blocks, "VERIFIED", 0)
    path = tmp_path / "a.vis"
    make_trace().save(path)
    trace = read_trace(path)
    with path.open("r+b") as file:
        file.truncate(START)
    with pytest.raises(InputError, match="fails its checksum"):
        trace.attention("encoder", 0)


def test_an_index_that_lies_is_no_help(tmp_path: Path) -> None:
    path, trace = tmp_path / "a.vis", make_trace()
    trace.save(path)
    blocks = Blocks.of(path.read_bytes())
    body = blocks.body()
    places = json.loads(blocks.payloads["index"])
    lies: list[Any] = [
        [],
        {},
        [["session"]],
        [[name, at + 1, size] for name, at, size in places],
        [[name, at, size + 1] for name, at, size in places],
        [[name, 1 << 62, size] for name, at, size in places],
        [[name, at, -size] for name, at, size in places],
        [[name, places[0][1], places[0][2]] for name, at, size in places],
        places + places,
        [[name + "x" * (1 << 16), at, size] for name, at, size in places],
        [["\ud800" + name, at, size] for name, at, size in places],
        [["NO UTF-8" + name, at, size] for name, at, size in places],
    ]
    for lie in lies:
        index = json.dumps(lie).encode().replace(b"NO UTF-8", b"\xff")
        end = head(b"index", index) + index + foot(START + len(body))
        path.write_bytes(blocks.start + body + end)
        try:
            assert_same(read_trace(path), trace)
        except InputError:
            assert lie == [] or len(lie) == len(places)
    for at in (0, 3, 1 << 40, (1 << 64) - 1):
        path.write_bytes(blocks.start + body + foot(at))
        assert_same(read_trace(path), trace)


# ---- facts of the wrong type or range ------------------------------------------------


def put(*path: str | int, to: Any) -> Callable[[Facts], None]:
    """Return what puts a value into facts at a path."""

    def change(facts: Facts) -> None:
        place: Any = facts
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


MODEL: list[tuple[tuple[str | int, ...], list[Any]]] = [
    (("attention",), [{}, [], None, {"sideways": {}}]),
    (("attention", "cross", "heads"), [0, -1, 3, 1 << 40, 2.5, "4", True, None]),
    (("attention", "cross", "key_heads"), [0, -2, 3, 8]),
    (("attention", "cross", "head_size"), [0, -3, 1 << 30]),
    (("attention", "cross", "value_size"), [0, -3, 1 << 30]),
    (
        ("attention", "cross", "scales"),
        [[], [0, 1], [1e-300, 1], ["1", "2"], [1] * 999],
    ),
    (("attention", "cross", "masked_value"), ["inf", "nan", "x", [], None, 1e300]),
    (("stacks", "encoder", "d_model"), [0, -1, 1 << 30, "8"]),
    (("stacks", "encoder", "hidden"), [-1, 1 << 20]),
    (("stacks",), [{"middle": {}}, None]),
    (("known",), [{}, [], 3]),
    (("name",), [3, None, "x" * 10_000]),
    (("parameters",), [-1, 1 << 60, "9", [], 2.5]),
    (("pad",), [-2, 1 << 40, "0"]),
    (("blocks",), [[["output"]], [["output", -1, ""]], [[1, 2, 3]]]),
]
NO_CHANGES: dict[str, Any] = {
    "masks": [],
    "masked_value": None,
    "positions": None,
}  # of version 3
OTHERS: list[tuple[tuple[str | int, ...], list[Any]]] = [
    (("source_text",), [None, 3, "x" * (1 << 21)]),
    (("source",), [[], ["a"], [1, 2, 3, 4, 5], None, "abcde"]),
    (("source_ids",), [[], [1.5] * 5, ["1"] * 5, [1 << 70] * 5, [-9] * 5]),
    (("source_spans",), [[[0, 1]], [[5, 2]] * 5, [[0, 99_999]] * 5, [[-1, 0]] * 5]),
    (("target",), [["a"] * 3, [1, 2, 3, 4]]),
    (("target_ids",), [[1], [None] * 4]),
    (("chosen",), [1, ["a"], [1, 2, 3, 4], None]),
    (("text",), [None, 3, ""]),
    (("height",), [0, -1, 1, 1 << 30, "64"]),
    (("prompt",), [-1, 5, "1"]),
    (("truncated_from",), [-1, 1 << 40, None]),
    (("intervention",), [None, {}, 3, [3], {"masks": []}, [{"change": "hide"}]]),
    (("intervention",), [[{"change": "hide", "token": 99}], [{"token": 1}]]),
    (("intervention",), [[{"change": "causal", "offset": 1, "layer": 9}]]),
    (("intervention",), [{**NO_CHANGES, "masked_value": "nan"}]),
    (("intervention",), [{**NO_CHANGES, "masked_value": []}]),
    (("intervention",), [[{"change": "masked score", "masked_value": "nan"}]]),
    (("intervention",), [[{"change": "masked score", "masked_value": 1e300}]]),
    (("fills",), [[[9, []]], [[0, [[1, "a", 2.0]]]], [[0, [[1, "a"]]]], 3]),
    (("layered_masks",), [["none"], 3]),
    (("biases",), [{"cross": []}, {"none": []}, {"cross": [{}, {}]}]),
    (("biases", "cross", 0, "heads"), [0, 3, 1 << 40]),
    (("biases", "cross", 0, "layer"), [1, -1, 7]),
    (("biases", "cross", 0, "width"), [0, 8, 1 << 40]),
    (("biases", "cross", 0, "zero"), [-1, 7]),
    (("captured",), [[["cross", 9]], [["none", 0]], [["cross", -1]], 3]),
    (("encoder_of",), [1, -1]),
    (("memory_of",), [1, "0"]),
    (("name",), [None, 3, "x" * 2000]),
    (("selection",), [3, {"kind": "x"}, {"layer": -1}, {"step": "1"}]),
]
WRONG = [
    *((("model", *path), value) for path, values in MODEL for value in values),
    *((path, value) for path, values in OTHERS for value in values),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_wrong_facts_are_refused_in_one_sentence(
    tmp_path: Path, path: tuple[str | int, ...], value: Any
) -> None:
    file = tmp_path / "a.vis"
    trace = any_trace(Shape(heads=4), bias="distance")
    file.write_bytes(with_facts(file_of(trace, tmp_path), put(*path, to=value)))
    with pytest.raises(InputError) as raised:
        read_trace(file)
    assert len(str(raised.value)) <= 200


@pytest.mark.parametrize(
    "text", [b"", b"[" * 9999, b"{}", b"null", b"1" * 9999, b"\xff"]
)
def test_facts_that_are_no_facts_are_refused(tmp_path: Path, text: bytes) -> None:
    blocks = Blocks.of(file_of(make_trace(), tmp_path))
    for name in ("0/facts", "session"):
        changed = blocks.with_payload(name, text)
        (tmp_path / "b.vis").write_bytes(changed.whole())
        with pytest.raises(InputError, match="facts are wrong"):
            read_trace(tmp_path / "b.vis")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("0/steps/0", lambda data: data[:-1]),
        ("0/steps/0", lambda data: data + b"\0"),
        ("0/steps/0", lambda data: b"\xff" * 8 + data[8:]),  # an id of -1
        ("0/steps/0", lambda data: data[:-1] + b"\x06"),  # an origin that is none
        ("0/texts/0", lambda data: data.replace(b'"rest"', b'"rust"')),
        ("0/texts/0", lambda data: data.replace(b'"common": [', b'"common": [99, ')),
        ("0/texts/0", lambda data: data.replace(b'"common": [', b'"common": [1')),
    ],
)
@pytest.mark.parametrize("verified", [0, 1 << 24])
def test_steps_that_do_not_fit_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: Callable[[bytes], bytes],
    verified: int,
) -> None:
    monkeypatch.setattr(file_blocks, "VERIFIED", verified)
    blocks = Blocks.of(file_of(make_trace(), tmp_path))
    payload = change(blocks.payloads[name])
    assert payload != blocks.payloads[name]
    path = tmp_path / "b.vis"
    path.write_bytes(blocks.with_payload(name, payload).whole())
    if verified:
        with pytest.raises(InputError, match="“0/steps/0” do not fit together"):
            read_trace(path)
        return
    trace = read_trace(path)
    assert np.isfinite(trace.attention("cross", 0)).all()
    with pytest.raises(InputError, match="“0/steps/0” do not fit together"):
        _ = trace.text
