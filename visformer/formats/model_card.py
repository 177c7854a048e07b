"""What a checkpoint's card says of its training that its weights do not."""

from __future__ import annotations

import re
from pathlib import Path

from visformer.errors import VisformerError
from visformer.files import read_regular
from visformer.formats.layouts.native import CARD

MOST_BYTES = 1 << 18
_SMOOTHING = re.compile(r"\b(?:label )?smoothing[ =:]{1,3}(0(?:\.\d{1,6})?)\b")


def label_smoothing(checkpoint: Path) -> float | None:
    """Return the share of label smoothing in training; None where no card names it."""
    try:
        text = read_regular(checkpoint / CARD, MOST_BYTES).decode("utf-8", "replace")
    except VisformerError:
        return None
    found = _SMOOTHING.search(text)
    return float(found[1]) if found else None
