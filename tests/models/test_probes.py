"""The judge of the probe sentences."""

from __future__ import annotations

import pytest

from tests.models import probes
from tests.models.probes import by_category, in_words, missing, probe
from tests.tiny_models import tiny_checkpoint


@pytest.mark.parametrize(
    ("text", "wanted", "right"),
    [
        ("Rendez-vous à 7\u00a0h\u00a030.", "7 h 30|7h30", True),
        ("Rendez-vous à 17 h 30.", "7 h 30|7h30", False),
        ("Ça coûte 1\u202f200 $.", "1 200 $", True),
        ("Ça coûte 11 200 $.", "1 200 $", False),
        ("En 19761.", "1976", False),
        ("En 1976.", "1976", True),
        ("Il y en a 36,5.", "36", False),
        ("Il y en a trente-six.", "36", True),
        ("Il y en a soixante et onze.", "71", True),
        ("Appelle le 06.78.12.60.87.", "06 78 12 60 87", True),
        ("Appelle le 06 78 12 60 86.", "06 78 12 60 87", False),
        ("L'ami de Zoe.", "Zoë", False),
        ("En 1976 ⁇.", "1976", False),
    ],
)
def test_what_counts_as_right(text: str, wanted: str, right: bool) -> None:
    assert (missing(text, [wanted], "fr") == ()) is right


def test_numbers_in_words() -> None:
    assert in_words(68, "en") == "sixty-eight"
    assert in_words(97, "fr") == "quatre-vingt-dix-sept"
    assert in_words(8, "fr") == "huit"


def test_a_checkpoint_is_scored_by_category(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ["Vu à 7 h 30.", *["rien"] * 99]
    monkeypatch.setattr(probes, "translate", lambda *_, **__: made)
    results = probe(tiny_checkpoint(), "en-fr")
    counts = by_category(results)
    assert len(counts) == 10
    assert counts["times"] == (1, 10)
    assert counts["sums"] == (0, 10)
    assert results[0].missing == ()
