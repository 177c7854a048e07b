"""What an export copies, as text."""

from __future__ import annotations

from visformer.pictures.picture import csv_text
from visformer.ui.widgets.export import Export


def csv_of(export: Export) -> str:
    """Return the numbers as CSV; they must be there."""
    table = export.table()
    assert table is not None
    return csv_text(table)
