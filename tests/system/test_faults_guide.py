"""The guide to six faults: what it quotes is what the models do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import visformer
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
