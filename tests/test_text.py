from __future__ import annotations

import pytest

from visformer.text import clean, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I have a cat.", "I have a cat."),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ("我有一只猫", "我有一只猫"),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<s>", "<s>"),
        ("a\u202eb", "a[U+202E]b"),
        ("\x00", "[U+0000]"),
        ("e\u0301", "e\u0301"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("שלום", "שלום"),
    ],
)
def test_visible(text: str, expected: str) -> None:
    assert visible(text) == expected
