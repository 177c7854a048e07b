"""The look of buttons, fields, tabs and bars, whatever the theme and the text's size.

Colours are the palette's and distances are in heights of a line (em), so the sheet is
put on once: another one would dress every widget anew, hidden ones too. Only arrows are
pictures of one colour; a window says by its property ``theme`` which ones it needs.
"""

from __future__ import annotations

from collections.abc import Iterable

from visformer import paths

THEME = "theme"  # the property
FIELDS = "QLineEdit, QComboBox, QAbstractSpinBox, QPlainTextEdit"
SHEET = """
{fields} {{
    background: palette(base); border: 1px solid palette(mid);
    border-radius: 0.24em; padding: 0.1em 0.32em;
    selection-background-color: palette(highlight);
    selection-color: palette(highlighted-text);
}}
QPushButton {{
    background: palette(button); border: 1px solid palette(mid);
    border-radius: 0.24em; padding: 0.1em 0.58em;
}}
QToolButton {{
    background: transparent; border: 1px solid transparent;
    border-radius: 0.24em; padding: 0.1em;
}}
TokenStrip > QToolButton {{ background: palette(window); }}
QPushButton:hover, QToolButton:hover, QComboBox:hover {{
    border-color: palette(placeholder-text);
}}
QPushButton:pressed, QToolButton:pressed, QToolButton:checked {{
    background: palette(midlight); border-color: palette(placeholder-text);
}}
QLineEdit:focus, QComboBox:focus, QAbstractSpinBox:focus, QPushButton:focus,
QToolButton:focus, QPlainTextEdit:focus {{ border-color: palette(highlight); }}
QPushButton::menu-indicator, QComboBox::down-arrow {{ width: 0.5em; height: 0.5em; }}
QPushButton::menu-indicator {{
    subcontrol-origin: padding; subcontrol-position: right center; right: 0.1em;
}}
QToolButton::menu-indicator {{ image: none; width: 0; }}
QCheckBox::indicator {{
    background: palette(base); border: 1px solid palette(placeholder-text);
    border-radius: 0.16em; width: 0.8em; height: 0.8em;
}}
QCheckBox:focus {{ color: palette(highlight); }}
QComboBox {{ padding-right: 1em; }}
QComboBox::drop-down {{
    subcontrol-origin: padding; subcontrol-position: right center;
    width: 1em; border: none;
}}
QAbstractSpinBox {{ padding: 0.1em 1em 0.1em 0.32em; }}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{
    subcontrol-origin: border; width: 1em; border: none; background: transparent;
}}
QAbstractSpinBox::up-button {{ subcontrol-position: top right; }}
QAbstractSpinBox::down-button {{ subcontrol-position: bottom right; }}
QAbstractSpinBox::up-arrow, QAbstractSpinBox::down-arrow {{
    width: 0.5em; height: 0.5em;
}}
QTabBar::tab {{
    background: transparent; color: palette(placeholder-text); border: none;
    border-bottom: 0.12em solid transparent; padding: 0.1em 0.58em;
}}
QTabBar::tab:selected {{
    color: palette(text); border-bottom-color: palette(highlight);
}}
QTabBar::tab:hover {{ color: palette(text); }}
QTabBar::tab:focus {{ color: palette(highlight); }}
QMenu {{
    background: palette(base); color: palette(text); border: 1px solid palette(mid);
}}
QMenu::item {{ padding: 0.32em 1.57em; }}
QMenu::item:selected {{
    background: palette(highlight); color: palette(highlighted-text);
}}
QMenu::item:disabled {{ color: palette(link-visited); }}
QMenu::right-arrow {{ width: 0.5em; height: 0.5em; right: 0.32em; }}
QMenu::separator {{ height: 1px; background: palette(mid); margin: 0.1em 0; }}
QMenu::indicator {{ width: 0.5em; height: 0.5em; left: 0.32em; }}
QToolTip {{
    background: palette(button); color: palette(text);
    border: 1px solid palette(mid); padding: 0.1em;
}}
QSplitter::handle {{ background: transparent; }}
QSplitter::handle:hover {{ background: palette(mid); }}
QSplitter::handle:horizontal {{ width: 0.32em; }}
QSplitter::handle:vertical {{ height: 0.32em; }}
QScrollBar {{ background: transparent; }}
QScrollBar:vertical {{ width: 0.57em; margin: 0; }}
QScrollBar:horizontal {{ height: 0.57em; margin: 0; }}
QScrollBar::handle {{
    background: palette(mid); border-radius: 0.28em;
    min-height: 1.57em; min-width: 1.57em;
}}
QScrollBar::handle:hover {{ background: palette(placeholder-text); }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QStatusBar::item {{ border: none; }}
KeyCap {{
    background: palette(button); border: 1px solid palette(mid);
    border-radius: 0.24em; padding: 0 0.32em;
}}
Drawer, MessageStack {{
    background: palette(button); border: 1px solid palette(mid);
    border-radius: 0.24em;
}}
MessageStack {{ border-color: palette(placeholder-text); }}
"""
ARROWS = """
{of} QPushButton::menu-indicator, {of} QComboBox::down-arrow,
{of} QToolButton::down-arrow, {of} QAbstractSpinBox::down-arrow {{
    image: url("{down}");
}}
{of} QToolButton::up-arrow, {of} QAbstractSpinBox::up-arrow {{ image: url("{up}"); }}
{of} QToolButton::right-arrow, {of} QMenu::right-arrow {{ image: url("{right}"); }}
{of} QMenu::indicator:checked, {of} QCheckBox::indicator:checked {{
    image: url("{check}");
}}
{of} QFileDialog {{
    backward-icon: url("{left}"); forward-icon: url("{right}");
    filedialog-parent-directory-icon: url("{up}");
}}
"""
SHAPES = "down", "up", "left", "right", "check"


def style_sheet(themes: Iterable[str]) -> str:
    """Return the sheet; windows that name no theme have the first one's arrows."""
    sheet = SHEET.format(fields=FIELDS)
    for number, name in enumerate(themes):
        files = {shape: _arrow(name, shape) for shape in SHAPES}
        sheet += ARROWS.format(of=f'[{THEME}="{name}"]' if number else "", **files)
    return sheet


def _arrow(name: str, shape: str) -> str:
    return paths.resource("arrows").joinpath(f"{name}-{shape}.svg").as_posix()
