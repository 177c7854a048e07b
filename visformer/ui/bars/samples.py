"""The sample menu: sentences from the tutorials, each with the bundled model for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtWidgets import QMenu, QPushButton

from visformer import paths
from visformer.language import N_, _

if TYPE_CHECKING:
    from visformer.ui.window import MainWindow


class Sample(NamedTuple):
    """A sentence, the bundled model for it, and what it is a sample of."""

    text: str
    model: str
    note: str  # marked for the catalogue


ENGLISH, CHINESE, LETTERS = "tatoeba-en-fr", "tatoeba-zh-en", "reverse"
BLACKBOARD = "blackboard"
SAMPLES = (
    Sample(
        "The animal didn't cross the street because it was too tired.",
        ENGLISH,
        N_("d2l: which word “it” reads"),
    ),
    Sample("I am a student.", ENGLISH, N_("d2l, modular: Je suis étudiant")),
    Sample("I have a cat.", ENGLISH, N_("handout, in the other direction")),
    Sample("I have a dog and a cat.", ENGLISH, N_("modular: a batch of two")),
    Sample(
        "A Titan RTX has 24GB of VRAM.",
        ENGLISH,
        N_("modular: words that are in no training pair"),
    ),
    Sample("Thinking machines", ENGLISH, N_("modular: the figure of residuals")),
    Sample("我有一只猫。", CHINESE, N_("handout: I have a cat")),
    Sample("你是学生吗？", CHINESE, N_("Are you a student?")),
    Sample("attention", LETTERS, N_("letters reversed: an anti-diagonal")),
    Sample(
        "dab", BLACKBOARD, N_("four tokens, four dimensions: every digit can be read")
    ),
)


def sample_button(window: MainWindow) -> QPushButton:
    """Return the button; models that are not installed have no entries."""
    button = QPushButton(_("Samples"))
    button.setToolTip(_("Sentences from the tutorials"))
    menu = QMenu(button)
    bundled = {path.name: str(path) for path in paths.bundled_checkpoints()}
    last = ""
    for sample in SAMPLES:
        if sample.model not in bundled:
            continue
        if sample.model != last:
            menu.addSection(sample.model)
            last = sample.model
        # an ampersand would mark a key
        title = "\t".join((sample.text, _(sample.note))).replace("&", "&&")
        action = menu.addAction(title)
        chosen = partial(choose, window, sample.text, bundled[sample.model])
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
