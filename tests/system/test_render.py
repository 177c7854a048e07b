"""``visformer.render``: pictures drawn by a process of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

import visformer
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from visformer import InputError, SavedRun, SavedSession, VisformerError
from visformer.apart import painter
from visformer.paths import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:visformer.render now counts")
SMALL = "700x600"
ONE, TWO = make_trace(), make_trace(seed=5)


def test_pictures_are_those_of_the_command_whatever_was_drawn_before(
    tmp_path: Path, qapp: QApplication
) -> None:
    before = qapp.topLevelWidgets()
    path = tmp_path / "run.vis"
    ONE.save(path)
    options: dict[str, Any] = {
        "kind": "cross",
        "layer": 1,
        "raw_pieces": True,
        "size": SMALL,
    }
    first = visformer.render(ONE, **options)
    assert QImage.fromData(first).size().toTuple() == (700, 600)
    other = visformer.render(TWO, view="masks", theme="dark", zoom=120, size="900x700")
    assert QImage.fromData(other).pixelColor(2, 2).lightness() < 100
    visformer.render(ONE, figure=True, **options)  # what is large has the keyboard
    again = tmp_path / "again.png"
    visformer.render(path, again, **options)
    assert again.read_bytes() == first
    assert qapp.topLevelWidgets() == before  # the caller's program is left alone
    command = ["render", str(path), "-o", str(tmp_path / "c.png"), "--size", SMALL]
    command += ["--kind=cross", "--layer=2", "--raw-pieces"]
    # on its own, as it is run: here, tests before have left fonts, styles and windows
    subprocess.run([sys.executable, "-m", "visformer", *command], check=True)
    assert (tmp_path / "c.png").read_bytes() == first


def test_whatever_holds_a_run_is_drawn(tmp_path: Path) -> None:
    run = SavedRun(trace=ONE)
    session = SavedSession(runs=(SavedRun(trace=TWO), run), at=1)
    drawn = {visformer.render(each, size=SMALL) for each in (ONE, run, session)}
    assert len(drawn) == 1
    figure = tmp_path / "figure.svg"
    visformer.render(ONE, figure, width="8.5cm", kind="encoder")
    assert 'width="8.5cm"' in figure.read_text()
    assert visformer.render(tiny_checkpoint(), text="abc", size=SMALL)._repr_png_()
    assert visformer.render("reverse", text="abc", size=SMALL)._repr_png_()


def test_a_name_in_html_is_a_web_page(tmp_path: Path) -> None:
    path, page = tmp_path / "run.vis", tmp_path / "run.html"
    ONE.save(path)
    visformer.render(path, page)
    assert page.read_text("utf-8") == visformer.to_html(ONE)  # where it says most
    visformer.render(path, page, kind="decoder", steps=2, attach=True)
    text = page.read_text("utf-8")
    assert '"start":{"kind":"decoder","layer":1,"head":0' in text
    assert '"step":2' in text
    with pytest.raises(InputError, match="--figure, --width and --scale are for pict"):
        visformer.render(path, page, figure=True)
    with pytest.raises(InputError, match="--attach is for a web page"):
        visformer.render(path, tmp_path / "a.png", attach=True)
    assert page.read_text("utf-8") == text


def test_what_cannot_be_drawn_is_one_sentence(tmp_path: Path) -> None:
    kept = tmp_path / "kept.png"
    kept.write_bytes(b"mine")
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"layer": 2}, "layer is 2, but must be a whole number from -2 to 1"),
        ({"head": "mean"}, "--head: invalid int value: 'mean'"),
        ({"layer": [0, 1]}, r"--layer: invalid int value: '\[0, 1\]'"),
        ({"nosuch": 1}, "--nosuch"),
        ({"view": "nosuch"}, "choose architecture"),
        ({"view": "diagnosis", "page": "checks", "over": "x.tsv"}, "--over is for"),
        ({"view": "diagnosis", "page": "training", "over": "x"}, "add --text"),
    )
    for options, words in wrong:
        with pytest.raises(InputError, match=words):
            visformer.render(ONE, kept, **options)
    for path, words in (("x.bmp", "x.bmp"), ("no/folder/x.png", "no such folder")):
        with pytest.raises(InputError, match=words):
            visformer.render(ONE, tmp_path / path)
    with pytest.raises(InputError, match="No such file"):
        visformer.render(tmp_path / "none.vis", kept)
    with pytest.raises(InputError, match="change"):
        visformer.render(tiny_checkpoint(), text="abc", change="causal off")
    assert kept.read_bytes() == b"mine"


def test_a_page_is_drawn_over_a_file(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("abc\tcba\nab\tba\n")
    page: dict[str, Any] = {"view": "diagnosis", "page": "sentences", "size": SMALL}
    empty = visformer.render(checkpoint("reverse"), text="abc", **page)
    full = visformer.render(checkpoint("reverse"), text="abc", over=pairs, **page)
    assert (empty == full) is False
    with pytest.raises(InputError, match="No such file"):
        visformer.render(checkpoint("reverse"), text="abc", over="none.tsv", **page)


@pytest.mark.parametrize("suffix", [".gif", ".webp"])
def test_an_animation_has_a_frame_for_each_step(suffix: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / f"run{suffix}"
    visformer.render(ONE, path, animate=suffix == ".webp", steps=3, size=SMALL)
    with image.open(path) as made:
        assert (made.n_frames, made.size) == (3, (700, 600))
        shown = []
        for at in range(3):
            made.seek(at)
            shown.append(made.convert("RGB").tobytes())
    assert len(set(shown)) == 3
    still = visformer.render(ONE, steps=3, size=SMALL)
    with image.open(io.BytesIO(still)) as last:
        apart = np.frombuffer(last.convert("RGB").tobytes(), np.uint8).astype(int)
    apart -= np.frombuffer(shown[-1], np.uint8)
    assert (np.abs(apart) > 48).mean() < 0.01  # but for the colours of the format


def test_an_animation_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    for name, options, words in (
        ("a.png", {"animate": True}, ".gif, .webp"),
        ("a.gif", {"width": "8cm"}, "stands still"),
        ("a.gif", {"steps": 0}, "no steps"),
    ):
        given: dict[str, Any] = options
        with pytest.raises(InputError, match=words):
            visformer.render(ONE, tmp_path / name, **given)
    assert not list(tmp_path.iterdir())


def test_a_process_that_has_ended_starts_again() -> None:
    visformer.render(ONE, size=SMALL)
    assert painter._process is not None
    painter._process.kill()
    painter._process.wait()
    visformer.render(ONE, size=SMALL)


def test_an_end_in_between_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    visformer.render(ONE, size=SMALL)
    process = painter._process
    assert process is not None
    monkeypatch.setattr(process, "poll", lambda: None)
    process.kill()
    with pytest.raises(VisformerError, match="try again"):
        visformer.render(ONE, size=SMALL)
