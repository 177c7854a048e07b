"""What an export copies, as text."""

from __future__ import annotations

from tests.window.parts import unwrap
from visformer.pictures.picture import csv_text
from visformer.ui.widgets.export import Export


def csv_of(export: Export) -> str:
    """Return the numbers as CSV; they must be there."""
    return csv_text(unwrap(export.table()))
