"""Changed: what the parts of a view show, so that only changed parts are drawn."""

import numpy as np


class Changed:
    """Remembers what each part was last drawn from.

    What is remembered is kept alive, so that nothing else can take its identity.
    Arrays are compared by identity, as Traces are: no number is read.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[object, ...]] = {}

    def __call__(self, part: str, *needs: object) -> bool:
        """Tell whether a part must be drawn: it is new, or made from other things."""
        last = self._last.get(part)
        self._last[part] = needs
        return (
            last is None or len(last) != len(needs) or not all(map(_same, last, needs))
        )

    def forget(self, *parts: str) -> None:
        """Draw these parts again in any case; without arguments, all parts."""
        for part in parts or tuple(self._last):
            self._last.pop(part, None)


def _same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return one is other
    return one == other
