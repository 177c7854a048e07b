"""What README.md tells people to type does what it says."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

import visformer
from visformer.cli import COMMANDS, command_parser, window_parser
from visformer.values.intervention import parse
from visformer.values.trace import Trace

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def command_lines() -> list[str]:
    lines = "\n".join(blocks("bash")).splitlines()
    return [line for line in lines if line.startswith("visformer ")]


@pytest.mark.filterwarnings("ignore:visformer.render now counts")
def test_the_python_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[Trace] = []

    def show(path: str) -> None:
        shown.append(visformer.open_trace(path))

    monkeypatch.setattr(visformer, "show", show)
    names: dict[str, object] = {}
    for snippet in blocks("python"):
        exec(compile(snippet, "README.md", "exec"), names)
    trace = names["trace"]
    assert isinstance(trace, Trace)
    assert [token.text for token in shown] == [trace.text]
    weights = trace.attention("cross", layer=2, head=1)
    assert weights.sum(-1) == pytest.approx(1, abs=1e-5)


def test_the_command_lines_are_understood() -> None:
    lines = command_lines()
    seen = set()
    for line in lines:
        # [PATH] and [--text T] may be left out
        words = shlex.split(line.replace("[", "").replace("]", ""), comments=True)[1:]
        words = words[: words.index("<")] if "<" in words else words
        if words[0] in COMMANDS:
            seen.add(words[0])
            command_parser(words[0]).parse_args(words[1:])
        else:
            window_parser().parse_args(words)
    assert seen == set(COMMANDS)


def test_the_changes_it_names_can_be_made() -> None:
    start = README.index("`--change` (again for more):")
    paragraph = README[start : README.index("\n\n", start)]
    masks, positions = paragraph.partition("`--change`")[2].split("`positions none`")
    for text in re.findall(r"`([^`]+)`", masks):
        whole = f"head cross off {text}" if text.startswith("@") else text
        assert parse([whole]), text
    assert parse(["positions none"])
    for text in re.findall(r"`([^`]+)`", positions):
        assert parse([f"positions {text}"]), text


def house(header: str) -> list[str]:
    """Return the rows of the table below a header."""
    table = README.partition(header)[2].partition("\n\n")[0]
    return table.strip().splitlines()[1:]


def test_the_house_names_every_room_and_no_other() -> None:
    places = "".join(row.split("|")[1] for row in house("| where | what |"))
    named = {
        name.removeprefix("visformer/").rstrip("/")
        for name in re.findall(r"`([^`]+)`", places)
    }
    package = ROOT / "visformer"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("*.py") if path.stem[0] != "_"}
    assert named == rooms | {"checkpoints", "resources", "tests"}


def test_the_tables_to_add_to_are_there() -> None:
    rows = house("| to add | write | and enter it in |")
    assert len(rows) > 5
    for row in rows:
        _, _, written, entered, _ = row.split("|")
        (table, file) = re.findall(r"`([^`]+)`", entered)
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        assert getattr(importlib.import_module(f"visformer.{name}"), table)
        for path in re.findall(r"`([a-z_/]+/)(?:\w+\.py)?`", written):
            assert (ROOT / "visformer" / path).is_dir(), path
