"""The sample menu: sentences from the tutorials, each with the bundled model for it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMenu, QPushButton

from visformer import paths
from visformer.language import _

if TYPE_CHECKING:
    from visformer.ui.window import MainWindow


def sample_button(window: MainWindow) -> QPushButton:
    """Return the button; models that are not installed have no entries."""
    button = QPushButton(_("Samples"))
    button.setToolTip(_("Sentences from the tutorials"))
    menu = QMenu(button)
    bundled = {path.name: str(path) for path in paths.bundled_checkpoints()}
    last = ""
    samples = json.loads(paths.resource("samples.json").read_text("utf-8"))
    for sample in samples:
        model = sample["model"]
        if model not in bundled:
            continue
        if model != last:
            menu.addSection(model)
            last = model
        # an ampersand would mark a key
        title = f"{sample['text']}\t{sample['from']}".replace("&", "&&")
        action = menu.addAction(title)
        chosen = partial(choose, window, sample["text"], bundled[model])
        action.triggered.connect(lambda _checked=False, act=chosen: act())
    button.setMenu(menu)
    return button


def choose(window: MainWindow, text: str, model: str) -> None:
    """Translate a sample with its own model, or with the user's where one is open."""
    opened = window.session.state.opened
    open_path = "" if opened is None else opened.path
    bundled = {str(path) for path in paths.bundled_checkpoints()}
    if open_path == model or (open_path and open_path not in bundled):
        window.translate(text)
        return
    window.source.setText(text)
    window.open(model, then=text)
