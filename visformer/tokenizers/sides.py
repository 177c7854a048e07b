"""Tokenizer sides for other programs' models: numbers, words, Marian."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import sentencepiece

from visformer.errors import InputError
from visformer.files import refuse_foreign, short
from visformer.text import without_controls
from visformer.tokenizers.tokenizer import (
    ListedSide,
    SentencePieceSide,
    Token,
    TokenizerSide,
    read_ids,
    read_tokenizer,
)

UNKNOWN = ("<unk>", "[UNK]", "<UNK>", "<unknown>", "UNK")
_CODE = re.compile(r"\s*(>>[^<>\s]+<<)\s*")  # a multilingual Marian's target language


class NumberSide:
    """Ids typed and shown as numbers, for a model whose vocabulary is unknown."""

    kind: ClassVar[str] = "number"

    def __init__(self, size: int) -> None:
        self.size = size
        self.unknown = -1  # none: a wrong number is refused

    def encode(self, text: str) -> list[Token]:
        """Read numbers separated by spaces; InputError for anything else."""
        text = without_controls(text)
        return [self._token(match) for match in re.finditer(r"\S+", text)]

    def _token(self, match: re.Match[str]) -> Token:
        word = match[0]
        known = word.isascii() and word.isdigit() and len(word) < 8
        id = int(word) if known else self.size
        if id >= self.size:
            raise InputError(
                "“{word}” is not a token: this model has no vocabulary. Type ids "
                "from 0 to {high:,}, separated by spaces.",
                word=short(word),
                high=self.size - 1,
            )
        return Token(id, str(id), match.start(), match.end())

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def token(self, id: int) -> str:
        return str(id)


class WordSide(ListedSide):
    """A ``vocab.json`` of words, token -> id; the text is split at white space."""

    kind: ClassVar[str] = "word"

    def __init__(self, ids: Mapping[str, int], size: int) -> None:
        self._list(ids, size)
        self.known = max(ids.values()) + 1
        self.unknown = next((ids[token] for token in UNKNOWN if token in ids), -1)

    def encode(self, text: str) -> list[Token]:
        """Split at white space; InputError for unknown words if there is no <unk>."""
        pieces = []
        for match in re.finditer(r"\S+", without_controls(text)):
            word, id = match[0], self._ids.get(match[0], self.unknown)
            if id < 0:
                raise InputError(
                    "“{word}” is not in the vocabulary, which has no token for "
                    "unknown words. Use other words.",
                    word=short(word),
                )
            token = f"<unk:{word}>" if word not in self._ids else word
            pieces.append(Token(id, token, match.start(), match.end()))
        return pieces

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._tokens[id] for id in ids)


class MarianSide(ListedSide):
    """A Marian side: pieces of a sentencepiece model, ids of a ``vocab.json``."""

    kind: ClassVar[str] = "marian"

    def __init__(self, model: bytes, ids: Mapping[str, int], name: str) -> None:
        SentencePieceSide(model, name)  # checks it
        self._pieces = sentencepiece.SentencePieceProcessor()
        self._pieces.LoadFromSerializedProto(model)
        self._list(ids)
        self.unknown = ids["<unk>"]

    def encode(self, text: str) -> list[Token]:
        """Split ``text`` into pieces; a leading language code like >>fra<< is one."""
        text = without_controls(text)
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
        text: str = self._pieces.decode_pieces([self._tokens[id] for id in ids])
        return text.replace("▁", " ").strip()


def read_marian(pieces: Path, vocabulary: Path) -> MarianSide:
    """Read one side of a Marian tokenizer; CheckpointError if it is not valid."""
    ids = read_ids(vocabulary)
    data = read_tokenizer(pieces)
    refuse_foreign(data[:512], short(pieces.name))
    return MarianSide(data, ids, short(pieces.name))


def special_ids(side: TokenizerSide) -> dict[str, int]:
    """Return the ids of the special tokens that have one of the usual names."""
    spellings = {
        "pad": ("<pad>", "[pad]", "<blank>", "PAD", "PAD_TOKEN"),
        "bos": (
            *("<s>", "<sos>", "<bos>", "<begin>", "<start>", "[cls]", "[bos]", "[sos]"),
            *("SOS", "BOS", "SOS_TOKEN", "BOS_TOKEN"),
        ),
        "eos": ("</s>", "<eos>", "<end>", "[sep]", "[eos]", "EOS", "EOS_TOKEN"),
    }
    tokens = {id: side.token(id) for id in reversed(range(side.size))}
    ids = {
        token.lower() if token[:1] in "<[" else token: i for i, token in tokens.items()
    }
    known = {
        name: next((ids[token] for token in usual if token in ids), None)
        for name, usual in spellings.items()
    }
    return {name: id for name, id in known.items() if id is not None}
