"""Choosing what to open: dialogs and drops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QUrl
from PySide6.QtWidgets import QFileDialog

from visformer.errors import InputError
from visformer.language import _
from visformer.session.openings import open_with
from visformer.ui.bars.open_form import file_kinds, tokenizer_files
from visformer.ui.bars.samples import open_with_sample
from visformer.values.questions import OTHER, TARGET_TOKENIZER, Overrides

if TYPE_CHECKING:
    from visformer.ui.window import MainWindow

FILES = "*.safetensors *.pt *.pth *.bin *.ckpt *.vis"
_TOKENIZERS = (".model", ".spm", ".json", ".txt", ".vocab", ".pkl", ".pickle")


def together(files: Sequence[str]) -> tuple[str, Overrides]:
    """Return the checkpoint among files chosen together, and what the others add to it.

    Two files of weights are d2l's encoder and decoder; tokenizers beside them are the
    model's, the source's first. InputError for anything else.
    """
    tokenizers = [f for f in files if Path(f).suffix.lower() in _TOKENIZERS]
    weights = [file for file in files if file not in tokenizers]
    if len(files) == 1:
        return files[0], ()
    if len(weights) not in (1, 2) or len(tokenizers) > 2:
        raise InputError(
            _(
                "These files cannot be opened together: choose one checkpoint, or an "
                "encoder and a decoder file, with at most two tokenizers."
            )
        )
    names = ("tokenizer", TARGET_TOKENIZER)
    other = [(OTHER, file) for file in weights[1:]]
    return weights[0], (*other, *zip(names, _source_first(tokenizers), strict=False))


def _source_first(files: list[str]) -> list[str]:
    """Order two tokenizers, the source's first, by the sides that their names say."""
    target = ("target", "tgt", "trg", "dec")
    return sorted(files, key=lambda f: any(word in Path(f).stem for word in target))


def open_together(window: MainWindow, files: Sequence[str]) -> None:
    """Open what was chosen or dropped."""
    if files:
        path, beside = together(files)
        if beside:
            window.open(path, beside=beside)
        else:
            open_with_sample(window, path)


def local(urls: Sequence[QUrl]) -> list[str]:
    """Return the paths of the dragged files that are on this computer."""
    return [url.toLocalFile() for url in urls if url.isLocalFile()]


def choose_folder(window: MainWindow) -> None:
    """Ask for a checkpoint folder."""
    modes = QFileDialog.FileMode
    _ask(window, _("Open a checkpoint folder"), modes.Directory, "")


def choose_files(window: MainWindow) -> None:
    """Ask for one file, or for two where encoder and decoder were saved separately."""
    title = _("Open a trace or a checkpoint file (or an encoder and a decoder file)")
    kinds = file_kinds(_("Checkpoints and traces ({patterns})", patterns=FILES))
    _ask(window, title, QFileDialog.FileMode.ExistingFiles, kinds)


def choose_tokenizer(window: MainWindow) -> None:
    """Ask for a tokenizer, and reopen the open checkpoint with it."""

    def use(files: Sequence[str]) -> None:
        tokenizers = {"tokenizer": files[0], TARGET_TOKENIZER: None}
        window.session.do(open_with, tokenizers)

    title = _("Choose a tokenizer or vocabulary file")
    _ask(window, title, QFileDialog.FileMode.ExistingFile, tokenizer_files(), use)


def _ask(
    window: MainWindow,
    title: str,
    mode: QFileDialog.FileMode,
    kinds: str,
    use: Callable[[Sequence[str]], object] | None = None,
) -> None:
    opened = window.session.state.opened
    near = "" if opened is None else str(Path(opened.path).parent)
    dialog = QFileDialog(window, title, near, kinds)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setFileMode(mode)
    if mode == QFileDialog.FileMode.Directory:
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    use = use or (lambda files: open_together(window, files))
    dialog.filesSelected.connect(lambda files: window.guarded(lambda: use(files)))
    dialog.open()
