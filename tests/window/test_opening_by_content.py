"""Whatever is opened is told by its content, by each way in, and in one sentence."""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot
from safetensors.torch import save

import visformer
from tests.system.formats.hostile import zipped
from tests.traces import make_trace
from tests.window.parts import drop
from tests.window.windows import Pair
from visformer import paths
from visformer.app import App
from visformer.cli import main
from visformer.file_kinds import START, recognised, told
from visformer.session.lesson import read_lesson
from visformer.trace_file.trace_file import read_session
from visformer.ui.window import actions
from visformer.ui.window.window import MainWindow

TRACE = make_trace(source=4, target=3, seed=5)


def numpy_file() -> bytes:
    made = io.BytesIO()
    np.savez(made, a=np.ones(3))
    return made.getvalue()


def torch_file() -> bytes:
    made = io.BytesIO()
    torch.save({"a": torch.ones(3)}, made)
    return made.getvalue()


VOCABULARY = b"<pad>\n<s>\n</s>\nthe\nof\n"
TOKENIZER_JSON = json.dumps({"version": "1.0", "added_tokens": [], "model": {}})
TOKENIZERS = {
    "spm.model": (paths.checkpoint() / "tokenizer.model").read_bytes()[: 2 * START],
    "tokenizer.json": TOKENIZER_JSON.encode(),
    "vocab.json": b'{"<s>": 0, "a\\u0120": 1, "b": 2}',
    "list.json": b'["<s>", "a"]',
    "vocab.txt": VOCABULARY,
    "long.txt": VOCABULARY * 999,
    "pieces.vocab": b"<unk>\t0\n<s>\t0\n\xe2\x96\x81the\t-3.2\n",
    "dict.txt": b"the 3910\nof 812\n",
    "merges.txt": b"#version: 0.2\nt h\nth e\n",
    "vocab.pt": VOCABULARY,
}
REFUSED = {  # name -> content, words of the sentence
    **{n: (c, "is a tokenizer, not a model. Open the") for n, c in TOKENIZERS.items()},
    "pairs.tsv": (b"A cat.\tUn chat.\n\nDogs.\tChiens.\n", "“visformer train” learns"),
    "notes.txt": (b"First one line.\nThen another.\n", "notes.txt is text."),
    "notes.vis": (b"First one line.\nThen another.\n", "notes.vis is text."),
    "run.json": (b'{"runs": []}', "run.json is JSON. Visformer opens models"),
    "a.pt": (b"GGUF\3\0\0\0", "a.pt was made for GGUF"),
    "b.pt": (b"\x08\x07\x12\x07pytorch\x1a", "b.pt was made for ONNX"),
    "c.pt": (numpy_file(), "c.pt was made for NumPy"),
    "model.onnx": (b"\0", "model.onnx was made for ONNX"),
    "cat.jpeg": (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "cat.jpeg is an image."),
    "cat.vis": (b"\x89PNG\r\n\x1a\n" + bytes(40), "cat.vis is an image."),
    "map.svg": (paths.resource(paths.ICON).read_bytes(), "map.svg is an image."),
    "film.mp4": (b"\0\0\0 ftypisom" + bytes(40), "is sound or a film."),
    "paper.pdf": (b"%PDF-1.7\n\xe2\xe3\xcf\xd3", "paper.pdf is a PDF file."),
    "talk.pptx": (zipped({"[Content_Types].xml": b"x"}), "is an office document."),
    "run.sh": (b"#!/bin/sh\necho\n", "run.sh is a program."),
    "app.exe": (b"MZ" + bytes(90), "app.exe is a program."),
    "a.db": (b"SQLite format 3\0" + bytes(40), "a.db is a database."),
    "404.pt": (b"<!DOCTYPE html><title>404</title>", "so the download went wrong"),
    "lfs.pt": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "all.tar.gz": (b"\x1f\x8b\x08" + bytes(40), "is an archive (gzip)"),
    "empty.pt": (b"", "empty.pt is empty."),
    "empty.vis": (b"", "empty.vis is empty."),
    "empty.lesson.md": (b"", "empty.lesson.md is empty."),
    "bare.html": (visformer.to_html(TRACE).encode(), "without its run"),
    "bad.lesson.md": (b"# A title\n\nand some words\n", "bad.lesson.md, line 1:"),
    "new.vis": (b"VISFORMER TRACE\n\x63\0", "was written by a newer Visformer"),
    "cut.vis": (b"VISFORMER TRACE\n", "cut.vis is cut off"),
}


def page(folder: Path) -> bytes:
    visformer.to_html(TRACE, folder / "attached.html", attach=True)
    return (folder / "attached.html").read_bytes()


def trace(folder: Path) -> bytes:
    TRACE.save(folder / "saved.vis")
    return (folder / "saved.vis").read_bytes()


def lesson(folder: Path) -> bytes:
    (folder / "run.vis").write_bytes(trace(folder))
    head = "---\ntitle: T\nvisformer-lesson: 1\ntrace: run.vis\n---\n"
    return f"{head}## One\nWords.\n".encode()


OPENED: dict[str, tuple[str, Callable[[Path], bytes]]] = {  # name -> its kind, content
    "trace.pt": ("trace", trace),
    "trace": ("trace", trace),
    "trace.html": ("trace", trace),
    "page.html": ("page", page),
    "page.vis": ("page", page),
    "lesson.txt": ("lesson", lesson),
    "lesson.vis": ("lesson", lesson),
    "model.vis": ("model", lambda _: save({"a": torch.ones(3)})),
    "model.txt": ("model", lambda _: torch_file()),
    "model.lesson.md": ("model", lambda _: b"\x80\x02}q\0."),
    "config.json": ("model", lambda _: b'{"format": "x"}'),
}


def choose(window: MainWindow, path: Path) -> None:
    actions.choose_files(window)
    dialog = window.findChildren(QFileDialog)[-1]
    dialog.filesSelected.emit([str(path)])
    dialog.close()
    dialog.setParent(None)


def start(window: MainWindow, path: Path) -> None:
    """Go the way of the command line, once the window is built."""
    App.start(cast(App, SimpleNamespace(window=window, _show_recorded=bool)), str(path))


WAYS: dict[str, Callable[[MainWindow, Path], None]] = {
    "drop": drop,
    "menu": choose,
    "command line": start,
}


def shows_another(window: MainWindow, before: object) -> bool:
    return window.session.state.trace is not before


def write(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_opened_is_said_and_nothing_is_lost(
    way: str, pair: Pair, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = pair
    window.open(str(write(tmp_path, "first.vis", trace(tmp_path))))
    qtbot.waitUntil(lambda: window.session.state.trace is not None)
    every = 3 if way == "menu" else 1  # it goes on as the drop does
    for name, (content, words) in list(REFUSED.items())[::every]:
        before = window.session.state, len(engine.opened)
        WAYS[way](window, write(tmp_path, name, content))
        qtbot.waitUntil(lambda: bool(window.session.state.error))
        after = window.session.state
        assert words in after.error, name
        assert len(after.error) <= 200
        assert after.trace is before[0].trace
        bundled = (str(paths.checkpoint()), "")  # what is typed next needs a model
        asked = engine.opened[before[1] :]
        assert asked == ([bundled] if way == "command line" else []), name
        window.session.set(error="", busy="")


@pytest.mark.parametrize("way", WAYS)
def test_what_can_be_opened_is_whatever_its_name(
    way: str, pair: Pair, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = pair
    for name, (kind, make) in OPENED.items():
        path = write(tmp_path, name, make(tmp_path))
        assert recognised(path) == (kind, ""), name
        window.lessons.close()
        window.session.set(busy="", error="")
        before = window.session.state.trace
        WAYS[way](window, path)
        if kind == "model":
            assert engine.opened[-1] == (str(path), "")
        elif kind == "lesson":
            qtbot.waitUntil(lambda: window.lessons.lesson is not None)
        else:
            qtbot.waitUntil(partial(shows_another, window, before))
        state = window.session.state
        assert state.error == "", name
        assert state.trace is None or state.trace.target == TRACE.target


@pytest.mark.skipif(os.name != "posix", reason="there are no pipes")
def test_what_is_no_file_is_said_at_once(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, engine = pair
    os.mkfifo(tmp_path / "pipe.vis")
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.pt")
        words = {"pipe.vis": "a pipe", "socket.pt": "a socket", "/dev/zero": "a device"}
        for name, what in words.items():
            window.open(str(tmp_path / name))
            file = Path(name).name
            said = f"{file} is {what}, not a file. Choose a file."
            assert window.session.state.error == said
    os.symlink("round.pt", tmp_path / "round.pt")
    window.open(str(tmp_path / "round.pt"))
    assert "a link that leads back to itself" in window.session.state.error
    assert engine.opened == []

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    for name in ("a.pt", "a.vis", "a.lesson.md"):
        path = write(tmp_path, name, VOCABULARY)
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", denied)
            window.open(str(path))
        reason = "(Permission denied): check the file and its folder."
        assert window.session.state.error == f"{name} cannot be read {reason}"


def test_a_huge_file_is_told_by_its_start(pair: Pair, tmp_path: Path) -> None:
    """A sparse one: it takes no room on the disk."""
    path = write(tmp_path, "huge.pt", b"%PDF-1.7")
    os.truncate(path, 1 << 40)
    pair[0].open(str(path))
    assert "huge.pt is a PDF file." in pair[0].session.state.error


def test_a_model_and_its_tokenizers_are_told_apart(tmp_path: Path) -> None:
    model = write(tmp_path, "weights.txt", torch_file())
    source = write(tmp_path, "src.bin", TOKENIZERS["spm.model"])
    target = write(tmp_path, "target.bin", VOCABULARY)
    files = [str(path) for path in (target, model, source)]
    tokenizers = ("tokenizer", str(source)), ("target_tokenizer", str(target))
    assert actions.together(files) == (str(model), tokenizers)
    run = write(tmp_path, "run.vis", trace(tmp_path))
    with pytest.raises(visformer.VisformerError, match="cannot be opened together"):
        actions.together([str(model), str(run)])


def test_commands_read_a_page_and_refuse_with_the_same_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path, "page.txt", page(tmp_path))
    assert read_session(run).shown.trace.target == TRACE.target
    assert visformer.inspect(run)["runs"]
    assert main(["compare", str(run), str(run)]) == 0
    for name in ("cat.vis", "vocab.pt", "notes.txt"):
        path = write(tmp_path, name, REFUSED[name][0])
        commands: list[list[Any]] = [
            ["inspect", path],
            ["render", path, "-o", tmp_path / "x.png"],
            ["compare", path, run],
        ]
        for command in commands:
            capsys.readouterr()
            assert main([str(word) for word in command]) == 2
            assert REFUSED[name][1] in capsys.readouterr().err, command
    path = write(tmp_path, "l.txt", lesson(tmp_path))
    for command in (["inspect", path], ["render", path, "-o", tmp_path / "x.png"]):
        assert main([str(word) for word in command]) == 2
        assert "l.txt is a lesson" in capsys.readouterr().err


def test_nothing_of_ours_is_taken_for_something_else() -> None:
    for folder in paths.bundled_checkpoints():
        for file in folder.iterdir():
            kind = recognised(file).kind
            weights = file.suffix == ".safetensors" or file.name == "config.json"
            assert (kind == "model") is weights, file
    lessons = list(paths.resource("lessons").rglob("*.lesson.md"))
    assert {told(f.read_bytes()[:START], Path("x")).kind for f in lessons} == {"lesson"}
    assert read_lesson(lessons[0]).stops
