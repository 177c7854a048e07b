"""Pictures and numbers as files, read by other programs."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QColor, QImage, QPainter, QRegion
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.tiny_models import tiny_checkpoint
from tests.window.parts import settle
from tests.window.pseudo_reader import Reader
from tests.window.windows import Pair
from visformer.cli import main
from visformer.core.decoding import Decoding
from visformer.pictures.picture import Table, json_text, npz
from visformer.ui.look.theme import THEME
from visformer.ui.widgets.export import (
    MODIFIED,
    PRINTED,
    Drawn,
    Extent,
    drawing,
    figure,
    image_of,
    picture_file,
    save_picture,
)

READERS = {  # of a file into a PNG beside it
    ".svg": ["rsvg-convert", "{file}", "-o", "{png}"],
    ".pdf": ["pdftoppm", "-r", "96", "-png", "-singlefile", "{file}", "{stem}"],
    ".webp": [],
    ".png": [],
}


def read_again(path: Path) -> QImage:
    """Return what another program makes of a file, of as many pixels as units."""
    command = READERS[path.suffix]
    if not command:
        return QImage(str(path))
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    png = path.with_name("read.png")
    names = {"file": path, "png": png, "stem": png.with_suffix("")}
    subprocess.run([word.format(**names) for word in command], check=True)
    return QImage(str(png))


def apart(drawn: Drawn, found: QImage) -> float:
    """Return the share of pixels that differ, but for the edges of letters."""
    size = drawn.size
    assert abs(found.width() / found.height() - size.width() / size.height()) < 0.01
    expected, found = (
        image.scaled(size / 2).convertToFormat(QImage.Format.Format_RGB32)
        for image in (image_of(drawn, 1), found)
    )
    one, other = (
        np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1)
        for image in (expected, found)
    )
    return float((np.abs(one.astype(int) - other) > 96).mean())


def is_dark(image: QImage) -> bool:
    return image.pixelColor(1, 1).lightness() < 100


@pytest.fixture
def reader(pair: Pair) -> Reader:
    reader = Reader(*pair, tiny_checkpoint())
    reader.run()
    return reader


@pytest.mark.parametrize("suffix", READERS)
def test_the_window_is_the_same_in_another_program(
    reader: Reader, suffix: str, tmp_path: Path
) -> None:
    reader.window.setProperty(MODIFIED, "modified run: hide 1")
    for tab in ("attention", "architecture", "computation"):
        reader.window.session.set(tab=tab)
        reader.answer()
        drawn, path = drawing(reader.window), tmp_path / f"{tab}{suffix}"
        picture_file(path, drawn)
        found = read_again(path)
        assert apart(drawn, found) < 0.01, tab
        # which says itself what is changed
        assert drawn.size == reader.window.size(), tab
        if suffix in (".png", ".webp"):
            assert found.size() == drawn.size * 2, tab


@pytest.mark.parametrize("suffix", READERS)
def test_a_figure_has_its_width_and_its_words(
    reader: Reader, suffix: str, tmp_path: Path
) -> None:
    window = reader.window
    window.setProperty(MODIFIED, "modified run: hide 1")
    panel = window.large.pictures()[0]
    drawn, path = figure(panel, "What is seen."), tmp_path / f"a{suffix}"
    assert drawn.size.width() <= panel.width() + 16
    picture_file(path, drawn, Extent(8.5))
    if suffix == ".svg":
        root = ET.fromstring(path.read_bytes())
        assert root.get("width") == "8.5cm"
        words = {part.get("aria-label") for part in root.iter()}
        assert {"What is seen.", "modified run: hide 1", "</s>"} <= words
    elif suffix == ".pdf":
        found = read_again(path)
        assert abs(found.width() / 96 * 2.54 - 8.5) < 0.05
        if shutil.which("pdftotext"):
            command = ["pdftotext", str(path), "-"]
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            assert "What is seen." in said.stdout
    else:
        found = QImage(str(path))
        assert found.width() == round(8.5 / 2.54 * 300)
        assert abs(apart(drawn, found)) < 0.01


@pytest.mark.parametrize("suffix", READERS)
def test_a_figure_has_a_white_page_and_a_window_its_own(
    reader: Reader, suffix: str, tmp_path: Path
) -> None:
    window = reader.window
    for tab in ("attention", "architecture", "computation"):
        window.session.set(tab=tab)
        reader.answer()
        settle(5)  # until what is shown is painted
        picture, path = window.large.pictures()[0], tmp_path / f"{tab}{suffix}"
        before = window.grab().toImage()
        for drawn in (drawing(picture), figure(picture, "What is seen.")):
            picture_file(path, drawn)
            assert most_seen(read_again(path)) == "#ffffff", tab
        assert window.grab().toImage() == before
    picture_file(path, drawing(window))
    assert most_seen(read_again(path)) == window.palette().window().color().name()


def most_seen(image: QImage) -> str:
    """Return the colour that is most often at the left and the right edge."""
    across = 1, image.width() - 2
    places = [(x, y) for x in across for y in range(1, image.height() - 1, 7)]
    return Counter(image.pixelColor(*at).name() for at in places).most_common(1)[0][0]


@pytest.mark.parametrize("suffix", READERS)
def test_what_is_for_print_is_light_whatever_the_window_is(
    qtbot: QtBot, reader: Reader, suffix: str, tmp_path: Path
) -> None:
    window, written = reader.window, {}
    for theme in ("light", "dark"):
        window.appearance.set_theme(theme)
        picture = window.large.pictures()[0]
        while is_dark(image_of(drawing(picture))) != (theme == "dark"):
            QApplication.processEvents()
        path = written[theme] = tmp_path / f"{theme}{suffix}"
        save_picture(path, picture, pytest.fail)
        qtbot.waitUntil(path.exists)
        assert window.property(THEME) == theme
    assert not is_dark(read_again(written["light"]))
    assert is_dark(read_again(written["dark"])) == (suffix not in PRINTED)
    if suffix == ".svg":
        assert written["dark"].read_bytes() == written["light"].read_bytes()


def test_what_is_clipped_has_its_holes(tmp_path: Path) -> None:
    def paint(painter: QPainter) -> None:
        painter.fillRect(0, 0, 60, 60, QColor("#ffffff"))
        ring = QRegion(0, 0, 60, 60) - QRegion(20, 20, 20, 20)
        painter.setClipRegion(ring)
        painter.fillRect(0, 0, 60, 60, QColor("#ff0000"))
        painter.drawText(2, 30, "\u2066\u2069")

    drawn, path = Drawn(QSize(60, 60), paint), tmp_path / "a.svg"
    picture_file(path, drawn)
    found = read_again(path)
    assert found.pixelColor(30, 30) == QColor("#ffffff")
    assert found.pixelColor(10, 10) == QColor("#ff0000")
    assert "image" not in path.read_text()


def test_cells_are_sharp_and_words_of_any_script_are_labels(tmp_path: Path) -> None:
    cells = QImage(2, 1, QImage.Format.Format_RGB32)
    cells.setPixelColor(0, 0, QColor("#ff0000"))
    cells.setPixelColor(1, 0, QColor("#0000ff"))
    words = ["猫", "قط", "🐈", '</svg><script>"&', "a\x01b"]

    def paint(painter: QPainter) -> None:
        painter.fillRect(0, 0, 200, 200, QColor("#ffffff"))
        painter.setClipRect(0, 0, 100, 40)
        painter.drawImage(QRect(0, 0, 100, 60), cells)
        painter.setClipping(False)
        for row, text in enumerate(words):
            painter.drawText(10, 60 + 20 * row, text)

    drawn, path = Drawn(QSize(200, 200), paint, "t < u"), tmp_path / "a.svg"
    picture_file(path, drawn)
    root = ET.fromstring(path.read_bytes())
    assert [part.text for part in root.iter() if part.tag.endswith("title")] == [
        "t < u"
    ]
    labels = [part.get("aria-label") for part in root.iter() if part.get("aria-label")]
    assert labels == [*words[:-1], "a�b"]
    found = read_again(path)
    colours = [found.pixelColor(x, 20).name() for x in (0, 49, 51, 99, 101)]
    assert colours == ["#ff0000", "#ff0000", "#0000ff", "#0000ff", "#ffffff"]


def test_numbers_come_back_as_they_were() -> None:
    values = np.array([[0.1, np.nan], [np.inf, -2.0]], np.float32)
    table = Table(("a", "“b”"), ("猫", "d"), values, "weights")
    read = json.loads(json_text(table))
    assert read["rows"] == ["a", "“b”"]
    assert read["columns"] == ["猫", "d"]
    assert read["about"] == "weights"
    again = np.array(read["values"], object).astype(np.float32)
    np.testing.assert_array_equal(again, values)
    with np.load(io.BytesIO(npz(table))) as arrays:
        np.testing.assert_array_equal(arrays["values"], values)
        assert [*arrays["columns"]] == ["猫", "d"]
        assert str(arrays["about"]) == "weights"
    mixed = Table(("a",), ("n", "word"), ((1, "x"),))
    assert json.loads(json_text(mixed))["values"] == [[1, "x"]]
    with np.load(io.BytesIO(npz(mixed))) as arrays:
        assert arrays["values"].tolist() == [["1", "x"]]


def test_render_draws_a_figure_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run.vis"
    Decoding(tiny_checkpoint(), "abc", limit=4).finish().save(run)
    for name in ("a.svg", "a.pdf"):
        words = ["render", str(run), "--width", "8.5cm", "-o", str(tmp_path / name)]
        assert main(words) == 0
        assert (tmp_path / name).exists()
    for more, said in {
        ("--width", "8m"): "give it in centimetres",
        ("--text", "abc"): "is drawn as it is",
        ("--checkpoint", str(run)): "Give the checkpoint once",
    }.items():
        path = tmp_path / "b.png"
        assert main(["render", str(run), *more, "-o", str(path)]) == 2
        assert said in capsys.readouterr().err
        assert not path.exists()
