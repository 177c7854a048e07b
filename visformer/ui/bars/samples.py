"""The sample menu: sentences that show something, each with its bundled model."""

from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from PySide6.QtWidgets import QMenu, QPushButton

from visformer import paths
from visformer.language import N_, _
from visformer.session.runs import NO_MODEL
from visformer.ui.window.window_parts import WindowParts


class Sample(NamedTuple):
    """A sentence, the bundled model for it, and what it shows."""

    text: str
    model: str
    note: str  # marked for the catalogue


ENGLISH, CHINESE, LETTERS = "tatoeba-en-fr", "tatoeba-zh-en", "reverse"
BLACKBOARD = "blackboard"
HEADINGS = {  # translated where they are shown
    ENGLISH: N_("English to French"),
    CHINESE: N_("Chinese to English"),
    LETTERS: N_("Toy: letters in reverse order"),
    BLACKBOARD: N_("Toy: a model for the blackboard"),
}
SAMPLES = (
    Sample(
        "The animal didn't cross the street because it was too tired.",
        ENGLISH,
        N_("what “it” reads, and how “il” follows from it"),
    ),
    Sample("I am a student.", ENGLISH, N_("short: “a” has no partner in French")),
    Sample("I have a cat.", ENGLISH, N_("the diagonal of word for word")),
    Sample("I have a dog and a cat.", ENGLISH, N_("one verb for two things")),
    Sample(
        "The woman gave the child a book.",
        ENGLISH,
        N_("the order of the words changes"),
    ),
    Sample(
        "A Titan RTX has 24GB of VRAM.",
        ENGLISH,
        N_("rare words in pieces, copied by attention"),
    ),
    Sample("Thinking machines", ENGLISH, N_("two words: few enough for the numbers")),
    Sample("我有一只猫。", CHINESE, N_("“I have a cat.”: no spaces between words")),
    Sample("你是学生吗？", CHINESE, N_("“Are you a student?”: the question word")),
    Sample("attention", LETTERS, N_("cross-attention is the anti-diagonal")),
    Sample(
        "dab", BLACKBOARD, N_("four tokens, four dimensions: every digit can be read")
    ),
)


def sample_button(window: WindowParts) -> QPushButton:
    """Return the button; models that are not installed have no entries."""
    button = QPushButton(_("Samples"))
    button.setToolTip(_("Sentences that show something, with their models"))
    menu = QMenu(button)
    bundled = {path.name: str(path) for path in paths.bundled_checkpoints()}
    last = ""
    for sample in SAMPLES:
        if sample.model not in bundled:
            continue
        if sample.model != last:
            menu.addSection(_(HEADINGS[sample.model]))
            last = sample.model
        # an ampersand would mark a key
        title = "\t".join((sample.text, _(sample.note))).replace("&", "&&")
        action = menu.addAction(title)
        chosen = partial(choose, window, sample.text, bundled[sample.model])
        action.triggered.connect(lambda _checked=False, act=chosen: act())
    button.setMenu(menu)
    return button


def choose(window: WindowParts, text: str, model: str) -> None:
    """Translate a sample with its own model, which is opened if another one is."""
    opened = window.session.state.opened
    if opened is not None and opened.path == model:
        window.session.set(led=NO_MODEL)  # each shows something in a head of its own
        window.translate(text)
        return
    window.source.setText(text)
    window.reference.clear()
    window.open(model, then=text)


def open_with_sample(window: WindowParts, path: str) -> None:
    """Open a model; a bundled one with a sentence that shows something of it."""
    opened, bundled = window.session.state.opened, map(str, paths.bundled_checkpoints())
    name = PurePath(path).name if path in bundled else ""
    texts = [sample.text for sample in SAMPLES if sample.model == name]
    if texts and (opened is None or opened.path != path):
        choose(window, texts[0], path)
    else:
        window.open(path)
