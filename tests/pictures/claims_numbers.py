"""What sentences claim about norms, positions, lenses, NaN, ties and ranks."""

from __future__ import annotations

from tests.pictures.sweep import Claims, Reasons

CLAIMS: Claims = {}
NO_CLAIMS: Reasons = {}
