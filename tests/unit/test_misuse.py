"""The public API, misused: one sentence that names the argument, and what is allowed.

Every argument of every public callable meets values of every wrong kind; what is clear
is accepted.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visformer
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_checkpoint, tiny_model
from tests.traces import make_trace
from visformer.cli import main
from visformer.core.checkpoint import Checkpoint
from visformer.errors import VisformerError
from visformer.values.step import Candidates

SOURCE = [4, 9, 7, 12, 3]
NAN = math.nan


class Odd:
    """A stranger's object."""


ODD: dict[str, Any] = {
    "none": None,
    "object": Odd(),
    "type": Odd,
    "dict": {"a": 1},
    "set": {1},
    "bytes": b"abc",
    "file": io.BytesIO(b"abc"),
    "function": len,
    "float": 1.5,
    "nan": NAN,
    "infinite": math.inf,
    "complex": 1j,
    "true": True,
    "negative": -1,
    "huge": 10**30,
    "text": "abacus",
    "empty text": "",
    "NUL": "a\0b",
    "surrogate": "\ud800",
    "texts": ["I", "have"],
    "empty list": [],
    "ragged": [[4, 5], [4]],
    "nested": [[[4]]],
    "matrix": np.zeros((2, 2)),
    "tensor": torch.zeros(2, 2),
    "module": torch.nn.Linear(2, 2),
    "date": np.datetime64("2020-01-01"),
}


@cache
def checkpoint() -> Checkpoint:
    return tiny_checkpoint()


def decoding() -> visformer.Decoding:
    made = visformer.Decoding(checkpoint(), SOURCE, limit=9)
    made.step(2)
    return made


TEXT = {"text", "NUL", "surrogate"}  # as good as any other
NONE = {"none"}
ROWS = [[2, 4]]
Calls = dict[str, tuple[Callable[[Any], object], set[str]]]


def of_opening(folder: Path) -> Calls:
    build, load = visformer.build, visformer.load
    return {
        "path": (load, set()),
        "path[1]": (lambda x: load((folder, x)), set()),
        "layout": (lambda x: load(folder, layout=x), NONE),
        "heads": (lambda x: load(folder, heads=x), NONE),
        "pad": (lambda x: load(folder, pad=x), NONE),
        "bos": (lambda x: load(folder, bos=x), NONE),
        "tokenizer": (lambda x: load(folder, tokenizer=x), NONE),
        "names": (lambda x: load(folder, names=x), NONE),
        "device": (lambda x: load(folder, device=x), NONE | {"empty text"}),
        "preset": (build, set()),
        "seed": (lambda x: build("scratch", seed=x, d_model=8, heads=2), set()),
        "d_model": (lambda x: build("scratch", d_model=x), set()),
        "masked_value": (
            lambda x: build("scratch", d_model=8, heads=2, masked_value=x),
            {"float", "negative", "infinite", "huge"},
        ),
    }


def of_decoding(folder: Path) -> Calls:
    drive = visformer.Decoding
    return {
        "checkpoint": (lambda x: drive(x, SOURCE), set()),
        "source": (lambda x: drive(checkpoint(), x), TEXT),
        "limit": (lambda x: drive(checkpoint(), SOURCE, limit=x), NONE | {"huge"}),
        "max_new_tokens": (
            lambda x: drive(checkpoint(), SOURCE, max_new_tokens=x),
            NONE | {"huge"},
        ),
        "strategy": (lambda x: drive(checkpoint(), SOURCE, strategy=x), NONE),
        "intervention": (
            lambda x: drive(checkpoint(), SOURCE, intervention=x),
            NONE | {"empty text"},
        ),
        "count": (lambda x: decoding().step(x), {"huge"}),
        "count of back": (lambda x: decoding().back(x), {"huge"}),
        "token": (lambda x: decoding().force(x), set()),
        "reference": (
            lambda x: decoding().feed(x),
            TEXT | {"empty text", "empty list"},
        ),
        "choices": (lambda x: decoding().follow(x), {"empty list"}),
        "texts": (
            lambda x: visformer.translate(x, folder),
            TEXT | {"empty text", "texts", "empty list"},
        ),
        "model": (lambda x: visformer.translate("a", x), NONE),
        "beam": (lambda x: visformer.translate("a", folder, x), set()),
        "n_best": (lambda x: visformer.search("a", folder, 4, x), set()),
    }


def of_run(folder: Path) -> Calls:
    run = visformer.run
    return {
        "checkpoint of run": (lambda x: run(x, ROWS, ROWS), set()),
        "source_ids": (lambda x: run(checkpoint(), x, ROWS), NONE | TEXT),
        "target_ids": (lambda x: run(checkpoint(), ROWS, x), TEXT | {"empty text"}),
        "source_lengths": (
            lambda x: run(checkpoint(), ROWS, ROWS, source_lengths=x),
            NONE,
        ),
        "masks": (lambda x: run(checkpoint(), ROWS, ROWS, masks=x), NONE),
        "a mask": (
            lambda x: run(checkpoint(), ROWS, ROWS, masks={"cross": x}),
            set(),
        ),
    }


def of_values(folder: Path) -> Calls:
    cell, change = visformer.Cell, visformer.Intervention
    return {
        "name": (visformer.Strategy, set()),
        "temperature": (
            lambda x: visformer.Strategy(temperature=x),
            {"float", "huge"},
        ),
        "top_p": (lambda x: visformer.Strategy(top_p=x), set()),
        "top_k": (lambda x: visformer.Strategy(top_k=x), {"huge"}),
        "Intervention": (lambda x: change(x), set()),
        "masks of one": (lambda x: change(masks=x), {"empty list"}),
        "masked score": (
            lambda x: change(masked_value=x),
            {"none", "float", "negative", "huge"},
        ),
        "positions": (lambda x: change(positions=x), NONE),
        "offset": (visformer.Causal, {"none", "negative"}),
        "layer": (lambda x: visformer.Causal(1, layer=x), NONE),
        "hidden token": (visformer.HideSource, set()),
        "kind": (lambda x: cell(x, 1, 1, allowed=True), set()),
        "allowed": (lambda x: cell("cross", 1, 1, allowed=x), {"true"}),
        "form": (visformer.PositionChange, set()),
        "amount": (
            lambda x: visformer.PositionChange("scaled", x),
            {"float", "negative"},
        ),
        "text": (visformer.parse_change, {"empty text"}),
    }


def of_traces(folder: Path) -> Calls:
    trace, vis = make_trace(), folder / "a.vis"
    return {
        "kind of attention": (lambda x: trace.attention(x, 0), set()),
        "layer of attention": (
            lambda x: trace.attention("cross", x),
            NONE | {"negative"},
        ),
        "head": (lambda x: trace.attention("cross", 0, x), NONE | {"negative"}),
        "layer of rollout": (lambda x: trace.rollout("encoder", x), {"negative"}),
        "row of lens": (trace.lens, set()),
        "kind of layers": (trace.layers, set()),
        "kind of mask": (lambda x: trace.mask(x, 0), set()),
        "kind of heads": (trace.heads, set()),
        "stack": (lambda x: trace.hidden(x, 0), set()),
        "layer of hidden": (
            lambda x: trace.hidden("decoder", x),
            NONE | {"negative"},
        ),
        "length": (trace.until, {"huge"}),
        "file to save": (trace.save, {"text"}),
        "trace file": (visformer.open_trace, set()),
        "session file": (visformer.open_session, set()),
        "runs": (lambda x: visformer.save_session(vis, x), set()),
        "shown": (lambda x: visformer.save_session(vis, [trace], shown=x), set()),
        "file to show": (visformer.show, set()),
        "trace": (visformer.leaks, set()),
        "file to inspect": (visformer.inspect, TEXT | {"texts"}),
    }


def calls(folder: Path) -> Calls:
    """Return each argument of the API: what calls it, and the odd values it takes."""
    return {
        **of_opening(folder),
        **of_decoding(folder),
        **of_run(folder),
        **of_values(folder),
        **of_traces(folder),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_letters(tmp_path_factory.mktemp("letters"))


NAMES = list(calls(Path()))


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_meant_is_refused_in_a_sentence(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, taken = calls(folder)[name]
    if name in ("beam", "model"):
        monkeypatch.setattr("visformer.paths.DEFAULT_CHECKPOINT", str(folder))
    for kind, odd in ODD.items():
        if kind in taken:
            call(odd)
            continue
        try:
            made = call(odd)
        except (VisformerError, TypeError) as refused:
            said = str(refused)
        else:
            pytest.fail(f"{name}, given {kind}, returned {made!r}")
        about = f"{name}, given {kind}: {said}"
        assert "\n" not in said, about
        assert 10 < len(said) <= 200, about
        assert said.endswith("."), about
        raw = (
            "object",
            "argument",
            "__",
            "NoneType",
            "unhashable",
            "operand",
            "isinst",
        )
        own = said.replace("'abacus'", "").replace("of type", "")
        assert not any(word in own for word in raw), about


def test_what_is_clear_is_accepted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = checkpoint()
    decode: Any = visformer.Decoding
    greedy = decode(model, SOURCE, strategy="greedy", limit=np.int64(3))
    assert greedy.strategy == visformer.Strategy("greedy")
    off = decode(model, torch.tensor(SOURCE), intervention="causal off")
    assert off.intervention == visformer.parse_change("causal off")
    one = decode(model, SOURCE, intervention=visformer.Causal(None))
    assert one.intervention == off.intervention
    change: Any = visformer.Causal(None)
    assert visformer.Intervention(masks=change) == off.intervention
    assert greedy.step(np.int64(2)) is not None
    assert visformer.load(folder, device=torch.device("cpu")).device.type == "cpu"
    assert visformer.Decoding(str(folder), "ab").finish().text is not None
    (trace,) = visformer.run(folder, [SOURCE], [[2, 5]], intervention="multiply")
    assert trace.intervention.masked_value == 0
    monkeypatch.setenv("HOME", str(folder.parent))
    assert visformer.load(f"~/{folder.name}").name == "letters a>z"
    assert visformer.inspect(f"~/{folder.name}")["layout"] == "native"
    several = visformer.translate(["ab", "", "abc"], folder)
    assert several == [*visformer.translate("ab", str(folder)), "", several[2]]
    assert several[2] == visformer.translate(("abc",), visformer.load(folder))[0]
    assert visformer.leaks(off.step(3))[0].what == "future"
    assert visformer.inspect(folder, check=True)["check"]["passed"] is True


def test_a_file_of_traces_is_described_as_the_command_does(tmp_path: Path) -> None:
    make_trace().save(tmp_path / "a.vis")
    report = visformer.inspect(tmp_path / "a.vis")
    assert (report["problem"], len(report["runs"])) == (None, 1)


def test_a_refused_call_leaves_the_decoding_as_it_was() -> None:
    made = decoding()
    before = made.trace
    acts: list[Callable[[], object]] = [
        lambda: made.step(-1),
        lambda: made.force("abacus"),
        lambda: made.feed([4, 99]),
        lambda: made.feed([4.5]),  # type: ignore[list-item]
        lambda: made.follow([(99, "forced")]),
        lambda: made.restart(""),
    ]
    for act in acts:
        with pytest.raises((VisformerError, TypeError)):
            act()
        assert made.trace.target_ids.tolist() == before.target_ids.tolist()
    assert len(made.step()) == 3


def test_reprs_are_short() -> None:
    made = decoding()
    step = made.trace.steps[0]
    for value, words in {
        made: "Decoding at step 2",
        made.trace: "Trace of tiny",
        checkpoint(): "Checkpoint tiny (native, on cpu): 2+2 layers, 2 heads, width 16",
        step.candidates: "30 Candidates",
        visformer.Decoding(checkpoint(), "ab" * 30): "“abab",
    }.items():
        assert words in repr(value)
        assert len(repr(value)) <= 160
    assert len(repr(step)) <= 400


def test_no_repr_and_no_report_gives_a_terminal_orders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = "\x1b]0;T\x07\x1b[2J\x9b"
    trace = make_trace()
    facts = replace(trace.model, name=order)
    named = replace(trace, model=facts, source_text=order)
    named.save(tmp_path / "a.vis")
    read = visformer.open_session(tmp_path / "a.vis")
    ones: Any = dict.fromkeys(
        ("weights", "queries", "keys", "values"), np.ones((1, 1, 1, 1), np.float32)
    )
    numbers: Any = {"scale": 1.0, "added": None, "difference": 0.0, "tolerance": 0.0}
    watched = visformer.WatchedAttention(module=order, kind="cross", **ones, **numbers)
    candidates = Candidates(np.array([3]), [order], np.array([1.0]))
    shown = read, read.shown, read.shown.trace, facts, watched, candidates
    native = replace(checkpoint(), name=order)
    for value in (*shown, native, visformer.Decoding(native, "ab")):
        assert repr(value).isprintable(), value.__class__
    assert main(["inspect", str(tmp_path / "a.vis")]) == 0
    said = capsys.readouterr().out
    assert "model: [U+001B]]0;T" in said
    assert said.replace("\n", "").isprintable()


def test_a_pickled_trace_is_no_larger_than_its_file(tmp_path: Path) -> None:
    model = tiny_model(source_vocabulary=4000, target_vocabulary=4000)
    large = visformer.build("scratch", target_vocabulary=9000, d_model=32, heads=2)
    for trace in (
        visformer.Decoding(large, [4, 5, 6, 7], limit=40).finish(),
        visformer.run(large, [[4, 5, 6]], [[1, 5, 6, 7]])[0],
    ):
        trace.save(tmp_path / "a.vis")
        data = pickle.dumps(trace)
        assert len(data) <= (tmp_path / "a.vis").stat().st_size
        again = pickle.loads(data)
        assert again.attention("cross", 0).shape == trace.attention("cross", 0).shape
        with pytest.raises(VisformerError, match="output projection"):
            again.logits  # noqa: B018
    assert model is not None
