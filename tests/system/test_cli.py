"""The command line, as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from PySide6.QtGui import QImage

import visformer
from tests.states import ran
from tests.system.formats import layout_models
from tests.system.formats.folders import write_letters
from tests.traces import make_trace
from visformer.cli import COMMANDS, Command, command_parser, main
from visformer.commands.load_options import overrides
from visformer.session.looked import Looked
from visformer.session.state import State
from visformer.values.questions import OPTIONS, keyword, location_and_keywords

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_letters(tmp_path_factory.mktemp("letters"))


@pytest.fixture
def untold(tmp_path: Path) -> Path:
    """Return a file of a model that does not say how many heads it has."""
    path = tmp_path / "model.pt"
    torch.save(layout_models.scratch().state_dict(), path)
    return path


def run(*arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "visformer", *arguments]
    return subprocess.run(command, input=text, capture_output=True, timeout=100)


def test_translate_keeps_lines_and_order_and_tells_what_it_cuts(folder: Path) -> None:
    """A line out for a line in: a signature, blank ones, NUL, no last newline.

    A program may write a line, read its translation, and write the next one.
    """
    command = [sys.executable, "-m", "visformer", "translate", "--checkpoint"]
    begun = subprocess.Popen(
        [*command, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with begun as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line, start in (("ab", b"\xef\xbb\xbf"), ("abc", b"")):
            program.stdin.write(start + line.encode() + b"\n")
            program.stdin.flush()
            (made,) = visformer.translate([line], folder)
            assert program.stdout.readline().decode() == f"{made}\n"
        rest = b"\nabc\n   \na\x00bcd\n" + b"ab" * 60 + b"\nab"
        out, said = program.communicate(rest, timeout=100)
    assert program.returncode == 0, said
    lines = out.decode().split("\n")
    assert len(lines) == 7
    assert (lines[0], lines[2], lines[6]) == ("", "", "")
    assert [lines[1], lines[5]] == visformer.translate(["abc", "ab"], folder)
    assert "is cut to 64 tokens, the model's limit; it has 121." in said.decode()


def test_translate_prints_hypotheses_and_their_scores(
    folder: Path, monkeypatch: Patch, capsys: Said
) -> None:
    """A line of JSON for each sentence, as ``visformer.search`` returns them."""
    arguments = "--checkpoint", str(folder), "--beam", "3", "--n-best", "2", "--json"
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"abc\n\nba\n")))
    assert main(["translate", *arguments]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == visformer.search(["abc", "", "ba"], folder, beam=3, n_best=2)
    assert [line["source"] for line in lines] == ["abc", "", "ba"]
    assert [len(line["hypotheses"]) for line in lines] == [2, 0, 2]
    for one in (*lines[0]["hypotheses"], *lines[2]["hypotheses"]):
        assert one["logprob"] == pytest.approx(sum(one["logprobs"]), abs=1e-9)
        assert one["score"] == pytest.approx(one["logprob"] / len(one["tokens"]))
        assert one["finished"] == (one["tokens"][-1] == "</s>")
    first, second = lines[0]["hypotheses"]
    assert first["score"] > second["score"]
    assert [first["text"]] == visformer.translate("abc", folder, beam=3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["translate", "--beam", "0"], "--beam is 0"),
        (["translate", "--beam", "x"], "invalid int value"),
        (["translate", "--n-best", "2"], "--n-best needs --json"),
        (["translate", "--json", "--n-best", "0"], "--n-best is 0, but must be from"),
        (["translate", "--json", "--beam", "2", "--n-best", "3"], "--n-best is 3"),
        (["translate", "--checkpoint", "/no/such"], "such does not exist"),
        (["translate", "--device", "abacus"], "no device “abacus”"),
        (["inspect", "/no/such"], "such does not exist"),
        (["inspect", "a", "b", "c"], "Give one checkpoint, or two files"),
        (["inspect", "a", "--set", "heads"], "--set takes NAME=VALUE"),
        (["inspect", "a", "--set", "hats=3"], "Unknown option: hats"),
        (["inspect", "a", "--tokenizer", "b", "c", "d"], "one file, or two"),
        (["inspect", "a", "--rename", "(", "x"], "--rename … cannot use the pattern"),
        (["inspect", "a", "--ignore", "("], "--ignore … cannot use the pattern"),
        (["/no/such"], "such does not exist"),
        (["--nonsense"], "unrecognized arguments"),
        (["render", "--text", "a", "-o", "/no/such/x.png"], "no such folder"),
        (["render", "--text", "a", "-o", "x.png", "--size", "big"], "--size is big"),
        (["render", "--text", "", "-o", "x.png"], "--text is empty"),
        (["render", "--text", "  ", "-o", "x.png"], "--text is empty"),
        (["--text", " "], "--text is empty"),
        (["render", "--text", "a", "-o", "x.png", "--change", ""], "--change is empty"),
        (["render", "--text", "a", "-o", "x.bmp"], "not written as .bmp, only as .png"),
        (["tranlsate"], "a command (translate, render"),
        (["render", "--text", "a", "-o", "x.png", "--kind", "odd"], "--kind is odd"),
        (["render", "--text", "a", "-o", "x.png", "--zoom", "5"], "--zoom is 5"),
        (["render", "--text", "a", "-o", "x.png", "--stage", "no"], "--stage is no"),
        (["render", "--text", "a", "-o", "x.png", "--form", "pie"], "--form is pie"),
        (["render", "--text", "a", "-o", "x.png", "--page", "no"], "has no pages"),
        (["render", "--text", "a", "-o", "x.png", "--hide", "x"], "--hide is x"),
        (["render", "--text", "a", "-o", "x.png", "--size", "200x200"], "too small"),
        (["train", "--out", "x"], ""),
        (["train", "/no/such.tsv", "--out", "x"], "/no/such.tsv"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: Said, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("visformer: ")
    assert words in captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: Said) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"usage: visformer {command}" in capsys.readouterr().out


def test_a_command_is_one_entry(monkeypatch: Patch, capsys: Said) -> None:
    module = ModuleType("visformer_greet")
    vars(module)["add_options"] = lambda parser: parser.add_argument("name")
    vars(module)["run"] = lambda options: print(f"Hello {options.name}") or 7
    monkeypatch.setitem(sys.modules, module.__name__, module)
    greet = Command(module.__name__, "Say hello.")
    monkeypatch.setitem(COMMANDS, "greet", greet)
    assert main(["greet", "you"]) == 7
    assert capsys.readouterr().out == "Hello you\n"
    for arguments, words in {
        ("greet", "--help"): "Say hello.",
        ("-h",): "greet",
    }.items():
        with pytest.raises(SystemExit):
            main(arguments)
        assert words in capsys.readouterr().out


def test_the_help_of_render_names_every_page(capsys: Said) -> None:
    with pytest.raises(SystemExit):
        main(["render", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "page of the view (positions: table, input, words, lab; masks:" in said
    assert "masks: masks, lab; output:" in said
    assert "runs: tree, compare; diagnosis: sentences, checks" in said


def test_what_is_told_of_a_checkpoint_reaches_it(
    folder: Path, monkeypatch: Patch
) -> None:
    words = ["--layout", "torch", "--heads", "2", "--pad", "1", "--bos", "5"]
    words += ["--eos", "3", "--tokenizer", "s.model", "t.model"]
    words += ["--rename", "a=b", "c", "--rename", "d", "", "--ignore", "x"]
    words += ["--names", "output", "head", "--set", "norm_first=True"]
    words += ["--set", "max_len=50", "--set", "activation=gelu"]
    expected = (
        *(("layout", "torch"), ("heads", 2), ("pad", 1), ("bos", 5), ("eos", 3)),
        *(("tokenizer", "s.model"), ("target_tokenizer", "t.model")),
        *(("rename.a=b", "c"), ("rename.d", ""), ("names.output", "head")),
        *(("ignore.x", True), ("norm_first", True), ("max_len", 50)),
        ("activation", "gelu"),
    )
    assert overrides(command_parser("inspect").parse_args(["m.pt", *words])) == expected
    both = command_parser("inspect").parse_args(["m.pt", "n.pt", *words])
    assert overrides(both) == (*expected, ("other", "n.pt"))
    for command in ("render", "translate"):
        given = ["--checkpoint", "m.pt", "n.pt", *words]
        given += ["--text", "a", "-o", "x.png"] if command == "render" else []
        parsed = command_parser(command).parse_args(given)
        assert overrides(parsed) == (*expected, ("other", "n.pt"))
    assert location_and_keywords("m.pt", expected)[1] == {
        **{"layout": "torch", "heads": 2, "pad": 1, "bos": 5, "eos": 3},
        **{"tokenizer": ("s.model", "t.model"), "names": {"output": "head"}},
        **{"rename": {"a=b": "c", "d": ""}, "ignore": ["x"], "norm_first": True},
        **{"max_len": 50, "activation": "gelu"},
    }
    seen: list[object] = []
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")

    def run(*given: object) -> int:
        seen.append(given)
        return 0

    monkeypatch.setattr("visformer.app.run", run)
    assert main([str(folder), "--text", "abc", *words]) == 0
    assert seen == [(str(folder), "abc", expected)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), {}),
        (("--kind", "cross"), {}),  # the window opened on it
        (("--steps", "4"), {"step": 4}),
        (("--layer", "1"), {"kind": "cross", "layer": 0, "head": 0}),
        (("--head", "2"), {"kind": "cross", "layer": 2, "head": 1}),
        (("--kind", "encoder"), {"kind": "encoder", "layer": 2, "head": 0}),
    ],
)
def test_render_looks_where_the_window_opens_but_for_what_is_asked(
    words: tuple[str, ...], expected: dict[str, Any]
) -> None:
    parser = command_parser("render")
    options = parser.parse_args(["--text", "abc", "-o", "x.png", *words])
    opened = State(**ran(make_trace(layers=3)), kind="cross", layer=1, head=1, step=2)
    place = Looked.of(options).on(opened).place
    assert place == opened.place._replace(**expected)


def test_a_translation_is_one_line_whatever_the_model_makes(
    folder: Path, monkeypatch: Patch, capsys: Said
) -> None:
    made = {"x": "a\nb\r\nc", "y": " c   d "}
    monkeypatch.setattr(
        "visformer.core.translation.translate",
        lambda _model, lines, **_more: [made[line] for line in lines],
    )
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"x\ny\n")))
    assert main(["translate", "--checkpoint", str(folder), "--device", "cpu"]) == 0
    assert capsys.readouterr().out == "a b c\n c   d \n"


def test_a_byte_order_mark_is_dropped_from_the_first_line_alone(
    folder: Path, monkeypatch: Patch
) -> None:
    read: list[str] = []

    def translate(_model: object, lines: list[str], **_: object) -> list[str]:
        read.extend(lines)
        return lines

    monkeypatch.setattr("visformer.core.translation.translate", translate)
    text = b"\xef\xbb\xbfx\n\xef\xbb\xbfy\n"
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text)))
    assert main(["translate", "--checkpoint", str(folder), "--device", "cpu"]) == 0
    assert read == ["x", "\ufeffy"]


def test_inspect_names_sizes_and_checks(folder: Path, capsys: Said) -> None:
    assert main(["inspect", str(folder), "--json", "--check"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["layout"] == "native"
    assert report["config"]["heads"] == 2
    assert report["check"]["passed"] is True
    assert main(["inspect", str(folder)]) == 0
    assert "target_embedding.weight" in capsys.readouterr().out


def test_what_a_file_does_not_tell_is_told(untold: Path, capsys: Said) -> None:
    """A state dict of numbers, without heads and then with them."""
    path = str(untold)
    assert main(["inspect", path]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("visformer: model.pt does not say how many heads")
    assert "layout: scratch" in printed.out
    assert main(["inspect", path, "--heads", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layout"] == "scratch"


@pytest.mark.parametrize("command", ["inspect", "translate"])
def test_errors_name_the_options_of_the_shell(
    command: str, untold: Path, capsys: Said
) -> None:
    given = [str(untold)] if command == "inspect" else ["--checkpoint", str(untold)]
    assert main([command, *given, "--device", "cpu"]) == 2
    assert "Give --heads …, a divisor" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "python", "shell"),
    [
        (("heads",), "heads=…", "--heads …"),
        (("names", {"output": "…"}), 'names={"output": …}', "--names output …"),
        (
            ("rename", {"a.b": "x", "c": "y z"}),
            'rename={"a.b": "x", "c": "y z"}',
            "--rename a.b x --rename c 'y z'",
        ),
        (("ignore", ["a", "^b$"]), 'ignore=["a", "^b$"]', "--ignore a --ignore '^b$'"),
    ],
)
def test_keywords_are_written_as_they_are_typed(
    given: tuple[Any, ...], python: str, shell: str, monkeypatch: Patch
) -> None:
    assert keyword(*given) == python
    monkeypatch.setenv(OPTIONS, "1")
    assert keyword(*given) == shell


def test_a_file_name_that_looks_like_a_keyword_stays(
    tmp_path: Path, capsys: Said
) -> None:
    assert main(["inspect", str(tmp_path / "heads=8 pad=1")]) == 2
    assert "heads=8 pad=1" in capsys.readouterr().err
    assert OPTIONS not in os.environ


def test_render_draws_the_window(untold: Path, tmp_path: Path) -> None:
    """In a process of its own: the platform is chosen before Qt loads."""
    output = tmp_path / "out.png"
    given = (
        *("render", "--text", "3 4", "--steps", "2", "--size", "1000x700"),
        *("--view", "computation", "--stage", "query"),
        *("--checkpoint", str(untold), "-o", str(output)),
    )
    refused = run(*given)
    assert refused.returncode == 2
    assert b"Give --heads \xe2\x80\xa6, a divisor" in refused.stderr
    done = run(*given, "--heads", "2", "--pad", "0")
    assert (done.returncode, done.stderr) == (0, b"")
    header = output.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(header[16:20]), int.from_bytes(header[20:24])) == (1000, 700)
    image = QImage(str(output))
    corner = {image.pixel(x, y) for x in range(8) for y in range(24)}
    assert len(corner) == 1  # the mouse frames no button there


@pytest.mark.slow
def test_train_toy_task_then_translate(tmp_path: Path) -> None:
    """The whole way: made data, training, the written checkpoint, its use."""
    out = tmp_path / "run"
    done = run(
        *("train", "--task", "copy", "--out", str(out), "--epochs", "1"),
        *("--examples", "64", "--valid", "20", "--test", "20", "--d-model", "16"),
        *("--heads", "2", "--layers", "1", "--feed-forward", "16", "--threads", "1"),
    )
    assert done.returncode == 0, done.stderr
    made = run("translate", "--checkpoint", str(out / "checkpoint"), text=b"abc\n")
    assert made.returncode == 0, made.stderr
    assert made.stdout.count(b"\n") == 1
