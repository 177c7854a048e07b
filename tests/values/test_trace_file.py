from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces import make_trace, with_config
from visformer.errors import InputError, VisformerError
from visformer.paths import FIRST_TRACE, resource
from visformer.values.config import FORMER_NAMES
from visformer.values.facts import KINDS, BlockParameters, Description
from visformer.values.intervention import NO_CHANGES, Intervention, parse
from visformer.values.trace import Trace
from visformer.values.trace_file import (
    MAGIC,
    _intervention,
    _model,
    _model_facts,
    read_trace,
    write_trace,
)


@pytest.mark.parametrize("length", [0, 4])
def test_round_trip(tmp_path: Path, length: int) -> None:
    trace = make_trace().until(length)
    trace.save(tmp_path / "a.vis")
    again = read_trace(tmp_path / "a.vis")
    assert again.model == trace.model
    assert again.steps == trace.steps
    assert (again.source, again.target) == (trace.source, trace.target)
    for kind in KINDS:
        np.testing.assert_array_equal(
            again.attention(kind, 0), trace.attention(kind, 0)
        )
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no Visformer trace"),
        (b"<html>not found</html>", "is no Visformer trace"),
        (MAGIC + bytes((9, 0)), "newer Visformer"),
        (MAGIC + bytes((1, 0)), "facts is missing"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.vis"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_trace(path)


def test_unwritable_and_missing_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_trace(make_trace(), tmp_path / "no" / "a.vis")
    with pytest.raises(InputError, match="cannot be read"):
        read_trace(tmp_path / "none.vis")


def test_a_newer_minor_and_an_unknown_block_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    make_trace().save(path)
    data = path.read_bytes()
    body = data[len(MAGIC) + 2 :]
    header = b'{"name": "later", "dtype": "uint8", "shape": [3], "bytes": 3}'
    block = len(header).to_bytes(4, "little") + header + b"abc"
    path.write_bytes(MAGIC + bytes((1, 7)) + block + body)
    assert len(read_trace(path)) == 4


def version_1(facts: dict[str, Any], *without: str) -> dict[str, Any]:
    """Write a model's facts as version 1 did: the config's fields lay among them."""
    config = facts.pop("config")
    for name in ("shared_embedding", "tied_output", *without):
        del config[name]
    del config["encoder_norm_length"], config["decoder_norm_length"]
    former = {today: old for old, today in FORMER_NAMES.items()}
    return {**facts, **{former.get(name, name): config[name] for name in config}}


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_of_version_1_opens(
    alone: bool,
) -> None:
    model = with_config(
        make_trace().model, masked_value=-math.inf, tied_output=True, w1_bias=False
    )
    blocks = (
        BlockParameters("target_embedding", 400),
        BlockParameters("source_embedding", 0, "target_embedding"),
        BlockParameters("output", 0, "target_embedding"),
    )
    model = replace(model, blocks=blocks)
    if alone:
        described = Description.of(model.config, ("decoder",))
        model = replace(model, **described._asdict())
    facts = version_1(_model_facts(model))
    if alone:
        facts["encoder_layers"] = 0
        model = with_config(model, encoder_layers=1)
    assert _model(json.loads(json.dumps(facts))) == model


def test_a_first_file_without_later_fields_opens() -> None:
    model = with_config(make_trace().model, shared_embedding=False, tied_output=False)
    facts = version_1(_model_facts(model), "w1_bias", "w2_bias", "gate_bias")
    del facts["blocks"]
    assert _model(facts) == model


def test_the_bundled_trace_opens() -> None:
    trace = read_trace(resource(FIRST_TRACE))
    assert (trace.model.config.heads, trace.model.config.masked_value) == (8, -1e9)
    assert trace.model.config.tied_output


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("trace") / "a.vis"
    make_trace(source=3, target=2, layers=1).save(path)
    return path.read_bytes()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_one_sentence_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, data: st.DataObject
) -> None:
    """Cut, or flip one byte: our own error, or the same Trace."""
    at = data.draw(st.integers(0, len(written) - 1))
    if data.draw(st.booleans()):
        damaged = written[:at]
    else:
        flip = data.draw(st.integers(1, 255))
        damaged = written[:at] + bytes([written[at] ^ flip]) + written[at + 1 :]
    path = tmp_path_factory.getbasetemp() / "damaged.vis"
    path.write_bytes(damaged)
    with contextlib.suppress(VisformerError):
        assert_same(read_trace(path), make_trace(source=3, target=2, layers=1))


def assert_same(one: Trace, other: Trace) -> None:
    assert (one.model, one.steps) == (other.model, other.steps)
    assert (one.source, one.target) == (other.source, other.target)
    for name in ("encoder_rows", "memory_rows", "decoder_rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for kind in KINDS:
        np.testing.assert_array_equal(one.masks[kind], other.masks[kind])


def blocks(written: bytes) -> dict[str, tuple[int, int]]:
    """Return where each block's bytes begin, and how many they are."""
    at, places = len(MAGIC) + 2, {}
    while at < len(written):
        size = int.from_bytes(written[at : at + 4], "little")
        header = json.loads(written[at + 4 : at + 4 + size])
        places[header["name"]] = at + 4 + size, header["bytes"]
        at += 4 + size + header["bytes"]
    return places


ROWS = ("encoder_rows", "memory_rows", "decoder_rows")
MASKS = ("encoder_mask", "decoder_mask", "cross_mask")


@pytest.mark.parametrize("name", ["facts", *ROWS, *MASKS])
def test_a_flipped_bit_is_noticed_in_the_block_it_is_in(
    written: bytes, tmp_path: Path, name: str
) -> None:
    start, size = blocks(written)[name]
    for at in (start, start + size // 2, start + size - 1):
        damaged = bytearray(written)
        damaged[at] ^= 1
        path = tmp_path / "damaged.vis"
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"{name} fails its checksum"):
            read_trace(path)


def test_what_altered_a_run_is_kept_as_data_and_read_from_text(tmp_path: Path) -> None:
    altered = parse(["causal +1; cell cross 1 2 off; positions scaled 2"])
    path = tmp_path / "a.vis"
    replace(make_trace(), intervention=altered).save(path)
    start, size = blocks(path.read_bytes())["facts"]
    facts = json.loads(path.read_bytes()[start : start + size])
    assert facts["intervention"] == altered.to_json()
    assert read_trace(path).intervention == altered
    # how version 1 wrote it
    assert _intervention("hide 3; fill -1e4") == parse(["hide 3; masked score -1e4"])
    assert _intervention("") == NO_CHANGES


def test_an_alteration_that_makes_no_sense_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    negative = {**NO_CHANGES.to_json(), "masks": [{"change": "hide", "token": -2}]}
    for wrong in (negative, 3, ["hide 1"]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Intervention, "to_json", lambda _, wrong=wrong: wrong)
            make_trace().save(path)
        with pytest.raises(InputError, match="is damaged"):
            read_trace(path)
