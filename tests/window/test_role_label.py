"""Labels in which queries, keys and values have their hues."""

from __future__ import annotations

from typing import Any

import pytest

from tests.window.painted import fixed_font, painted
from visformer.pictures.words.role_text import role_text
from visformer.ui.look.theme import hue
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
