"""The Runs tab: the runs of the window as a tree, and two of them side by side."""

import re
from collections.abc import Callable, Sequence

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QContextMenuEvent, QFont, QGuiApplication, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QTreeWidgetItemIterator,
    QWidget,
)

from visformer.errors import VisformerError
from visformer.language import N_, _
from visformer.pictures.runs_tree import TreeRow, tree_rows
from visformer.pictures.words.translation_text import TextPart
from visformer.session import sharing, tree
from visformer.session.run import parents_of
from visformer.session.state import Session, State
from visformer.ui.bars.status import paint_parts
from visformer.ui.layout import LeastColumn, fill
from visformer.ui.look.theme import Dressed
from visformer.ui.views.runs.side_by_side import ComparePage
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.controls import word_button
from visformer.ui.widgets.plain_label import paragraph, plain_tip
from visformer.ui.window.large import present_whole
from visformer.ui.window.window_parts import WindowParts

NAME, MADE, TEXT, MEAN, SIGNS = range(5)  # columns
TITLES = (
    *(N_("Run"), N_("What was changed"), N_("Translation"), N_("Mean log p, nats")),
    # i18n: the heading of a column: on screen, baseline, let go
    N_("Now"),
)
KEY, PARTS = Qt.ItemDataRole.UserRole, Qt.ItemDataRole.UserRole + 1
WIDE = 8, 16, 0, 8, 8  # of the columns, in lines of text; 0: the rest
LINE = 1.5  # a row's height, in lines of text
LEAST_LINES = 8  # of text: the least height of the tree
Act = tuple[str, str, Callable[[], None]]  # title, key and what it does


class TreePage(Dressed, View):
    """A tree of runs, and what can be done to those that are chosen."""

    name, title = "tree", N_("Tree")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.runs = self.main = RunTree()
        self.runs.renamed.connect(self._rename)
        self.runs.acts = self.acts
        self.runs.itemSelectionChanged.connect(self._offer)
        self.about = paragraph(_("how runs are added"))
        self.about.setText(
            _(
                "A token that is forced, a change, another sentence or another model "
                "adds a run. Double-click a run to show it."
            )
        )
        self.buttons = [
            word_button(re.sub(r"\(&\w\)|&", "", title), key, act)
            for title, key, act in self.acts()[:4]
        ]
        self.more = word_button(_("Save and copy"), _("Files, commands and Python"))
        menu = QMenu(self.more)
        menu.aboutToShow.connect(lambda: _fill(menu, self.acts()[4:]))
        self.more.setMenu(menu)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        present_whole(self.runs)
        row = fill(QHBoxLayout(), *self.buttons, self.more, None)
        fill(LeastColumn(self), self.about, row, (self.runs, 1))
        self.dress()

    def _dress(self) -> None:
        self.runs.setMinimumHeight(LEAST_LINES * self.fontMetrics().lineSpacing())
        self.runs.size_columns()

    def draw(self, state: State) -> None:
        """Write the runs."""
        self._state = state
        if not self._changed("tree", state.runs, state.shown, state.pinned):
            return
        runs, parents = state.tree, parents_of(state.runs)
        rows = tree_rows(runs, parents, shown=state.shown, pinned=state.pinned)
        self.runs.draw(rows, state.shown)
        self._offer()

    def acts(self) -> list[Act]:
        """Return what can be done to the runs that are chosen."""
        return [
            (_("&Show"), _("Enter"), self._show),
            (_("&Rename"), "F2", self.runs.rename),
            (_("&Pin as baseline"), "P", self._pin),
            (_("&Delete"), _("Delete"), self._delete),
            (_("Save &together…"), "", lambda: self._leave("vis")),
            (_("Export as &JSON…"), "", lambda: self._leave("json")),
            (_("Copy as &command"), "", lambda: self._copy(sharing.as_command)),
            (_("Copy as P&ython"), "", lambda: self._copy(sharing.as_python)),
        ]

    def _offer(self) -> None:
        chosen = len(self.runs.chosen)
        for button in self.buttons:
            several = button is self.buttons[-1]  # deleted together
            button.setEnabled(chosen == 1 or (several and chosen > 1))
        self.more.setEnabled(bool(chosen))

    # ---- what the user does ----------------------------------------------------

    @property
    def _key(self) -> int:
        """The key of the run that is chosen last; 0 for none."""
        return next(reversed(self.runs.chosen), 0)

    def _show(self) -> None:
        window = self.window()
        if isinstance(window, WindowParts):
            window.turn_to(tree.show, self._key)

    def _rename(self, key: int, name: str) -> None:
        self.session.do(tree.rename, key, name)
        self._changed.forget()
        self.draw(self.session.state)

    def _pin(self) -> None:
        self.session.do(tree.pin, self._key)

    def _delete(self) -> None:
        window = self.window()
        for key in self.runs.chosen:
            if isinstance(window, WindowParts):
                window.turn_to(tree.delete, key)

    def _copy(self, written: Callable[[State, int], str]) -> None:
        try:
            text = written(self.session.state, self._key)
        except VisformerError as error:
            self.session.set(error=str(error))
            return
        QGuiApplication.clipboard().setText(text)
        first = text.strip().splitlines()[-1]
        self.session.set(notice=_("Copied: {text}", text=first[:120]))

    def _leave(self, suffix: str) -> None:
        window = self.window()
        if isinstance(window, WindowParts):
            window.save_runs(self.runs.chosen, suffix)


def _fill(menu: QMenu, acts: Sequence[Act]) -> None:
    menu.clear()
    for title, key, act in acts:
        entry = menu.addAction(title if not key else f"{title}\t{key}")
        entry.triggered.connect(lambda _checked=False, act=act: act())


class RunsView(PagedView):
    """The tree of runs, and a comparison."""

    name = "runs"
    pages = TreePage, ComparePage
    fills = True  # with tables that need all of the width


class RunTree(QTreeWidget):
    """Rows of runs; names are edited in their place."""

    renamed = Signal(int, str)

    def __init__(self) -> None:
        super().__init__()
        self.acts: Callable[[], list[Act]] = list
        self._way: list[tuple[int, int]] = []  # keys and depths of the rows
        self.setAccessibleName(_("the runs"))
        self.setHeaderLabels([_(title) for title in TITLES])
        self.setUniformRowHeights(True)
        self.setAllColumnsShowFocus(True)
        self.setExpandsOnDoubleClick(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setItemDelegate(_Marked(self))
        self.header().setSectionsMovable(False)
        self.header().setStretchLastSection(False)
        self.header().setSectionResizeMode(TEXT, QHeaderView.ResizeMode.Stretch)
        self.itemChanged.connect(self._changed)
        self.itemDoubleClicked.connect(lambda *_given: self._act(0))

    def size_columns(self) -> None:
        line = self.fontMetrics().height()
        for column, wide in enumerate(WIDE):
            if wide:
                self.setColumnWidth(column, wide * line)

    @property
    def chosen(self) -> list[int]:
        """The keys of the runs that are selected; the current one is the last."""
        items, now = self.selectedItems(), self.currentItem()
        keys = [item.data(NAME, KEY) for item in items if item is not now]
        return [*keys, now.data(NAME, KEY)] if now in items else keys

    def draw(self, rows: tuple[TreeRow, ...], shown: int) -> None:
        """Write these rows; what was selected stays so, or else the run on screen."""
        before, way = self.chosen, [(row.key, row.depth) for row in rows]
        with QSignalBlocker(self):
            items = self._by_key() if way == self._way else self._items(rows)
            for row in rows:
                _write(items[row.key], row, bold=row.key == shown)
            if way != self._way:
                for key in [key for key in before if key in items] or [shown]:
                    if key in items:
                        items[key].setSelected(True)
                        keep = QItemSelectionModel.SelectionFlag.NoUpdate
                        self.setCurrentItem(items[key], NAME, keep)
        self._way = way
        self.viewport().update()

    def _items(self, rows: tuple[TreeRow, ...]) -> dict[int, QTreeWidgetItem]:
        """Put an item for each row in its place."""
        self.clear()
        items: dict[int, QTreeWidgetItem] = {}
        way: list[QTreeWidgetItem] = []  # from a root to the last row
        for row in rows:
            item = items[row.key] = QTreeWidgetItem()
            del way[row.depth :]
            if way:
                way[-1].addChild(item)
            else:
                self.addTopLevelItem(item)
            way.append(item)
            item.setData(NAME, KEY, row.key)
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
        self.expandAll()
        return items

    def _by_key(self) -> dict[int, QTreeWidgetItem]:
        every = QTreeWidgetItemIterator(self)
        items = {}
        while (item := every.value()) is not None:
            items[item.data(NAME, KEY)] = item
            every += 1
        return items

    def rename(self) -> None:
        """Edit the name of the current run."""
        item = self.currentItem()
        if item is not None:
            self.editItem(item, NAME)

    def _changed(self, item: QTreeWidgetItem, column: int) -> None:
        if column == NAME:
            self.renamed.emit(item.data(NAME, KEY), item.text(NAME))

    def _act(self, number: int) -> None:
        self.acts()[number][2]()

    def event(self, event: QEvent) -> bool:
        """Take the keys that select more before the window moves a cell by them."""
        if isinstance(event, QKeyEvent) and event.type() == _OVERRIDE:
            shift = event.modifiers() == Qt.KeyboardModifier.ShiftModifier
            if shift and event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Show, rename, pin or delete; Up and Down choose; others are the window's."""
        at = _KEYS.get(Qt.Key(event.key()))
        if self.state() == QAbstractItemView.State.EditingState:
            event.accept()  # it has ended a name
        elif at is not None and not event.modifiers():
            self._act(at)
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            super().keyPressEvent(event)
        else:
            event.ignore()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if self.itemAt(self.viewport().mapFromGlobal(event.globalPos())) is None:
            return
        menu = QMenu(self)
        _fill(menu, self.acts())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(event.globalPos())


def _write(item: QTreeWidgetItem, row: TreeRow, *, bold: bool) -> None:
    text = "".join(part.text for part in row.text)
    for column, words in enumerate((row.name, row.made, text, row.mean, row.signs)):
        if item.text(column) != words:
            item.setText(column, words)
            item.setToolTip(column, plain_tip(words))
    if item.data(TEXT, PARTS) != row.text:
        item.setData(TEXT, PARTS, row.text)
    item.setTextAlignment(
        MEAN, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
    )
    if item.font(NAME).bold() != bold:
        font = QFont()
        font.setBold(bold)
        item.setFont(NAME, font)


class _Marked(QStyledItemDelegate):
    """Paints translations with what differs; where one is cut, that stays in sight."""

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        parts: tuple[TextPart, ...] | None = index.data(PARTS)
        if not parts or not any(part.differs for part in parts):
            super().paint(painter, option, index)
            return
        shown, tree = QStyleOptionViewItem(option), self.parent()
        assert isinstance(tree, QTreeWidget)
        self.initStyleOption(shown, index)
        shown.text = ""
        style = tree.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, shown, painter, tree)
        where = QStyle.SubElement.SE_ItemViewItemText
        box = style.subElementRect(where, option, tree)
        edge = style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin) + 1
        box.adjust(edge, 0, -edge, 0)  # as Qt does
        ink = None
        if QStyle.StateFlag.State_Selected & option.state:
            ink = tree.palette().highlightedText().color()
        parts = in_sight(parts, box.width(), tree)
        paint_parts(painter, box, parts, tree, ink=ink)

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        """Leave room between the rows."""
        size = super().sizeHint(option, index)
        return QSize(size.width(), round(LINE * option.fontMetrics.height()))


def in_sight(
    parts: tuple[TextPart, ...], room: int, widget: QWidget
) -> tuple[TextPart, ...]:
    """Cut the beginning of a text where what differs would have no room."""
    metrics, first = widget.fontMetrics(), parts[0]
    if first.differs:
        return parts
    wide = sum(metrics.horizontalAdvance(part.text) for part in parts[1:])
    left = Qt.TextElideMode.ElideLeft
    text = metrics.elidedText(first.text, left, max(room - wide, room // 3))
    return (TextPart(text, differs=False), *parts[1:])


_OVERRIDE = QEvent.Type.ShortcutOverride
_KEYS = {  # the number of the act
    Qt.Key.Key_Return: 0,
    Qt.Key.Key_Enter: 0,
    Qt.Key.Key_F2: 1,
    Qt.Key.Key_P: 2,
    Qt.Key.Key_Delete: 3,
}
