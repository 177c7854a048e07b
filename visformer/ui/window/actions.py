"""Menus and keys of the window."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import (
    QAction,
    QActionGroup,
    QGuiApplication,
    QKeySequence,
    QShortcut,
)
from PySide6.QtWidgets import QFileDialog, QGridLayout, QMenu, QMessageBox, QSpacerItem

from visformer import paths
from visformer.errors import InputError, brief
from visformer.file_kinds import FileKind, recognised
from visformer.language import LANGUAGES, N_, _, p_, tag
from visformer.pictures.web_page import web_page
from visformer.program.diagnostics import diagnostics, version_of
from visformer.session import tree
from visformer.session.both import alone_words, show_beside
from visformer.session.openings import ask_again, open_with
from visformer.session.run import EditedRun, EditName
from visformer.session.state import State
from visformer.ui.bars.look_bar import FORM_KEYS
from visformer.ui.bars.message_stack import title_of
from visformer.ui.bars.open_form import file_kinds, tokenizer_files
from visformer.ui.bars.samples import open_with_sample
from visformer.ui.look import theme
from visformer.ui.look.theme import has_motion
from visformer.ui.views import VIEWS
from visformer.ui.widgets.export import PICTURES, ask_where, save_picture
from visformer.ui.window.appearance import Appearance
from visformer.ui.window.keys_page import KeysPage
from visformer.ui.window.lessons import LessonWalk, build_lessons_menu
from visformer.ui.window.presenting import Presentation
from visformer.ui.window.session_files import NOTHING, SessionFiles, choose_session
from visformer.ui.window.window_parts import WindowParts
from visformer.values.facts import KINDS
from visformer.values.intervention import NO_CHANGES
from visformer.values.questions import OTHER, TARGET_TOKENIZER, Overrides

ICON = 64  # points that the icon in About is wide
ABOUT_LINES = 32  # lines of text that it is wide
ABOUT = (
    N_("Visformer shows every number of an encoder-decoder Transformer at work."),
    N_(
        "All numbers are the model's own. Attention shows which values are mixed into "
        "a token, and how much of each; it does not show why the model chose a word. "
        "Values also pass through projections, feed-forward layers and residuals: "
        "attention is not attribution."
    ),
    N_(
        "What is new: lessons in Markdown, “what if” changes of a run, the tree of a "
        "beam search, web pages as hand-outs, Chinese, and “visformer desktop install”."
    ),
    N_("Tatoeba sentences: CC BY 2.0 FR. Visformer: MIT licence. Qt: LGPL 3."),
)


def build_menus(
    window: WindowParts,
    files: SessionFiles,
    appearance: Appearance,
    presentation: Presentation,
    lessons: LessonWalk,
) -> Ways:
    """Fill the menus of the header; return the entries of Undo, Redo, Back, Forward."""
    bar = window.header.menu
    keys = QKeySequence.StandardKey
    file = bar.addMenu(_("&File"))
    _build_model_menu(window, file)
    file.addSeparator()
    foreign = (
        _add(
            file,
            _("Answer the file's questions &again…"),
            lambda: window.session.do(ask_again),
        ),
        _add(file, _("Choose a &tokenizer…"), partial(choose_tokenizer, window)),
    )
    file.aboutToShow.connect(lambda: _enable(foreign, _asks(window)))
    file.addSeparator()
    _add(file, _("Open &session…"), partial(choose_session, window, files))
    earlier = file.addMenu(_("&Earlier sessions"))
    file.aboutToShow.connect(lambda: _show_earlier(files, earlier))
    _add(file, _("&Save session"), files.save, keys.Save)
    _add(file, _("Save session &as…"), files.save_as, "Ctrl+Shift+S")
    _add(file, _("Save t&race…"), lambda: _save_trace(window))
    _add(file, _("Save &window as picture…"), lambda: _save_window(window))
    _add(file, _("Save as web &page…"), lambda: _save_page(window, files))
    file.addSeparator()
    _add(file, _("&Quit"), window.close, "Ctrl+Q").setMenuRole(
        QAction.MenuRole.QuitRole
    )
    edit = bar.addMenu(_("&Edit"))
    ways = Ways(window, edit)
    restore = partial(window.change_run, NO_CHANGES)
    original = _add(edit, _("Restore the &original run"), restore)
    edit.aboutToShow.connect(
        lambda: _enable((original,), bool(window.session.state.intervention))
    )
    _build_view_menu(window, bar.addMenu(_("&View")), ways, appearance, presentation)
    build_lessons_menu(window, files, lessons, bar.addMenu(_("&Lessons")))
    help_menu = bar.addMenu(_("&Help"))
    _add(help_menu, p_("keyboard", "&Keys"), lambda: _show_keys(window), "F1")
    _add(help_menu, _("&About Visformer"), lambda: _show_limits(window))
    _add(help_menu, _("&Copy diagnostics"), lambda: _copy_diagnostics(window))
    show_recent(window, [])
    for action in window.findChildren(QAction):
        if not action.shortcut().isEmpty():
            window.addAction(action)  # its key works wherever its menu is
    return ways


def _build_view_menu(
    window: WindowParts,
    view: QMenu,
    ways: Ways,
    appearance: Appearance,
    presentation: Presentation,
) -> None:
    keys = QKeySequence.StandardKey
    view.addActions([ways.back_entry, ways.forward_entry])
    view.addSeparator()
    _build_theme_menu(appearance, view.addMenu(_("&Theme")))
    # i18n: found by those who read only one of both
    _build_language_menu(window, view.addMenu(_("Lan&guage · 语言")))
    _add(view, _("&Larger text"), lambda: appearance.zoom_by(10), keys.ZoomIn)
    _add(view, _("&Smaller text"), lambda: appearance.zoom_by(-10), keys.ZoomOut)
    _add(view, _("&Normal text"), lambda: appearance.zoom_by(0), "Ctrl+0")
    view.addSeparator()
    parts: dict[QAction, Callable[[], bool]] = {
        _add(
            view,
            _("&Next token"),
            lambda: window.side.show(window.candidates.folded),
            "Ctrl+T",
        ): lambda: not window.candidates.folded,
        _add(
            view,
            _("So&urce and target tokens"),
            lambda: appearance.show_tokens(window.strips.folded),
        ): lambda: not window.strips.folded,
        _add(
            view,
            _("S&entence on what is seen"),
            lambda: appearance.explain(not window.tabs.explained),
        ): lambda: window.tabs.explained,
        _add(
            view,
            _("What is not &yet written"),
            lambda: appearance.show_ahead(not window.session.state.look.ahead),
        ): lambda: window.session.state.look.ahead,
        _add(
            view,
            _("Show &raw pieces"),
            lambda: appearance.show_pieces(not window.session.state.look.pieces),
        ): lambda: window.session.state.look.pieces,
        _add(
            view, _("&Motion after a step"), lambda: appearance.move(not has_motion())
        ): has_motion,
    }
    session = window.session
    both = _add(view, _("&Both runs"), lambda: session.do(show_beside), "Ctrl+B")
    parts[both] = lambda: session.state.views.beside
    view.aboutToShow.connect(lambda: _enable((both,), not alone_words(session.state)))
    view.aboutToHide.connect(lambda: _enable((both,), True))  # its key says why not
    view.aboutToShow.connect(lambda: _check(parts))
    view.addSeparator()
    _add(view, _("&Present"), presentation.toggle, "F5")
    _add(view, _("&Full screen"), lambda: _full_screen(window), "F11")
    _add(view, _("&Reset layout"), appearance.reset)


def _build_model_menu(window: WindowParts, file: QMenu) -> None:
    """Offer models to open, at the model's name and in the menu File."""
    models, keys = window.header.models, QKeySequence.StandardKey
    about = _add(models, _("About this &model…"), window.about.click)
    models.aboutToShow.connect(
        lambda: _enable(
            (about,),
            window.session.state.about is not None or window.about.watched is not None,
        )
    )
    models.addMenu(window.header.device)
    models.addSeparator()
    opening = (
        _add(
            models,
            _("&Open checkpoint folder…"),
            partial(choose_folder, window),
            keys.Open,
        ),
        _add(
            models,
            _("Open checkpoint &file…"),
            partial(choose_files, window),
            "Ctrl+Shift+O",
        ),
    )
    window.recent_menu = models.addMenu(_("Open &recent"))
    file.addActions([*opening, window.recent_menu.menuAction()])
    models.addSeparator()
    models.addAction(_("Bundled models")).setEnabled(False)  # a title
    for path in paths.bundled_checkpoints():
        _add(models, path.name, partial(open_with_sample, window, str(path)))


def _build_theme_menu(appearance: Appearance, menu: QMenu) -> None:
    entries = {
        name: _add(menu, _(title), partial(appearance.set_theme, name))
        for name, title in theme.NAMES.items()
    }
    for entry in entries.values():
        entry.setCheckable(True)

    def show() -> None:
        for name, entry in entries.items():
            entry.setChecked(name == appearance.theme)

    menu.aboutToShow.connect(show)


def _build_language_menu(window: WindowParts, menu: QMenu) -> None:
    def choose(name: str) -> None:
        if window.speak is not None:
            window.speak(name)

    one_of_them = QActionGroup(menu)
    for name, title in LANGUAGES.items():
        entry = one_of_them.addAction(_add(menu, title, partial(choose, name)))
        entry.setCheckable(True)
        entry.setChecked(tag().startswith(name))
    menu.aboutToShow.connect(lambda: menu.setEnabled(window.speak is not None))


def _add(
    menu: QMenu,
    title: str,
    slot: Callable[..., object],
    key: QKeySequence.StandardKey | str | None = None,
) -> QAction:
    action = QAction(title, menu)
    action.triggered.connect(lambda _checked=False: slot())
    if key is not None:
        action.setShortcuts(
            QKeySequence.keyBindings(key)
            if not isinstance(key, str)
            else [QKeySequence(key)]
        )
    menu.addAction(action)
    return action


def _check(actions: dict[QAction, Callable[[], bool]]) -> None:
    for action, is_on in actions.items():
        action.setCheckable(True)
        action.setChecked(is_on())


def _enable(actions: tuple[QAction, ...], enabled: bool) -> None:
    for action in actions:
        action.setEnabled(enabled)


def _asks(window: WindowParts) -> bool:
    about = window.session.state.about
    return about is not None and about.asks


def show_recent(window: WindowParts, recent: list[str]) -> None:
    """List recently opened checkpoints; those that are gone are greyed."""
    menu = window.recent_menu
    menu.clear()
    menu.setEnabled(bool(recent))
    for path in recent:
        title = brief(path).replace("&", "&&")
        action = _add(menu, title, partial(open_with_sample, window, path))
        action.setEnabled(os.path.exists(path))  # False too for what is no name


def _show_earlier(files: SessionFiles, menu: QMenu) -> None:
    """List what earlier windows kept, the newest first."""
    menu.clear()
    menu.setEnabled(bool(files.earlier))
    for work in files.earlier:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(work.facts.saved))
        title = f"{when}  {title_of(work)}".replace("&", "&&")
        _add(menu, title, partial(files.open_again, work))


def build_keys(
    window: WindowParts,
    presentation: Presentation,
    own: Mapping[object, Callable[[], object]],
    by_key: Callable[[Callable[[], object]], Callable[[], None]],
) -> None:
    """Bind the keys that are not in the menus; text fields keep those for typing.

    ``own``: what else the window does; ``by_key`` is around what a key that may be held
    does.
    """
    transport = window.transport
    key = Qt.Key
    held: dict[object, Callable[[], object]] = {
        key.Key_Left: transport.back,
        key.Key_Right: transport.forward,
        "Ctrl+Left": lambda: window.walk_heads(0, -1),
        "Ctrl+Right": lambda: window.walk_heads(0, 1),
        "Ctrl+Up": lambda: window.walk_heads(-1, 0),
        "Ctrl+Down": lambda: window.walk_heads(1, 0),
        "Shift+Left": lambda: window.move_cell(0, -1),
        "Shift+Right": lambda: window.move_cell(0, 1),
        "Shift+Up": lambda: window.move_cell(-1, 0),
        "Shift+Down": lambda: window.move_cell(1, 0),
    }
    bind: dict[object, Callable[[], object]] = {
        **{keys: by_key(act) for keys, act in held.items()},
        key.Key_Space: transport.toggle,
        key.Key_Home: transport.first,
        key.Key_End: transport.last,
        **own,
        key.Key_F: window.large.toggle_focused,
        key.Key_B: presentation.cover,
        ".": presentation.cover,
        "Ctrl+D": window.drawer.button.toggle,
        key.Key_F10: window.header.more.click,
        "/": window.source.take_focus,
        "?": lambda: _show_keys(window),
    }
    for form, letter in FORM_KEYS.items():
        bind[letter] = partial(window.choose_form, form)
    for bracket, by in (("[", -1), ("]", 1)):
        bind[bracket] = partial(window.walk_stages, by)
    for number, kind in enumerate(KINDS, 1):
        bind[str(number)] = partial(window.choose_kind, kind)
    for number, view in enumerate(VIEWS, 1):
        bind[f"Ctrl+{number}"] = partial(window.session.set, tab=view.name)
    for keys, slot in bind.items():
        QShortcut(QKeySequence(keys), window, activated=slot)  # type: ignore[call-overload]


def _show_keys(window: WindowParts) -> None:
    KeysPage(window).open()


def _show_limits(window: WindowParts) -> None:
    title = _("Visformer {version}", version=version_of("visformer"))
    box = QMessageBox(window)
    box.setIconPixmap(QGuiApplication.windowIcon().pixmap(ICON))
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText("\n\n".join((title, *map(_, ABOUT))))
    grid = box.layout()
    if isinstance(grid, QGridLayout):  # Qt gives a large text no more width
        wide = min(ABOUT_LINES * window.fontMetrics().height(), window.width() * 4 // 5)
        grid.addItem(QSpacerItem(wide, 0), grid.rowCount(), 0, 1, grid.columnCount())
    box.open()


def _copy_diagnostics(window: WindowParts) -> None:
    text = diagnostics(window.session.state, window.health)
    QGuiApplication.clipboard().setText(text)
    notice = _("Copied: versions, device, facts of the model and the last errors.")
    window.session.set(notice=notice)


def _save_trace(window: WindowParts) -> None:
    trace = window.session.state.visible
    if trace is None:
        window.session.set(error=_(NOTHING))
        return

    def save() -> None:
        path = ask_where(window, _("Save trace"), "trace.vis")
        if path:
            trace.save(path)

    window.guarded(save)


def _save_page(window: WindowParts, files: SessionFiles) -> None:
    state = window.session.state
    trace = state.trace
    if trace is None:
        window.session.set(error=_(NOTHING))
        return
    at = state.selection, state.look, state.step
    files.save_text(_("Save as web page"), "run.html", partial(web_page, trace, *at))


def _save_window(window: WindowParts) -> None:
    def save() -> None:
        names = [f"window{suffix}" for suffix in PICTURES]
        path = ask_where(window, _("Save window"), *names)
        if path:
            save_picture(
                Path(path), window, lambda words: window.session.set(error=words)
            )

    window.guarded(save)


def _full_screen(window: WindowParts) -> None:
    window.showNormal() if window.isFullScreen() else window.showFullScreen()


FILES = "*.safetensors *.pt *.pth *.bin *.ckpt *.vis *.lesson.md *.html"


def together(files: Sequence[str]) -> tuple[str, Overrides]:
    """Return the checkpoint among files chosen together, and what the others add to it.

    Two files of weights are d2l's encoder and decoder; tokenizers beside them are the
    model's, the source's first. InputError for anything else.
    """
    if len(files) == 1:
        return files[0], ()
    kinds = [_in_checkpoint(Path(file)) for file in files]
    weights, tokenizers = (
        [file for file, one in zip(files, kinds, strict=True) if one == kind]
        for kind in ("model", "tokenizer")
    )
    both = len(weights) + len(tokenizers) == len(files)
    if not both or len(weights) not in (1, 2) or len(tokenizers) > 2:
        raise InputError(
            "These files cannot be opened together: choose one checkpoint, or an "
            "encoder and a decoder file, with at most two tokenizers."
        )
    names = ("tokenizer", TARGET_TOKENIZER)
    other = [(OTHER, file) for file in weights[1:]]
    return weights[0], (*other, *zip(names, _source_first(tokenizers), strict=False))


def _in_checkpoint(path: Path) -> FileKind:
    """Tell what a file chosen with others is: text, JSON and pickles may be tokens."""
    kind = recognised(path).kind
    pickled = kind == "model" and path.suffix.lower() in (".pkl", ".pickle")
    return "tokenizer" if pickled or kind in ("pairs", "other") else kind


def _source_first(files: list[str]) -> list[str]:
    """Order two tokenizers, the source's first, by the sides that their names say."""
    target = ("target", "tgt", "trg", "dec")
    return sorted(files, key=lambda f: any(word in Path(f).stem for word in target))


def open_together(window: WindowParts, files: Sequence[str]) -> None:
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


def choose_folder(window: WindowParts) -> None:
    """Ask for a checkpoint folder."""
    modes = QFileDialog.FileMode
    _ask(window, _("Open a checkpoint folder"), modes.Directory, "")


def choose_files(window: WindowParts) -> None:
    """Ask for one file, or for two where encoder and decoder were saved separately."""
    title = _("Open a trace or a checkpoint file (or an encoder and a decoder file)")
    kinds = file_kinds(_("Checkpoints and traces ({patterns})", patterns=FILES))
    _ask(window, title, QFileDialog.FileMode.ExistingFiles, kinds)


def choose_tokenizer(window: WindowParts) -> None:
    """Ask for a tokenizer, and reopen the open checkpoint with it."""

    def use(files: Sequence[str]) -> None:
        tokenizers = {"tokenizer": files[0], TARGET_TOKENIZER: None}
        window.session.do(open_with, tokenizers)

    title = _("Choose a tokenizer or vocabulary file")
    _ask(window, title, QFileDialog.FileMode.ExistingFile, tokenizer_files(), use)


def _ask(
    window: WindowParts,
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


# ---- undo, redo, back and forward ------------------------------------------------

UNDO: dict[EditName, str] = {
    "sentence": N_("&Undo the new sentence"),
    "reference": N_("&Undo the reference"),
    "token": N_("&Undo the choice of a token"),
    "hypothesis": N_("&Undo the choice of a hypothesis"),
    "strategy": N_("&Undo the choice of a strategy"),
    "change": N_("&Undo the change of the run"),
    "run": N_("&Undo the turn to another run"),
    "deletion": N_("&Undo the deletion of a run"),
}
REDO: dict[EditName, str] = {
    "sentence": N_("&Redo the new sentence"),
    "reference": N_("&Redo the reference"),
    "token": N_("&Redo the choice of a token"),
    "hypothesis": N_("&Redo the choice of a hypothesis"),
    "strategy": N_("&Redo the choice of a strategy"),
    "change": N_("&Redo the change of the run"),
    "run": N_("&Redo the turn to another run"),
    "deletion": N_("&Redo the deletion of a run"),
}


class Ways:
    """Four entries of the menus, whose keys are off where they are grey."""

    def __init__(self, window: WindowParts, edit: QMenu) -> None:
        """Add Undo and Redo to a menu; Back and Forward are added by another."""
        self._window = window
        self.undo_entry = _entry(window, QKeySequence.StandardKey.Undo, self.undo)
        self.redo_entry = _entry(window, QKeySequence.StandardKey.Redo, self.redo)
        keys, usual = self.redo_entry.shortcuts(), QKeySequence("Ctrl+Y")
        if usual not in keys:  # Qt knows it on Windows alone
            self.redo_entry.setShortcuts([*keys, usual])
        edit.addActions([self.undo_entry, self.redo_entry])
        self.back_entry = _entry(window, QKeySequence("Alt+Left"), self.back)
        self.back_entry.setText(_("&Back"))
        self.forward_entry = _entry(window, QKeySequence("Alt+Right"), self.forward)
        self.forward_entry.setText(_("&Forward"))
        self.draw(window.session.state)

    def draw(self, state: State) -> None:
        """Say what would be undone and redone, and grey what leads nowhere."""
        _draw(self.undo_entry, state.history.undo, _("&Undo"), UNDO)
        _draw(self.redo_entry, state.history.redo, _("&Redo"), REDO)
        back, forward = tree.ways(state)
        self.back_entry.setEnabled(back)
        self.forward_entry.setEnabled(forward)

    def undo(self) -> None:
        self._window.turn_to(tree.undo)

    def redo(self) -> None:
        self._window.turn_to(tree.redo)

    def back(self) -> None:
        self._window.turn_to(tree.back)

    def forward(self) -> None:
        self._window.turn_to(tree.forward)


def _entry(
    window: WindowParts,
    key: QKeySequence.StandardKey | QKeySequence,
    slot: Callable[[], None],
) -> QAction:
    action = QAction(window)
    keys = [key] if isinstance(key, QKeySequence) else QKeySequence.keyBindings(key)
    action.setShortcuts(keys)
    action.triggered.connect(lambda _checked=False: slot())
    return action


def _draw(
    entry: QAction,
    runs: tuple[EditedRun, ...],
    nothing: str,
    titles: dict[EditName, str],
) -> None:
    entry.setEnabled(bool(runs))
    entry.setText(_(titles[runs[-1].edit]) if runs else nothing)
