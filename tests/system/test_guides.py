"""The guides to six faults and to figures: what they quote and name is so."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from pathlib import Path

import pytest

import visformer
from visformer import cli
from visformer.api import PNG
from visformer.cli import main
from visformer.paths import checkpoint

GUIDE = Path(__file__).parents[2] / "resources" / "guide" / "faults.md"
TEXT = " ".join(GUIDE.read_text("utf-8").split())
SENTENCE = "The old man reads a red book."
Said = pytest.CaptureFixture[str]


def test_every_picture_is_there() -> None:
    pictures = re.findall(r"\]\((faults/[\w-]+\.png)\)", TEXT)
    assert len(pictures) == 8
    for picture in pictures:
        assert (GUIDE.parent / picture).read_bytes().startswith(b"\x89PNG")


def test_heads_that_matter(capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GUIDE.parents[2])
    _leak, snippet = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    exec(compile(snippet, "faults.md", "exec"), {"visformer": visformer})
    least, most = capsys.readouterr().out.splitlines()
    assert f"| 20 | {least} | {most} |" in TEXT


def test_a_wrong_position_layout(tmp_path: Path, capsys: Said) -> None:
    folder = tmp_path / "converted"
    shutil.copytree(checkpoint(), folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"sinusoidal"', '"halves"'))
    wrong = visformer.Decoding(visformer.load(folder), SENTENCE).finish().text
    assert f"“{wrong}”".strip("“”") in TEXT
    assert main(["inspect", str(folder), "--check", "--text", SENTENCE]) == 1
    said = " ".join(capsys.readouterr().out.split())
    quoted = re.search(r"With sinusoids in the layout .*? interleaved\.", TEXT)
    assert quoted is not None
    assert quoted[0] in said


def test_padding_that_is_read(capsys: Said) -> None:
    labml = str(checkpoint("lessons") / "labml")
    assert main(["inspect", labml, "--check", "--text", "cab"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    for what in (
        "row 4 of head 1 reads key 4, a padding token, with weight 0.569",
        "they differ by 0.0578",
    ):
        assert what in TEXT
        assert what in said


# ---- recipes for figures: each runs, and makes the file that it names ----------------


FIGURES = Path(__file__).parents[2] / "resources" / "guide" / "figures.md"
RECIPES = re.findall(
    r"```(bash|python)\n(.*?)```", FIGURES.read_text("utf-8"), re.DOTALL
)
STARTS = {".pdf": b"%PDF", ".png": b"\x89PNG", ".svg": b"<?xml", ".npz": b"PK"}


@pytest.mark.filterwarnings("ignore:visformer.render now counts")
@pytest.mark.slow
@pytest.mark.parametrize(("language", "recipe"), RECIPES)
def test_a_recipe_makes_what_it_names(
    language: str, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if language == "bash":
        assert cli.main(shlex.split(recipe)[1:]) == 0
    else:
        lines = recipe.rstrip().splitlines()
        names: dict[str, object] = {}
        exec("\n".join(lines[:-1] if lines[-1][0] != " " else lines), names)
        with contextlib.suppress(SyntaxError):  # the last line of a cell is shown
            shown = eval(lines[-1], names)
            assert shown is None or isinstance(shown, PNG)
    made = sorted(tmp_path.iterdir())
    named = set(re.findall(r"[\w}](\.(?:pdf|svg|png|html|npz))\b", recipe))
    assert {path.suffix for path in made} == named
    for path in made:
        start = STARTS.get(path.suffix, b"<!DOCTYPE html>")
        assert path.read_bytes()[: len(start)].lower() == start.lower()
