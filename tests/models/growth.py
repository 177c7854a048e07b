"""Add pieces to a sentencepiece model, and rows to the matrices that belong to it.

The file is a protocol buffer: a sequence of fields, each with a number, a type and a
content. Only the parts needed for growing are read and written; the numbers are from
sentencepiece's schema, sentencepiece_model.proto.
"""

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from visformer.core.model import Transformer
from visformer.errors import CheckpointError

PIECE, TRAINER, NORMALISER, DENORMALISER = 1, 2, 3, 5  # fields of a ModelProto
TEXT, SCORE, TYPE = 1, 2, 3  # fields of a piece
VOCABULARY_SIZE = 4  # a field of a TrainerSpec
NORMAL, UNUSED, BYTE = 1, 5, 6  # types of pieces
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # types of fields
_SIZES = {FIXED32: 4, FIXED64: 8}
BY_TOKEN = ("source_embedding.", "target_embedding.", "output.")


class Field(NamedTuple):
    """One field of a protocol buffer."""

    number: int
    type: int
    content: bytes  # for LENGTH, without the length


class _Piece(NamedTuple):
    text: str
    score: float
    type: int


def grow_tokenizer(old: bytes, fresh: bytes) -> bytes:
    """Return ``old`` with the single characters and bytes that only ``fresh`` has.

    Both are sentencepiece models. Old pieces keep their ids, new ones follow. Text is
    normalised and split as by ``fresh``, digits one by one: an old piece of several
    characters that include a digit keeps its id but is no longer used.
    """
    try:
        pieces = [_retired(piece) for piece in _pieces(old)]
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise CheckpointError(
            "The tokenizer to start from cannot be extended: its file is damaged."
        ) from error
    known = {piece.text for piece in pieces}
    pieces += [p for p in _pieces(fresh) if _is_sign(p) and p.text not in known]
    fields = [Field(PIECE, LENGTH, _piece_content(piece)) for piece in pieces]
    for field in read_fields(fresh):
        if field.number == TRAINER:
            fields.append(field._replace(content=_sized(field.content, len(pieces))))
        elif field.number in (NORMALISER, DENORMALISER):
            fields.append(field)
    return write_fields(fields)


def grow_model(model: Transformer, rows: int) -> Transformer:
    """Return ``model`` with ``rows`` tokens on each side, at least the present number.

    Old rows of the embeddings and the output are kept. New ones are drawn with the mean
    and the standard deviation of the old ones in each column. Shared matrices stay
    shared.
    """
    config = replace(model.config, source_vocabulary=rows, target_vocabulary=rows)
    grown = Transformer(config)
    grown.load_state_dict(
        {
            name: _more_rows(values, rows) if name.startswith(BY_TOKEN) else values
            for name, values in model.state_dict().items()
        }
    )
    return grown


def _more_rows(matrix: Tensor, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(rows)  # the same in shared matrices
    shape = (rows - len(matrix), *matrix.shape[1:])
    drawn = torch.randn(shape, generator=generator).to(matrix)
    return torch.cat([matrix, matrix.mean(0) + drawn * matrix.std(0)])


def _pieces(model: bytes) -> list[_Piece]:
    return [_read_piece(f.content) for f in read_fields(model) if f.number == PIECE]


def _read_piece(content: bytes) -> _Piece:
    fields = {field.number: field.content for field in read_fields(content)}
    (score,) = struct.unpack("<f", fields[SCORE])
    type = _read_varint(fields[TYPE], 0)[0] if TYPE in fields else NORMAL
    return _Piece(fields[TEXT].decode(), score, type)


def _piece_content(piece: _Piece) -> bytes:
    return write_fields(
        [
            Field(TEXT, LENGTH, piece.text.encode()),
            Field(SCORE, FIXED32, struct.pack("<f", piece.score)),
            Field(TYPE, VARINT, _varint(piece.type)),
        ]
    )


def _retired(piece: _Piece) -> _Piece:
    figures = len(piece.text) > 1 and any(map(str.isdecimal, piece.text))
    if figures and piece.type == NORMAL:
        return piece._replace(type=UNUSED)
    return piece


def _is_sign(piece: _Piece) -> bool:
    return piece.type == BYTE or (piece.type == NORMAL and len(piece.text) == 1)


def _sized(trainer: bytes, size: int) -> bytes:
    others = [f for f in read_fields(trainer) if f.number != VOCABULARY_SIZE]
    return write_fields([*others, Field(VOCABULARY_SIZE, VARINT, _varint(size))])


def read_fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a protocol buffer; ValueError or IndexError if invalid.

    Groups, which are obsolete, are not supported.
    """
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, type = key >> 3, key & 7
        if type == VARINT:
            end = _read_varint(message, at)[1]
        elif type == LENGTH:
            length, at = _read_varint(message, at)
            end = at + length
        elif type in _SIZES:
            end = at + _SIZES[type]
        else:
            raise ValueError(f"a field of type {type}")
        yield Field(number, type, message[at:end])
        at = end


def write_fields(fields: list[Field]) -> bytes:
    """Return the protocol buffer of these fields."""
    parts = []
    for number, type, content in fields:
        parts.append(_varint(number << 3 | type))
        if type == LENGTH:
            parts.append(_varint(len(content)))
        parts.append(content)
    return b"".join(parts)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a varint (groups of seven bits, lowest first) and its end."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _varint(value: int) -> bytes:
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
