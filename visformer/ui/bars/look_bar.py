"""LookBar: one row of controls for how attention is shown."""

from dataclasses import replace
from functools import partial

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QSlider,
    QToolButton,
    QWidget,
)

from visformer.language import N_, _
from visformer.pictures.selection import (
    DEFAULT_LOOK,
    FORMS,
    SCALE_TIPS,
    SCALES,
    SUMMARIES,
    TOKEN_GROUPS,
    Form,
    Look,
    Scale,
    Summary,
    TokenGroup,
)
from visformer.ui.changed import Changed
from visformer.ui.layout import fill
from visformer.ui.look.theme import gap
from visformer.ui.widgets.controls import chooser, word_button
from visformer.ui.widgets.plain_label import plain_label

MASS_STEP = 5  # percent
WIDEST = 14  # characters of a box that are always visible
FORM_KEYS: dict[Form, str] = {"map": "M", "arcs": "A", "text": "T"}
HINTS: dict[Form, str] = {
    "map": N_("wheel: zoom · drag: pan · click: lock a cell · right-click: copy, save"),
    "arcs": N_("point at a token: its arcs · click: lock it · right-click: copy, save"),
    "text": N_(
        "point at a token: its weights · click: lock it · right-click: copy, save"
    ),
}
HIDES: dict[TokenGroup, str] = {
    "special": N_("Hide special tokens"),
    "pad": N_("Hide pads"),
    "punctuation": N_("Hide punctuation"),
}


class LookBar(QWidget):
    """Form, summary, tokens, threshold of the arcs; beside them the colour scale."""

    changed = Signal(object)  # a Look
    scale_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._look = DEFAULT_LOOK
        self._changed = Changed()
        self.forms = self._form_buttons()
        self.summaries = chooser(
            _("heads and layers summarised"), SUMMARIES, most=WIDEST
        )
        self.scales = chooser(_("colour scale of the maps"), SCALES, most=WIDEST)
        self.tokens = QPushButton()
        self.actions_ = self._token_menu()
        self.mass = QSlider(Qt.Orientation.Horizontal)
        self._share = plain_label("")
        self._working = plain_label("", faint=True)
        self._prepare_slider()
        self.summaries.activated.connect(self._choose_summary)
        self.scales.activated.connect(
            lambda _: self.scale_chosen.emit(self.scales.currentData())
        )
        for box in (self.summaries, self.scales):
            box.setToolTip(box.accessibleName())
        row = fill(QHBoxLayout(self), *self.forms.values(), spacing=0)
        for part in (self.summaries, self.tokens, self.scales, self.mass, self._share):
            row.addSpacing(gap(self))
            row.addWidget(part)
        row.addSpacing(gap(self))
        row.addWidget(self._working, 1)

    def _form_buttons(self) -> dict[Form, QToolButton]:
        """Return a button of each form; one is pressed, each has a key of its own."""
        group, buttons = QButtonGroup(self), dict[Form, QToolButton]()
        for form, title in FORMS.items():
            tip = _("{hint} (key {key})", hint=_(HINTS[form]), key=FORM_KEYS[form])
            button = word_button(_(title), tip, partial(self._choose_form, form))
            button.setCheckable(True)
            group.addButton(button)
            buttons[form] = button
        return buttons

    def _prepare_slider(self) -> None:
        self.mass.setRange(1, 100 // MASS_STEP)
        self.mass.setPageStep(2)
        self.mass.setMinimumWidth(60)
        self.mass.setMaximumWidth(160)
        self.mass.setAccessibleName(_("percentage of each row carried by the arcs"))
        self.mass.setToolTip(
            _("The arcs show the fewest keys that carry this share of each row.")
        )
        self.mass.valueChanged.connect(self._choose_mass)

    def _token_menu(self) -> dict[str, QAction]:
        menu, actions = QMenu(self.tokens), dict[str, QAction]()
        for name, title in HIDES.items():
            actions[name] = menu.addAction(_(title))
        menu.addSeparator()
        actions["renormalise"] = menu.addAction(_("Renormalise rows after hiding"))
        menu.addSeparator()
        actions["words"] = menu.addAction(_("Merge subwords into words"))
        for action in actions.values():
            action.setCheckable(True)
            action.triggered.connect(self._change_tokens)
        self.tokens.setMenu(menu)
        self.tokens.setAccessibleName(_("tokens hidden or merged"))
        self.tokens.setToolTip(
            _("Hide tokens, renormalise rows, merge subwords into words")
        )
        return actions

    def draw(self, look: Look, scale: Scale, *, working: bool) -> None:
        """Show a Look; ``working``: a summary is still being computed."""
        self._look = look
        if not self._changed("all", look, scale, working):
            return
        self.forms[look.form].setChecked(True)
        self.summaries.setCurrentIndex(self.summaries.findData(look.summary))
        self.scales.setCurrentIndex(self.scales.findData(scale))
        self.scales.setToolTip(_(SCALE_TIPS[scale]))
        self.scales.setEnabled(look.summary != "gradient")  # which has its own
        for name in TOKEN_GROUPS:
            self.actions_[name].setChecked(name in look.hide)
        self.actions_["renormalise"].setChecked(look.renormalise)
        self.actions_["renormalise"].setEnabled(bool(look.hide))
        self.actions_["words"].setChecked(look.words)
        self.tokens.setText(_shown_tokens(look))
        share = round(look.mass * 100)
        with QSignalBlocker(self.mass):
            self.mass.setValue(share // MASS_STEP)
        self._share.setText(_("{percent}%", percent=share))
        for part in (self.mass, self._share):
            part.setVisible(look.form == "arcs")
        self._working.setText(_("summarising…") if working else "")

    def _change(self, look: Look) -> None:
        self._changed.forget()  # a control moved: the next draw says where it stands
        self.changed.emit(look)

    def _choose_form(self, form: Form) -> None:
        self._change(replace(self._look, form=form))

    def _choose_summary(self) -> None:
        summary: Summary = self.summaries.currentData()
        self._change(replace(self._look, summary=summary))

    def _choose_mass(self, value: int) -> None:
        self._change(replace(self._look, mass=value * MASS_STEP / 100))

    def _change_tokens(self) -> None:
        names = [name for name in TOKEN_GROUPS if self.actions_[name].isChecked()]
        look = replace(
            self._look,
            hide=frozenset(names),
            renormalise=bool(names) and self.actions_["renormalise"].isChecked(),
            words=self.actions_["words"].isChecked(),
        )
        self._change(look)


def _shown_tokens(look: Look) -> str:
    if look.words:
        return _("some words") if look.hide else _("all words")
    return _("some tokens") if look.hide else _("all tokens")
