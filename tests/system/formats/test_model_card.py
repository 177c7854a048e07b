"""What cards say of a training."""

from __future__ import annotations

from pathlib import Path

import pytest

from visformer.formats.layouts.native import label_smoothing
from visformer.paths import bundled_checkpoints


def test_the_bundled_cards_name_their_smoothing() -> None:
    found = {path.name: label_smoothing(path) for path in bundled_checkpoints()}
    assert found["tatoeba-en-fr"] == found["tatoeba-zh-en"] == 0.1
    assert found["reverse"] == 0.0


@pytest.mark.parametrize("card", [None, "", "smooth: exp", "smoothing 7", b"\xff" * 9])
def test_nothing_is_made_up(card: str | bytes | None, tmp_path: Path) -> None:
    if card is not None:
        data = card if isinstance(card, bytes) else card.encode()
        (tmp_path / "README.md").write_bytes(data)
    assert label_smoothing(tmp_path) is None
    assert label_smoothing(tmp_path / "weights.pt") is None
