"""Where to save: the system's dialog, and a name that says what is written."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from visformer.errors import InputError
from visformer.files import exists, short
from visformer.language import _


def ask_where(parent: QWidget, title: str, near: str) -> str:
    """Return the path that was chosen, with the suffix of ``near``; "" for none.

    InputError where a name without a suffix would replace a file: the dialog asked
    about another name.
    """
    suffix = Path(near).suffix
    path, _kind = QFileDialog.getSaveFileName(parent, title, near, f"*{suffix}")
    if not path or Path(path).suffix:
        return path
    whole = path + suffix
    if exists(Path(whole)):
        raise InputError(
            _(
                "{file} exists: type the whole name to replace it.",
                file=short(Path(whole).name),
            )
        )
    return whole
