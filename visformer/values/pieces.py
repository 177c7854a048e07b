"""Pieces of words: which of them begin one, and how a person reads them.

Vocabularies mark a word's beginning or end in one of five ways. A piece that begins a
word and one that follows a token that stands alone begin a word. These stand alone:
special tokens, ``<unk>``, punctuation other than apostrophes and hyphens, line ends,
and pieces of scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer,
Burmese), whose words are not marked. A mark on its own joins the token that follows it.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import chain
from typing import Literal

from visformer.text import visible

# Of sentencepiece, GPT-2's bytes, WordPiece, subword-nmt, and BPE that marks ends;
# "": every token is a word.
WordMarks = Literal["▁", "Ġ", "##", "@@", "</w>", ""]
Groups = tuple[tuple[int, ...], ...]

SPACE: WordMarks = "▁"
LONE, LINE_END = "␣", "⏎"  # as a space and a line end of their own are written
HYPHEN = "‑"  # where a piece of a list goes on a word, or is gone on with
JOINERS = "'’-‐‑"  # inside words: "didn't", "well-known"
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_BYTES = re.compile("(?:<0x[0-9A-F]{2}>)+")
_PRINTED = (*range(33, 127), *range(161, 173), *range(174, 256))
# the byte that each character of a GPT-2 vocabulary stands for: its own code, or, of
# those from U+0100 on, the other bytes in order (openai/gpt-2, encoder.py)
BYTE_OF = {chr(byte): byte for byte in _PRINTED} | {
    chr(256 + at): byte
    for at, byte in enumerate(sorted(set(range(256)).difference(_PRINTED)))
}


@lru_cache(maxsize=64)
def marks_of(tokens: tuple[str, ...]) -> WordMarks:
    """Return how tokens of one vocabulary mark words; "" where none of them does."""
    if any(token.startswith(SPACE) for token in tokens):
        return SPACE
    if any(token[:1] in "ĠĊ" for token in tokens if token) and all(
        _is_special(token) or BYTE_OF.keys() >= set(token) for token in tokens
    ):
        return "Ġ"
    for token in tokens:
        if token[:2] == "##" and token[2:3] not in ("", "#"):
            return "##"
        if token.endswith("</w>") and token != "</w>":
            return "</w>"
        if token.endswith("@@") and token.strip("@"):
            return "@@"
    return ""


def begins_word(token: str, before: str, marks: WordMarks) -> bool:
    """Tell whether a piece is marked as a word's first; ``before``: "" for none."""
    if marks == "##":
        return not token.startswith("##")
    if marks == "@@":
        return not before.endswith("@@")
    if marks == "</w>":
        return not before or before.endswith("</w>")
    return token.startswith(marks)


def bare(token: str, marks: WordMarks = SPACE) -> str:
    """Return a piece without its mark; of an unknown piece, its text."""
    if token.startswith("<unk:"):
        return token.removeprefix("<unk:").removesuffix(">").removeprefix(SPACE)
    if marks in ("@@", "</w>"):
        return token.removesuffix(marks) or token
    return token.removeprefix(marks) or token * (marks == "##")


@lru_cache(maxsize=1024)
def plain(token: str, marks: WordMarks) -> str:
    """Return a token as a person reads it: without a mark; a lone space is "␣"."""
    if _is_special(token):
        return visible(token)
    text = _decoded(bare(token, marks), marks)
    read = text.lstrip(" ")
    spaces = len(text) - len(read) + (bool(token) and not read)
    return visible(LONE * spaces + read)


@lru_cache(maxsize=1024)
def listed(token: str, marks: WordMarks) -> str:
    """Return a token of a list: "‑x" goes on a word, "x‑" is gone on with.

    "␣" precedes punctuation and other pieces that are words of their own, so that
    no two tokens of a vocabulary look alike.
    """
    text = plain(token, marks)
    if not marks or _is_special(token) or text.startswith(LONE):
        return text
    if marks in ("@@", "</w>"):
        return text + HYPHEN * (token.endswith(marks) == (marks == "@@"))
    begins = begins_word(token, "", marks)
    if _stands_alone(token, marks) or is_punctuation(token, marks):
        return LONE * (begins and marks != "##") + text
    return text if begins else HYPHEN + text


@lru_cache(maxsize=1024)
def is_punctuation(token: str, marks: WordMarks = SPACE) -> bool:
    """Whether a piece is punctuation and nothing else (Unicode's P*)."""
    text = _decoded(bare(token, marks), marks)
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)


def word_groups(
    tokens: Sequence[str], special: Collection[int] = (), glued: Collection[int] = ()
) -> Groups:
    """Return the indices of each word's tokens, in order; each token once.

    ``special``: tokens that stand alone whatever they look like. ``glued``: tokens
    that begin no word although they are marked so. Both are indices.
    """
    marks = marks_of(tuple(tokens))
    if not marks:
        return tuple((index,) for index in range(len(tokens)))
    groups: list[list[int]] = []
    before = ""  # the token before, if its word may go on
    for index, token in enumerate(tokens):
        apart = index in special
        alone = apart or _stands_alone(token, marks)
        begins = index not in glued and begins_word(token, before, marks)
        goes_on = bool(before) and not alone and not begins
        if goes_on or (before == marks and not apart and not token.startswith(marks)):
            groups[-1].append(index)
        else:
            groups.append([index])
        before = "" if alone else token
    return tuple(tuple(group) for group in groups)


def joined(groups: Groups) -> frozenset[int]:
    """Return the tokens that go on the word of the token before them."""
    return frozenset(chain.from_iterable(group[1:] for group in groups))


def word_text(tokens: Sequence[str], marks: WordMarks) -> str:
    """Return a word's pieces joined without marks; a mark on its own is "␣"."""
    text = _decoded("".join(bare(token, marks) for token in tokens), marks)
    return visible(text) or LONE * bool(tokens)


def running_text(tokens: Sequence[str]) -> str:
    """Join tokens into text, with the spaces that their marks stand for."""
    marks = marks_of(tuple(tokens))
    if marks in (SPACE, "Ġ"):
        return _decoded("".join(tokens), marks).strip()
    groups = word_groups(tokens)
    return " ".join(word_text([tokens[at] for at in group], marks) for group in groups)


def _decoded(text: str, marks: WordMarks) -> str:
    """Return the characters that bytes stand for, and spaces for marks within."""
    if marks == "Ġ" and BYTE_OF.keys() >= set(text):
        return _characters(bytes(BYTE_OF[c] for c in text))
    if "<0x" in text:
        text = _BYTES.sub(_given_characters, text)
    return text.replace(SPACE, " ") if marks == SPACE else text


def _given_characters(found: re.Match[str]) -> str:
    return _characters(bytes.fromhex(re.sub("<0x|>", "", found[0])))


def _characters(data: bytes) -> str:
    """Return the text of UTF-8 bytes; of a part of a character, the bytes."""
    try:
        return data.decode().replace("\n", LINE_END)
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in data)


@lru_cache(maxsize=2048)
def _stands_alone(token: str, marks: WordMarks) -> bool:
    if _is_special(token) and not token.startswith("<unk:"):
        return True
    text = _decoded(bare(token, marks), marks)
    if is_punctuation(token, marks):
        return not all(character in JOINERS for character in text)
    return LINE_END in text or any(
        unicodedata.name(c, "").startswith(UNSPACED) for c in text
    )


def _is_special(token: str) -> bool:
    ends = token[:1] + token[-1:]
    return len(token) > 2 and ends in ("<>", "[]") and not _BYTES.fullmatch(token)
