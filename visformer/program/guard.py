"""Guard: no exception leaves a method that Qt calls, or keeps others from drawing.

Shiboken (up to 6.11.3 at least) keeps an exception that leaves an overridden method
until the program is back in Python; the next override that Qt calls on the way loses a
reference to its function. After a few of them the function is freed while its class
still has it, and the process ends with SIGSEGV. So every override of ours is contained:
its exception goes to ``sys.excepthook`` at once, and Qt gets an answer that does no
harm.
"""

import functools
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any
from weakref import WeakSet

from PySide6.QtCore import QObject, QSize

from visformer.errors import VisformerError

ROOM = "visformer."
_contained_classes = WeakSet[type]()
ANSWERS: dict[str, Callable[[], object]] = {  # of overrides that return something
    "event": bool,
    "eventFilter": bool,
    "sizeHint": QSize,
    "minimumSizeHint": QSize,
    "rowCount": int,
    "columnCount": int,
}


def contain_overrides() -> None:
    """Contain every override of Qt's methods in the classes of this program.

    May be called again, after imports: only classes that are new are looked at.
    """
    new = _subclasses(QObject).difference(_contained_classes)
    _contained_classes.update(new)
    for kind in new:
        bases = [vars(base) for base in kind.__mro__[1:] if _is_qts(base)]
        for part in kind.__mro__:  # a mixin overrides only what its heirs have from Qt
            if part.__module__.startswith(ROOM):
                _contain(part, bases)


def _is_qts(kind: type) -> bool:
    return kind.__module__.startswith("PySide6.")


def separately(actions: Iterable[Callable[[], object]]) -> str:
    """Do all of these: an unexpected exception of one is reported, and the next done.

    A sentence that is meant for the user ends it, and is returned.
    """
    for action in actions:
        try:
            action()
        except VisformerError as error:
            return str(error)
        except Exception:
            _report()
    return ""


def _nothing() -> None:
    return None


def _contained(
    method: Callable[..., object], answer: Callable[[], object]
) -> Callable[..., object]:
    @functools.wraps(method)
    def override(*given: Any) -> object:
        try:
            return method(*given)
        except Exception:
            _report()
            return answer()

    return override


def _report() -> None:
    """Hand the exception to the program's hook; what its frames hold is let go.

    A QPainter that lived on would paint on a widget after its paint event.
    """
    kind, error, trace = sys.exc_info()
    if kind is not None and error is not None:
        sys.excepthook(kind, error, trace)
        traceback.clear_frames(trace)


def _subclasses(kind: type) -> set[type]:
    found: set[type] = set()
    waiting = [kind]
    while waiting:
        new: set[type] = {*type.__subclasses__(waiting.pop())} - found
        found |= new
        waiting.extend(new)
    return found


def _contain(kind: type, bases: Iterable[Mapping[str, object]]) -> None:
    for name, method in list(vars(kind).items()):
        is_new = isinstance(method, FunctionType) and not hasattr(method, "__wrapped__")
        # a lookup for each method of ours: Qt's classes have thousands of names
        if is_new and name[:2] != "__" and any(name in base for base in bases):
            setattr(kind, name, _contained(method, ANSWERS.get(name, _nothing)))
