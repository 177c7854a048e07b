"""Text to token ids and back: sentencepiece models and plain vocabularies.

A tokenizer has two sides, which may be the same object: one reads the source, the other
writes the target. Spans refer to the text that ``visformer.text.clean`` returns.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import sentencepiece

from visformer.errors import CheckpointError, InputError
from visformer.files import listed, read_json, read_regular, refuse_foreign, short
from visformer.text import without_controls
from visformer.values.facts import SentenceSide

MAX_PIECE_BYTES = 1024
MAX_TOKENIZER = 64 << 20  # bytes
MAX_VOCABULARY = 1_000_000
_MOST_PARTS = 4 * MAX_VOCABULARY  # of its file: tokens, merges, fields


class Token(NamedTuple):
    """One token of a text."""

    id: int
    token: str  # as shown; an unknown character is included: "<unk:猫>"
    start: int  # span of the input text, in characters
    end: int


def read_tokenizer(path: Path) -> bytes:
    """Return what a file of a tokenizer holds.

    Raises CheckpointError where it is too large, or would make more small objects than
    any vocabulary: these take a hundred times the memory of their letters.
    """
    data = read_regular(path, MAX_TOKENIZER)
    if max(data.count(b"\n"), data.count(b",")) > _MOST_PARTS:
        raise CheckpointError(
            "{file} has more than {most:,} lines or entries, which no vocabulary "
            "has. Choose another file.",
            file=short(path.name),
            most=_MOST_PARTS,
        )
    return data


class TokenizerSide(Protocol):
    """One side of a tokenizer."""

    kind: ClassVar[str]  # one word for the kind of vocabulary
    size: int  # ids are below it
    unknown: int  # id of the unknown token; -1 for none

    def encode(self, text: str) -> list[Token]:
        """Split ``text`` into pieces, without special tokens."""

    def decode(self, ids: Sequence[int]) -> str:
        """Join tokens into text."""

    def token(self, id: int) -> str:
        """Return the token with this id, 0 <= id < size."""


class ListedSide:
    """A side that keeps a list of its tokens."""

    size: int
    unknown: int
    _ids: dict[str, int]
    _tokens: list[str]  # by id

    def _list(self, ids: Mapping[str, int], size: int = 0) -> None:
        """Take token -> id; an id without a token is written ``<id>``."""
        self.size = max(size, max(ids.values()) + 1)
        self._ids = dict(ids)
        self._tokens = [f"<{id}>" for id in range(self.size)]
        for token, id in ids.items():
            self._tokens[id] = token

    def token(self, id: int) -> str:
        return self._tokens[id]


class SentencePieceSide(ListedSide):
    """A sentencepiece model (``*.model``, ``*.spm``; google/sentencepiece)."""

    kind: ClassVar[str] = "sentencepiece"

    def __init__(self, model: bytes, name: str) -> None:
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
            self.size = self._processor.get_piece_size()
            self.unknown = self._processor.unk_id()
            self._tokens = [self._processor.id_to_piece(i) for i in range(self.size)]
        except (RuntimeError, UnicodeDecodeError, SystemError) as error:
            raise CheckpointError(
                "{file} is not a readable sentencepiece model. Choose the .model "
                "file that sentencepiece wrote.",
                file=name,
            ) from error
        longest = max((len(token.encode()) for token in self._tokens), default=0)
        if longest > MAX_PIECE_BYTES:
            raise CheckpointError(
                "{file} holds a piece of {n:,} bytes, but the limit is {most:,}. "
                "Choose another tokenizer.",
                file=name,
                n=longest,
                most=MAX_PIECE_BYTES,
            )
        self._bytes = {
            id: int(token[1:-1], 16)
            for id, token in enumerate(self._tokens)
            if self._processor.is_byte(id)
        }

    def encode(self, text: str) -> list[Token]:
        """Split ``text`` into pieces, without special tokens.

        A character without a piece becomes its UTF-8 bytes if the model has them:
        ``<0xE7>`` and so on, each with the span of the whole character.
        """
        text = without_controls(text)
        encoded = self._processor.encode(text, return_type="offset_mapping")
        ids = encoded["ids"]
        spans = self._spans(ids, encoded["offsets"], text)
        return [
            self._shown(id, start, end, text)
            for id, (start, end) in zip(ids, spans, strict=True)
        ]

    def _spans(
        self, ids: list[int], spans: list[tuple[int, int]], text: str
    ) -> list[tuple[int, int]]:
        """Give an apostrophe its own character, and each byte its whole character.

        If the normaliser inserts a space after an apostrophe, sentencepiece gives the
        span to the space; of the bytes of a character, only the last has its span.
        """
        spans = list(spans)
        for at in reversed(range(len(spans) - 1)):
            both = ids[at] in self._bytes and ids[at + 1] in self._bytes
            if both and spans[at] == (spans[at + 1][0],) * 2:
                spans[at] = spans[at + 1]
        for at, (start, end) in enumerate(spans[:-1]):
            quote = self._tokens[ids[at]].endswith("'") and text[start:][:1] in "'’"
            if start == end and quote and spans[at + 1][1] > start:
                spans[at] = start, start + 1
                spans[at + 1] = start + 1, spans[at + 1][1]
        return spans

    def _shown(self, id: int, start: int, end: int, text: str) -> Token:
        token = self._tokens[id]
        if id == self.unknown:
            # if a character becomes several, only the last one has a span
            token = f"<unk:{text[start:end]}>" if end > start else "<unk>"
        return Token(id, token, start, end)

    def sample(self, text: str, alpha: float) -> list[int]:
        """Split ``text`` at random (subword regularisation, Kudo 2018) -> ids."""
        ids: list[int] = self._processor.encode(
            text, out_type=int, enable_sampling=True, alpha=alpha, nbest_size=-1
        )
        return ids

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Split many texts at once -> ids per text."""
        rows: list[list[int]] = self._processor.encode(texts, out_type=int)
        return rows

    def decode(self, ids: Sequence[int]) -> str:
        """Join tokens into text; bytes of incomplete characters are left out."""
        text: str = self._processor.decode(self._whole_characters(ids))
        return text

    def _whole_characters(self, ids: Sequence[int]) -> list[int]:
        """Leave out bytes that do not form a complete character."""
        kept: list[int] = []
        for is_byte, group in itertools.groupby(ids, self._bytes.__contains__):
            run = list(group)
            kept += _valid_utf8(run, self._bytes) if is_byte else run
        return kept


def _valid_utf8(ids: list[int], values: Mapping[int, int]) -> list[int]:
    """Keep the ids whose bytes, ``values`` by id, form complete characters."""
    kept: list[int] = []
    while ids:
        for length in range(1, 5):
            try:
                bytes(values[id] for id in ids[:length]).decode()
            except UnicodeDecodeError:
                continue
            kept += ids[:length]
            break
        else:
            length = 1  # this byte does not start a character
        ids = ids[length:]
    return kept


class VocabularySide(ListedSide):
    """A ``vocab.json``: one object, token -> id; the text is split into characters.

    Tokens in angle brackets are special: they never match typed text.
    """

    kind: ClassVar[str] = "vocabulary"

    def __init__(self, ids: dict[str, int], unknown: int) -> None:
        self._list(ids)
        self.unknown = unknown
        self._typed = {t: i for t, i in ids.items() if not t.startswith("<")}

    def encode(self, text: str) -> list[Token]:
        """Split ``text`` into characters, dropping white space."""
        return [
            Token(self._typed[c], c, i, i + 1)
            if c in self._typed
            else Token(self.unknown, f"<unk:{c}>", i, i + 1)
            for i, c in enumerate(without_controls(text))
            if not c.isspace()
        ]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._tokens[i] for i in ids)


class Tokenizer:
    """A source side, a target side and the special ids of a checkpoint.

    ``source_pad`` is the source's pad id if it differs from the target's;
    ``ends_source`` says whether the encoder is given an end-of-sentence token.
    """

    def __init__(
        self,
        source: TokenizerSide,
        target: TokenizerSide,
        *,
        pad: int,
        bos: int,
        eos: int,
        source_pad: int | None = None,
        ends_source: bool = True,
    ) -> None:
        self.source, self.target = source, target
        self.pad, self.bos, self.eos = pad, bos, eos
        self.source_pad = pad if source_pad is None else source_pad
        self.ends_source = ends_source

    def encode_source(self, text: str) -> list[Token]:
        """Return the source tokens, ending in the end-of-sentence token if it belongs.

        An empty source always has that token: the encoder needs something to read.
        """
        pieces = self.source.encode(text)
        if pieces and not self.ends_source:
            return pieces
        end = Token(self.eos, self.source.token(self.eos), len(text), len(text))
        return [*pieces, end]

    def encode_target(self, text: str) -> list[int]:
        """Return the ids of a target text, without special tokens."""
        return [piece.id for piece in self.target.encode(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Join target tokens into text; special tokens are left out."""
        special = {self.pad, self.bos, self.eos}
        return self.target.decode([i for i in ids if i not in special])

    def target_id(self, token: str) -> int:
        """Return the id of ``token``: a target token as shown, or text of exactly one.

        Raises InputError if the text is not exactly one token.
        """
        return self.id_of("target", token)

    def id_of(self, side: SentenceSide, token: str) -> int:
        """Return the id of a token of a side, as ``target_id`` does."""
        known = self.target if side == "target" else self.source
        for id in range(known.size):
            if known.token(id) == token:
                return id
        ids = [piece.id for piece in known.encode(token)]
        if len(ids) != 1 or ids[0] == known.unknown:
            if len(ids) < 2 or known.unknown in ids:
                raise InputError(
                    "“{word}” is not a token of this model.", word=short(token)
                )
            raise InputError(
                "“{word}” is not a single token of this model: it is split into "
                "{tokens}.",
                word=short(token),
                tokens=listed([known.token(i) for i in ids], room=80),
            )
        return ids[0]


def read_sentencepiece(path: Path) -> SentencePieceSide:
    """Read a sentencepiece model file; CheckpointError if it is not valid."""
    data = read_tokenizer(path)
    refuse_foreign(data[:512], short(path.name))
    return SentencePieceSide(data, short(path.name))


def read_ids(path: Path) -> dict[str, int]:
    """Read a ``vocab.json``, token -> id; CheckpointError if it is not valid."""
    read_tokenizer(path)
    ids, name = read_json(path, MAX_TOKENIZER), short(path.name)
    valid = all(type(id) is int and 0 <= id < MAX_VOCABULARY for id in ids.values())
    if not valid or "<unk>" not in ids or len(set(ids.values())) < len(ids):
        raise CheckpointError(
            "{file} must be one JSON object with a unique id per token, including "
            "{unknown}.",
            file=name,
            unknown="<unk>",
        )
    return ids


def read_vocabulary(path: Path) -> VocabularySide:
    """Read a ``vocab.json`` of characters; CheckpointError if it is not valid."""
    ids = read_ids(path)
    return VocabularySide(ids, ids["<unk>"])
