from __future__ import annotations

import pytest

from visformer.text import clean, visible, without_controls


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


def test_controls_of_a_sentence_are_spaces_but_for_tabs_and_newlines() -> None:
    controls = [*range(0x20), *range(0x7F, 0xA0)]
    for code in controls:
        kept = chr(code) if chr(code) in "\t\n" else " "
        assert without_controls(f"a{chr(code)}b") == f"a{kept}b"
    assert without_controls("a\ud800\u202eשל👩\u200d🚀") == "a\ufffd\u202eשל👩\u200d🚀"


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
