"""The recipes for figures: each runs, and makes the file that it names."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import pytest

from visformer import cli
from visformer.api import PNG

GUIDE = Path(__file__).parents[2] / "resources" / "guide" / "figures.md"
RECIPES = re.findall(r"```(bash|python)\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
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
