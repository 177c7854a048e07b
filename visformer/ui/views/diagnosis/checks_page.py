"""The Checks page: what is unusual or wrong with the model on screen."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from visformer.language import N_, _
from visformer.pictures.words.about import findings_text
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, fill
from visformer.ui.views.view import View
from visformer.ui.widgets.plain_label import paragraph


class ChecksPage(View):
    """Each finding: where it is, what follows from it, and what to do."""

    name, title = "checks", N_("Checks")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.found_text = paragraph(_("what is unusual or wrong with the model"))
        fill(LeastColumn(self), self.found_text, None)

    def main_picture(self) -> QWidget:
        """Return the text."""
        return self.found_text

    def draw(self, state: State) -> None:
        """Write the findings of the model on screen."""
        self._state = state
        certificate = None if state.trace is None else state.trace.certificate
        known = state.about or certificate
        self.found_text.setText("" if known is None else findings_text(known.findings))
