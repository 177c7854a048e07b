"""Labels in which queries, keys and values have their hues."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QRect
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from tests.window.painted import fixed_font, painted
from visformer.pictures.picture import AttentionRole
from visformer.pictures.words.role_text import role_text
from visformer.ui.look.theme import hue
from visformer.ui.views.computation.computation import RoleTabs
from visformer.ui.widgets.plain_label import RoleLabel

MARKUP = "“<b>it</b>” reads “<img src=x>” & more; QKᵀ"


@pytest.fixture
def label(qtbot: Any) -> RoleLabel:
    widget = RoleLabel("a name")
    qtbot.addWidget(widget)
    fixed_font(widget)
    widget.resize(600, 40)
    widget.show()
    return widget


def test_words_of_a_role_are_painted_in_its_hue_and_no_markup_is_read(
    label: RoleLabel,
) -> None:
    names = {"query": "“<b>it</b>”", "key": "“<img src=x>”"}
    label.setText(role_text(MARKUP, **names))
    words = painted(label).words
    assert "".join(word.text for word in words) == MARKUP
    inks = {word.text.strip(): word.ink for word in words}
    palette = label.palette()
    assert inks[names["query"]] == inks["Q"] == hue(palette, "query").name()
    assert inks[names["key"]] == inks["Kᵀ"] == hue(palette, "key").name()
    assert inks["reads"] == palette.windowText().color().name()
    label.setText("no role here")
    assert {word.ink for word in painted(label).words} == {inks["reads"]}


def test_what_has_no_room_is_cut_with_a_sign(label: RoleLabel) -> None:
    label.setText(role_text("many words about Q and K " * 20))
    assert label.cut.endswith("…")
    assert label.text().startswith(label.cut[:-1])
    assert painted(label).words[-1].y <= label.height()
    label.resize(600, label.heightForWidth(600))
    assert not label.cut


# ---- tabs -------------------------------------------------------------------------


def nearest(bar: RoleTabs, area: QRect, colour: QColor) -> int:
    """Return how far the nearest pixel is from a colour, in steps of its parts."""
    image = bar.grab().toImage()
    pixels = (
        image.pixelColor(x, y)
        for x in range(area.left(), area.right())
        for y in range(area.top(), area.bottom())
    )
    return min(
        max(
            abs(pixel.red() - colour.red()),
            abs(pixel.green() - colour.green()),
            abs(pixel.blue() - colour.blue()),
        )
        for pixel in pixels
    )


def test_each_symbol_has_its_hue(qtbot: QtBot) -> None:
    bar = RoleTabs()
    qtbot.addWidget(bar)
    for title in ("input", "Q", "K", "V", "Q, K, V"):
        bar.addTab(title)
    bar.show()
    roles: tuple[AttentionRole, ...] = ("query", "key", "value")
    hues = [hue(bar.palette(), role) for role in roles]
    for at, own in enumerate(hues, 1):
        found = [nearest(bar, bar.tabRect(at), ink) for ink in hues]
        assert min(found) == nearest(bar, bar.tabRect(at), own) < 40
        assert nearest(bar, bar.tabRect(0), own) > 40
        assert nearest(bar, bar.tabRect(4), own) < 40
