"""Pieces of words: how families of vocabularies mark them, and how they are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visformer.values.pieces import (
    WordMarks,
    joined,
    listed,
    marks_of,
    plain,
    word_groups,
    word_text,
)

SAID = ["did", "n", "'", "t", "<0xE7>", "<0x8C>", "<0xAB>"]
FAMILIES: dict[WordMarks, tuple[str, ...]] = {  # one sentence, as each of them has it
    "▁": ("▁the", "▁tra", "vers", "é", "▁cat", "."),
    "Ġ": ("the", "Ġtra", "vers", "Ã©", "Ġcat", "."),
    "##": ("the", "tra", "##vers", "##é", "cat", "."),
    "@@": ("the", "tra@@", "vers@@", "é", "cat", "."),
    "</w>": ("the</w>", "tra", "vers", "é</w>", "cat</w>", ".</w>"),
}


@pytest.mark.parametrize(("marks", "tokens"), FAMILIES.items())
def test_every_family_is_read_and_joined_alike(
    marks: WordMarks, tokens: tuple[str, ...]
) -> None:
    assert marks_of(tokens) == marks
    read = ["the", "tra", "vers", "é", "cat", "."]
    assert [plain(token, marks) for token in tokens] == read
    groups = word_groups(tokens)
    assert groups == ((0,), (1, 2, 3), (4,), (5,))
    assert joined(groups) == {2, 3}
    words = [word_text([tokens[at] for at in group], marks) for group in groups]
    assert words == ["the", "traversé", "cat", "."]


@pytest.mark.parametrize(
    ("token", "marks", "read", "in_a_list"),
    [
        ("▁elle", "▁", "elle", "elle"),
        ("elle", "▁", "elle", "‑elle"),
        ("▁", "▁", "␣", "␣"),
        ("▁▁", "▁", "␣␣", "␣␣"),
        (".", "▁", ".", "."),
        ("▁.", "▁", ".", "␣."),  # each token of a list differs from the others
        ("猫", "▁", "猫", "猫"),
        ("▁猫", "▁", "猫", "␣猫"),
        ("</s>", "▁", "</s>", "</s>"),
        ("<unk:猫>", "▁", "<unk:猫>", "<unk:猫>"),
        ("<0xE7>", "▁", "<0xE7>", "‑<0xE7>"),
        ("<0x0A>", "▁", "⏎", "⏎"),
        ("Ġelle", "Ġ", "elle", "elle"),
        ("elle", "Ġ", "elle", "‑elle"),
        ("Ġ", "Ġ", "␣", "␣"),
        ("Ċ", "Ġ", "⏎", "⏎"),
        ("ä¸Ń", "Ġ", "中", "中"),
        ("ä¸", "Ġ", "<0xE4><0xB8>", "‑<0xE4><0xB8>"),
        ("##elle", "##", "elle", "‑elle"),
        ("elle", "##", "elle", "elle"),
        ("[CLS]", "##", "[CLS]", "[CLS]"),
        ("elle@@", "@@", "elle", "elle‑"),
        ("elle", "@@", "elle", "elle"),
        ("elle", "</w>", "elle", "elle‑"),
        ("elle</w>", "</w>", "elle", "elle"),
        ("elle", "", "elle", "elle"),
        ("▁a\u202eb", "▁", "a[U+202E]b", "a[U+202E]b"),
    ],
)
def test_a_token_is_read_without_its_mark(
    token: str, marks: WordMarks, read: str, in_a_list: str
) -> None:
    assert plain(token, marks) == read
    assert listed(token, marks) == in_a_list


def test_a_character_in_bytes_is_one_word() -> None:
    pieces = ("▁a", "▁", "<0xE7>", "<0x8C>", "<0xAB>")
    groups = word_groups(pieces)
    assert groups == ((0,), (1, 2, 3, 4))
    assert word_text(pieces[1:], "▁") == "猫"
    pieces = ("Ġa", "Ġ", "ç", "Į", "«")
    assert marks_of(pieces) == "Ġ"
    assert word_text(pieces[1:], "Ġ") == "猫"


@pytest.mark.parametrize(
    "tokens",
    [
        ("Ġgantija", "hija", "belt", "ż"),  # Maltese: ż is no byte of GPT-2's
        ("##", "###", "heading"),
        ("a", "@@"),
        ("<s>", "3", "7", "</s>"),
    ],
)
def test_what_only_looks_like_a_mark_is_text(tokens: tuple[str, ...]) -> None:
    assert marks_of(tokens) == ""
    assert [plain(token, "") for token in tokens] == list(tokens)
    assert joined(word_groups(tokens)) == set()


WORDS = st.lists(st.text("abcdé", min_size=1, max_size=7), min_size=1, max_size=6)


@given(WORDS, st.integers(1, 3), st.sampled_from(["▁", "##", "@@", "</w>"]))
def test_words_cut_anywhere_are_found_again(
    words: list[str], size: int, marks: WordMarks
) -> None:
    tokens: list[str] = []
    for word in words:
        cut = [word[at : at + size] for at in range(0, len(word), size)]
        if marks == "▁":
            cut[0] = "▁" + cut[0]
        elif marks == "##":
            cut[1:] = ["##" + piece for piece in cut[1:]]
        elif marks == "@@":
            cut[:-1] = [piece + "@@" for piece in cut[:-1]]
        else:
            cut[-1] += "</w>"
        tokens += cut
    groups = word_groups(tokens)
    how = marks_of(tuple(tokens))  # "" where no word has two pieces, and none is marked
    assert [word_text([tokens[at] for at in g], how) for g in groups] == words


@given(st.text(max_size=6), st.sampled_from([*FAMILIES, ""]))
def test_any_text_is_a_token(token: str, marks: WordMarks) -> None:
    assert bool(plain(token, marks)) == bool(token) or token == marks
    assert listed(token, marks).strip("‑␣") in plain(token, marks)
