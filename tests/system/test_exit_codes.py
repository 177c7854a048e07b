"""How commands end: 0 done, 1 a check failed, 2 refused, 130 stopped; never otherwise.

Results go to standard output, one sentence about a problem to standard error.
"""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from visformer.cli import COMMANDS, Command, main
from visformer.commands.inspect import strict

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

shells = pytest.mark.skipif(sys.platform == "win32", reason="written for a POSIX shell")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_letters(tmp_path_factory.mktemp("letters"))


def shell(line: str, text: bytes = b"", **more: str) -> tuple[int, str, str]:
    """Run ``visformer`` as a shell does -> exit code, output, standard error."""
    program = f'"{sys.executable}" -m visformer'
    done = subprocess.run(
        ["/bin/sh", "-c", line.replace("visformer", program, 1)],
        input=text,
        capture_output=True,
        timeout=100,
        env={**os.environ, **more},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def fails_with(error: BaseException, monkeypatch: Patch) -> int:
    """Run a command that raises -> the exit code."""

    def run(options: object) -> int:
        print("a result")
        raise error

    module = ModuleType("visformer_fails")
    vars(module)["add_options"] = lambda parser: None
    vars(module)["run"] = run
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "fail", Command(module.__name__, "Fail."))
    return main(["fail"])


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left"), 2, "output cannot be written (No sp"),
        (OSError(errno.EFBIG, "Too large", "x.pt"), 2, "x.pt cannot be used (Too la"),
        (MemoryError(), 2, "not enough memory"),
        (KeyboardInterrupt(), 130, "stopped"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 0, ""),
    ],
)
def test_what_a_command_meets_is_one_line_and_a_code(
    error: BaseException, code: int, words: str, monkeypatch: Patch, capsys: Said
) -> None:
    assert fails_with(error, monkeypatch) == code
    captured = capsys.readouterr()
    assert captured.out == "a result\n"
    assert words in captured.err
    assert captured.err.count("\n") == bool(words)


@shells
@pytest.mark.parametrize("command", ["--help", "inspect --help", "inspect FOLDER"])
def test_a_full_disk_is_one_line(command: str, folder: Path) -> None:
    command = command.replace("FOLDER", str(folder))
    code, _, said = shell(f"visformer {command} > /dev/full")
    assert (code, said.count("\n")) == (2, 1)
    assert "visformer: The output cannot be written (No space left" in said


@shells
def test_a_closed_output_input_or_error_is_no_fault(folder: Path) -> None:
    translate = f"visformer translate --checkpoint {folder}"
    assert shell(f"{translate} >&-", b"ab\n")[::2] == (
        2,
        "visformer: Standard output is closed: give it a file or a pipe.\n",
    )
    assert shell(f"{translate} <&-")[::2] == (
        2,
        "visformer: Standard input is closed: give it one sentence per line.\n",
    )
    code, out, _ = shell("visformer inspect /no/such 2>&-")
    assert (code, out) == (2, "")


@shells
def test_a_reader_that_has_seen_enough_is_no_fault(folder: Path) -> None:
    line = f"visformer inspect {folder} --json | head -1"
    assert shell(line)[1:] == ("{\n", "")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ab\nné\nabc\n".encode("latin-1"), 2),
        ("ab\nabc\n".encode("utf-16"), 1),
        ("abc\nab\n".encode("utf-16-le"), 1),
    ],
)
def test_input_that_is_not_utf8_is_named(
    text: bytes, line: int, folder: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["translate", "--checkpoint", str(folder)]) == 2
    out, said = capsys.readouterr()
    assert said.count("\n") == 1
    assert f"Line {line} of the input is not UTF-8" in said
    assert out.count("\n") == line - 1  # what came before is translated


@pytest.mark.skipif(sys.platform != "linux", reason="DISPLAY is a Linux matter")
def test_a_screen_that_does_not_answer_is_one_line() -> None:
    """Qt itself would abort, and say so to nobody."""
    code, out, said = shell(
        "visformer", DISPLAY=":9876", QT_QPA_PLATFORM="", WAYLAND_DISPLAY=""
    )
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert "The screen :9876 does not answer" in said
    code, _, said = shell("visformer", DISPLAY="", QT_QPA_PLATFORM="abacus")
    assert (code, said.count("\n")) == (2, 1)
    assert "QT_QPA_PLATFORM names “abacus”" in said


def test_a_check_that_fails_is_1_and_its_json_is_json(
    tmp_path: Path, capsys: Said
) -> None:
    broken = tiny_model()
    with torch.no_grad():
        next(iter(broken.encoder)).feed_forward.w1.weight[0] = torch.nan
    (tmp_path / "broken").mkdir()
    write_letters(tmp_path / "broken", broken)
    assert main(["inspect", str(tmp_path / "broken"), "--check", "--json"]) == 1
    captured = capsys.readouterr()

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    report = json.loads(captured.out, parse_constant=refuse)
    assert report["check"]["passed"] is False
    (fault,) = (x for x in report["check"]["checks"] if x["verdict"] == "fault")
    assert (fault["id"], fault["at"], fault["measured"]) == (
        "nan-parameter",
        None,
        None,
    )
    assert fault["where"].endswith("feed_forward.w1.weight")


def test_what_is_no_number_is_null_in_json() -> None:
    given = {"a": [1.5, float("nan")], "b": ({"c": float("-inf")}, "NaN", True)}
    assert strict(given) == {"a": [1.5, None], "b": [{"c": None}, "NaN", True]}


def test_the_help_lists_every_command_in_a_line(capsys: Said) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    for name, command in COMMANDS.items():
        assert [line.split() for line in lines].count([name, *command.does.split()])
    assert max(map(len, lines)) <= 88


class Terminal(io.StringIO):
    """Stands for a person's terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seen", "is_said"), [(Terminal, False), (io.StringIO, True)])
def test_a_vocabulary_gives_a_terminal_no_orders(
    seen: type[io.StringIO], is_said: bool, folder: Path, monkeypatch: Any
) -> None:
    """It could clear the screen or fill the clipboard; a file has it as it is."""
    order = "\x1b]52;c;cm0gLXJm\a"
    output = seen()
    monkeypatch.setattr("sys.stdout", output)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"ab\n")))
    monkeypatch.setattr(
        "visformer.core.translation.translate", lambda *_it, **_more: [order]
    )
    assert main(["translate", "--checkpoint", str(folder)]) == 0
    assert ("\x1b" in output.getvalue()) == is_said


def test_what_is_quoted_in_a_sentence_gives_a_terminal_no_orders(capsys: Said) -> None:
    assert main(["render", "--text", "a", "-o", "x.png", "--view", "\x1b[31m"]) == 2
    assert "\x1b" not in capsys.readouterr().err
