"""Sides of tokenizers that come with other programs' models: numbers, words, Marian."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import sentencepiece

from visformer.errors import CheckpointError, InputError
from visformer.files import read_json, read_regular, refuse_foreign, short
from visformer.text import clean
from visformer.tokenizers.tokenizer import (
    MAX_TOKENIZER,
    MAX_VOCABULARY,
    SentencePieceSide,
    Token,
    TokenizerSide,
    VocabularySide,
)

UNKNOWN = ("<unk>", "[UNK]", "<UNK>", "<unknown>")
_CODE = re.compile(r"\s*(>>[^<>\s]+<<)\s*")  # a multilingual Marian's target language


class NumberSide:
    """Ids typed and shown as numbers, for a model whose vocabulary is not known."""

    kind: ClassVar[str] = "number"

    def __init__(self, size: int) -> None:
        self.size = size
        self.unknown = -1  # there is none: a wrong number is refused

    def encode(self, text: str) -> list[Token]:
        """Read numbers separated by blanks; InputError for anything else."""
        return [self._token(match) for match in re.finditer(r"\S+", clean(text))]

    def _token(self, match: re.Match[str]) -> Token:
        word = match[0]
        if not (word.isascii() and word.isdigit() and len(word) < 8):
            id = self.size
        else:
            id = int(word)
        if id >= self.size:
            raise InputError(
                f"“{short(word)}” is no token of this model, which has no vocabulary: "
                f"type ids from 0 to {self.size - 1}, separated by blanks."
            )
        return Token(id, str(id), match.start(), match.end())

    def decode(self, ids: Sequence[int]) -> str:
        """Write ids as numbers."""
        return " ".join(map(str, ids))

    def token(self, id: int) -> str:
        """Return the number itself."""
        return str(id)


class WordSide:
    """A ``vocab.json`` of words, token -> id; the text is cut at blanks."""

    kind: ClassVar[str] = "word"

    def __init__(self, ids: Mapping[str, int], size: int) -> None:
        self.size = max(size, max(ids.values()) + 1)
        self.unknown = next((ids[token] for token in UNKNOWN if token in ids), -1)
        self._ids = dict(ids)
        self._tokens = [f"<{id}>" for id in range(self.size)]
        for token, id in ids.items():
            self._tokens[id] = token

    def encode(self, text: str) -> list[Token]:
        """Cut at blanks; InputError for an unknown word where nothing stands for it."""
        pieces = []
        for match in re.finditer(r"\S+", clean(text)):
            word, id = match[0], self._ids.get(match[0], self.unknown)
            if id < 0:
                raise InputError(
                    f"“{short(word)}” is not in the vocabulary, which has no token "
                    "for unknown words."
                )
            token = f"<unk:{word}>" if word not in self._ids else word
            pieces.append(Token(id, token, match.start(), match.end()))
        return pieces

    def decode(self, ids: Sequence[int]) -> str:
        """Join words by blanks."""
        return " ".join(self._tokens[id] for id in ids)

    def token(self, id: int) -> str:
        """Return the token with this id, 0 <= id < size."""
        return self._tokens[id]


class MarianSide:
    """A Marian side: pieces of a sentencepiece model, ids of a ``vocab.json``."""

    kind: ClassVar[str] = "marian"

    def __init__(self, model: bytes, ids: Mapping[str, int], name: str) -> None:
        SentencePieceSide(model, name)  # checks it
        self._pieces = sentencepiece.SentencePieceProcessor()
        self._pieces.LoadFromSerializedProto(model)
        self.size = max(ids.values()) + 1
        self.unknown = ids["<unk>"]
        self._ids = dict(ids)
        self._tokens = [f"<{id}>" for id in range(self.size)]
        for token, id in ids.items():
            self._tokens[id] = token

    def encode(self, text: str) -> list[Token]:
        """Cut ``text`` into pieces; a language code such as >>fra<< in front is one."""
        text = clean(text)
        code = _CODE.match(text)
        if code is None or code[1] not in self._ids:
            return self._cut(text, 0)
        first = Token(self._ids[code[1]], code[1], code.start(1), code.end(1))
        return [first, *self._cut(text[code.end() :], code.end())]

    def _cut(self, text: str, start: int) -> list[Token]:
        cut = self._pieces.encode(text, return_type="offset_mapping")
        unknown = self._pieces.unk_id()
        pieces = []
        for inner, (begin, end) in zip(cut["ids"], cut["offsets"], strict=True):
            token = self._pieces.id_to_piece(inner)
            token = text[begin:end] if inner == unknown else token
            id = self._ids.get(token, self.unknown)
            shown = f"<unk:{text[begin:end]}>" if id == self.unknown else token
            pieces.append(Token(id, shown, start + begin, start + end))
        return pieces

    def decode(self, ids: Sequence[int]) -> str:
        """Join tokens into text."""
        text: str = self._pieces.decode_pieces([self._tokens[id] for id in ids])
        return text.replace("▁", " ").strip()

    def token(self, id: int) -> str:
        """Return the token with this id, 0 <= id < size."""
        return self._tokens[id]


def read_ids(path: Path) -> dict[str, int]:
    """Read a ``vocab.json``, token -> id; CheckpointError where it is none."""
    ids, name = read_json(path, MAX_TOKENIZER), short(path.name)
    valid = all(type(id) is int and 0 <= id < MAX_VOCABULARY for id in ids.values())
    if not ids or not valid or len(set(ids.values())) < len(ids):
        raise CheckpointError(
            f"{name} must be one JSON object that gives each token an id of its own."
        )
    return ids


def read_marian(pieces: Path, vocabulary: Path) -> MarianSide:
    """Read one side of a Marian tokenizer; CheckpointError where it is none."""
    ids = read_ids(vocabulary)
    if "<unk>" not in ids:
        raise CheckpointError(
            f"{short(vocabulary.name)} has no token <unk>: copy it again."
        )
    data = read_regular(pieces, MAX_TOKENIZER)
    refuse_foreign(data[:512], short(pieces.name))
    return MarianSide(data, ids, short(pieces.name))


def open_side(path: Path, rows: int) -> TokenizerSide:
    """Open one side of a tokenizer for an embedding of ``rows`` rows.

    A ``.json`` is a vocabulary: of characters where it has nothing longer and an
    ``<unk>``, of words otherwise. Any other file is a sentencepiece model.
    """
    side: TokenizerSide
    if path.suffix == ".json":
        ids = read_ids(path)
        letters = all(len(t) == 1 or t.startswith("<") for t in ids) and "<unk>" in ids
        side = VocabularySide(ids, ids["<unk>"]) if letters else WordSide(ids, rows)
    else:
        data = read_regular(path, MAX_TOKENIZER)
        refuse_foreign(data[:512], short(path.name))
        side = SentencePieceSide(data, short(path.name))
    if side.size != rows:
        raise CheckpointError(
            f"{short(path.name)} has {side.size:,} tokens and the model's embedding "
            f"{rows:,} rows: they belong to different models."
        )
    return side


def special_ids(side: TokenizerSide) -> dict[str, int]:
    """Return the ids of the special tokens that a side names as others do."""
    spellings = {
        "pad": ("<pad>", "[PAD]", "<blank>"),
        "bos": ("<s>", "<sos>", "<bos>", "<begin>", "<start>", "[cls]"),
        "eos": ("</s>", "<eos>", "<end>", "[sep]"),
    }
    ids = {side.token(id).lower(): id for id in reversed(range(side.size))}
    known = {
        name: next((ids[t.lower()] for t in tokens if t.lower() in ids), None)
        for name, tokens in spellings.items()
    }
    return {name: id for name, id in known.items() if id is not None}
