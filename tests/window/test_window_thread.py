"""The check that every test of the window makes can fail."""

from __future__ import annotations

import threading

from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from tests.window.window_thread import touched


def test_a_widget_that_another_thread_touches_is_noted(qtbot: QtBot) -> None:
    button = QPushButton("here")
    qtbot.addWidget(button)
    other = threading.Thread(target=lambda: button.setText("elsewhere"))
    other.start()
    other.join()
    (where,) = touched
    assert where.startswith("QAbstractButton.setText at ")
    assert button.text() == "here"
    touched.clear()
