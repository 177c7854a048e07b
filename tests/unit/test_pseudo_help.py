"""Help and errors of the command line in the pseudo-language."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import visformer
from tests.pseudo import WORD, Unmarked, english, spoken
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from visformer.cli import COMMANDS, command_parser, main, window_parser
from visformer.errors import VisformerError
from visformer.pictures.positions import parse_dimensions
from visformer.values.intervention import parse

GRAMMAR = "causal off hide cell cross multiply masked score positions layer"
ALLOWED = {
    "visformer",
    "COMMAND",
    *COMMANDS,
}


@pytest.fixture(autouse=True)
def missing() -> Iterator[Unmarked]:
    with spoken() as unmarked:
        yield unmarked


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Return the words that stand for options: names, places and choices."""
    texts = []
    for action in parser._actions:
        texts += [*action.option_strings, action.dest, str(action.metavar)]
        texts += [action.dest.upper(), *map(str, action.choices or ())]
    return {word for text in texts for word in WORD.findall(text)}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "4000")  # nothing is broken into lines
    parser = command_parser(name) if name else window_parser()
    assert english(parser.format_help(), ALLOWED | options_of(parser)) == []


BAD_ARGUMENTS: list[list[str]] = [
    ["translate", "--beam", "0"],
    ["translate", "--checkpoint", "/no/such"],
    ["translate", "--device", "abacus"],
    ["inspect", "/no/such"],
    ["/no/such"],
    ["render", "--text", "a", "-o", "/no/such/x.png"],
    ["render", "--text", "a", "-o", "x.png", "--size", "big"],
    ["render", "--text", "a", "-o", "x.png", "--kind", "odd"],
    ["render", "--text", "a", "-o", "x.png", "--zoom", "5"],
    ["render", "--text", "a", "-o", "x.png", "--hide", "x"],
    ["render", "--text", "a", "-o", "x.png", "--steps", "-1"],
    ["render", "--text", "a", "-o", "x.png", "--change", "causal on"],
    ["train", "/no/such.tsv", "--out", "/no/such"],
]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=" ".join)
def test_bad_arguments(
    arguments: list[str], capsys: pytest.CaptureFixture[str], missing: Unmarked
) -> None:
    assert main(arguments) == 2
    assert english(capsys.readouterr().err, {"visformer"}) == []
    assert missing.templates == set()


def empty(folder: Path) -> str:
    (folder / "empty").mkdir()
    return str(folder / "empty")


def file_of(folder: Path, value: object) -> str:
    torch.save(value, folder / "m.pt")
    return str(folder / "m.pt")


def text_file(folder: Path, name: str, text: str = "hello") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


FAULTS: dict[str, Callable[[Path], object]] = {
    "an empty folder": lambda f: visformer.load(empty(f)),
    "no such file": lambda f: visformer.load(str(f / "no.pt")),
    "a text": lambda f: visformer.load(text_file(f, "m.pt")),
    "a text named safetensors": lambda f: visformer.load(text_file(f, "m.safetensors")),
    "a list": lambda f: visformer.load(file_of(f, [1, 2])),
    "no tensors": lambda f: visformer.load(file_of(f, {})),
    "strange tensors": lambda f: visformer.load(file_of(f, {"a": torch.ones(2, 3)})),
    "a bad config": lambda f: visformer.load(
        str(Path(text_file(f, "config.json", "{")).parent)
    ),
    "no trace": lambda f: visformer.open_trace(text_file(f, "t.vis")),
    "no such trace": lambda f: visformer.open_trace(str(f / "no.vis")),
    "no such layer": lambda f: make_trace().attention("cross", 9, 0),
    "no such head": lambda f: make_trace().attention("cross", 0, 9),
    "a bad layout": lambda f: visformer.build("none"),
    "bad sizes": lambda f: visformer.build("scratch", d_model=7),
    "no such token": lambda f: visformer.Decoding(tiny_checkpoint(), "a").force("☃"),
    "bad ids": lambda f: visformer.run(tiny_checkpoint(), [[999]], [[1]]),
    "a bad dimension": lambda f: parse_dimensions("x", 8),
    "too large a dimension": lambda f: parse_dimensions("9", 8),
    "a backward range": lambda f: parse_dimensions("5-2", 8),
    "no dimension": lambda f: parse_dimensions("", 8),
}
CHANGES = (
    *("x", "causal", "causal +x", "hide", "hide 0", "cell cross 1", "cell odd 1 2 on"),
    *("masked score x", "positions x", "causal off @ L0"),
)


@pytest.mark.parametrize("fault", FAULTS)
def test_errors(fault: str, tmp_path: Path, missing: Unmarked) -> None:
    with pytest.raises(VisformerError) as raised:
        FAULTS[fault](tmp_path)
    assert english(str(raised.value), set()) == []
    assert missing.templates == set()


@pytest.mark.parametrize("change", CHANGES)
def test_bad_changes(change: str, missing: Unmarked) -> None:
    with pytest.raises(VisformerError) as raised:
        parse([change])
    # the grammar's own words are the same in every language
    assert english(str(raised.value), WORD.findall(GRAMMAR)) == []
    assert missing.templates == set()
