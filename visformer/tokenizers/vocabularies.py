"""Vocabularies as programs write them: dicts either way round, lists, objects, files.

All become token -> id. Nothing here is trusted: sizes and ids are checked.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from visformer.errors import CheckpointError, refusing
from visformer.files import read_json_value, refuse_foreign, short
from visformer.language import _, ngettext
from visformer.text import clean, without_controls
from visformer.tokenizers.sides import WordSide
from visformer.tokenizers.tokenizer import (
    MAX_PIECE_BYTES,
    MAX_TOKENIZER,
    MAX_VOCABULARY,
    ListedSide,
    SentencePieceSide,
    Token,
    TokenizerSide,
    VocabularySide,
    read_tokenizer,
)

_INSIDE = (  # under which a program keeps one in its own object
    *("token_to_idx", "token2idx", "token_to_id", "token2id", "word2idx", "word2index"),
    *("word2id", "w2i", "stoi", "str2idx", "char2idx", "idx_to_token", "idx2token"),
    *("id2token", "idx2word", "index2word", "id2word", "i2w", "itos", "vocab"),
    *("vocabulary", "tokens", "words", "items", "dictionary", "_token_to_idx"),
)
_SPECIAL = {
    *("<pad>", "<unk>", "<s>", "</s>", "<sos>", "<eos>", "<bos>", "[pad]", "[unk]"),
    *("[cls]", "[sep]", "<blank>", "<start>", "<end>", "pad", "unk", "sos", "eos"),
}
_FEW = 3  # tokens that a dict without special ones needs to be a vocabulary
_DEEPEST = 3
TokenIds = dict[str, int]


class HuggingFaceSide(ListedSide):
    """A ``tokenizer.json``, read by the library ``tokenizers`` (extra ``hf``)."""

    kind: ClassVar[str] = "tokenizers"

    def __init__(self, data: bytes, name: str) -> None:
        try:
            library: Any = importlib.import_module("tokenizers")
        except ImportError as error:
            raise CheckpointError(
                "{file} is split by the library “tokenizers”, which is not "
                "installed. Run {command}.",
                file=name,
                command="pip install tokenizers",
            ) from error
        try:
            self._inner = library.Tokenizer.from_str(data.decode())
            self._inner.no_padding()  # a file can ask for any number of tokens
            self._inner.no_truncation()
            self.size = self._inner.get_vocab_size(with_added_tokens=True)
            if not self.size:
                raise ValueError("size")
            self._tokens = [
                clean(self._inner.id_to_token(id) or f"<{id}>")[:MAX_PIECE_BYTES]
                for id in range(self.size)
            ]
            self.unknown = self._unknown()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of Rust is no Exception
            raise CheckpointError(
                "{file} is not a valid tokenizer.json. Save it again with "
                "tokenizer.save.",
                file=name,
            ) from error

    def _unknown(self) -> int:
        word = getattr(self._inner.model, "unk_token", None)
        known = self._inner.token_to_id(word) if isinstance(word, str) else None
        return -1 if known is None else int(known)

    def encode(self, text: str) -> list[Token]:
        """Split a text as the library does, without the special tokens it adds."""
        text = without_controls(text)
        with refusing(_("The tokenizer cannot split this text.")):
            made = self._inner.encode(text, add_special_tokens=False)
        return [
            Token(
                id,
                f"<unk:{text[start:end]}>" if id == self.unknown else self._tokens[id],
                start,
                end,
            )
            for id, (start, end) in zip(made.ids, made.offsets, strict=True)
            if id < self.size
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Join tokens into text."""
        with refusing(_("The tokenizer cannot join these tokens.")):
            text: str = self._inner.decode([*ids], skip_special_tokens=False)
        return text


def vocabulary_in(value: Any, depth: int = 0) -> TokenIds | None:
    """Return the vocabulary that a value is, or holds under a usual name; else None."""
    if isinstance(value, Mapping):
        made = _of_dict(value)
        if made is not None or depth >= _DEEPEST:
            return made
        for name in _INSIDE:
            inside = vocabulary_in(value.get(name), depth + 1)
            if inside is not None:
                return inside
        return None
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _of_list(value)
    return None


def _of_dict(value: Mapping[Any, Any]) -> TokenIds | None:
    keys, ids = [*value], [*value.values()]
    if ids and all(type(id) is int for id in ids) and _texts(keys):
        return _checked(dict(zip(keys, ids, strict=True)))
    if not _texts(ids):
        return None
    if all(type(key) is int for key in keys):
        return _checked(_unique(zip(ids, keys, strict=True)))
    if all(isinstance(key, str) and key.isascii() and key.isdigit() for key in keys):
        numbers = [int(key) if len(key) < 8 else -1 for key in keys]
        return _checked(_unique(zip(ids, numbers, strict=True)))
    return None


def _of_list(value: Sequence[Any]) -> TokenIds | None:
    """Read tokens in the order of their ids; or pairs of a token and its score."""
    if value and all(isinstance(p, list | tuple) and len(p) == 2 for p in value):
        value = [pair[0] for pair in value]
    if not _texts(value):
        return None
    return _checked(_unique((token, id) for id, token in enumerate(value)))


def _texts(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def _unique(pairs: Any) -> TokenIds:
    made: TokenIds = {}
    for token, id in pairs:
        made.setdefault(token, id)
    return made


def _checked(ids: TokenIds) -> TokenIds | None:
    """Return plausible ids: unique, from 0 without large gaps."""
    numbers = ids.values()
    few = len(ids) < _FEW and not any(token.lower() in _SPECIAL for token in ids)
    if few or min(numbers) < 0 or max(numbers) >= min(MAX_VOCABULARY, 2 * len(ids) + 9):
        return None
    return ids if len({*numbers}) == len(ids) else None


def is_vocabulary(value: Mapping[Any, Any]) -> bool:
    """Whether a dict is a vocabulary: it has special tokens, or many in a row."""
    made = _of_dict(value)
    if made is None:
        return False
    special = sum(token.lower() in _SPECIAL for token in made)
    return special > 1 or len(made) >= 20


def vocabularies_in(value: Any) -> dict[str, TokenIds]:
    """Return every vocabulary in what a script saved, by the names that lead to it."""
    made: dict[str, TokenIds] = {}
    for name, inside in _dicts(value, "", 0, set()):
        found = vocabulary_in(inside)
        if found is not None and len(made) < 20:
            made.setdefault(name, found)
    return made


def _dicts(
    value: Any, name: str, depth: int, seen: set[int]
) -> Iterator[tuple[str, Any]]:
    """Yield what may be a vocabulary, and look for more in what is none."""
    if not isinstance(value, Mapping) or depth > _DEEPEST or id(value) in seen:
        return
    seen.add(id(value))
    for key, inside in value.items():
        if not isinstance(key, str) or not isinstance(inside, Mapping | list):
            continue
        path = f"{name}.{key}" if name else key
        if vocabulary_in(inside) is not None:
            yield path, inside
        else:
            yield from _dicts(inside, path, depth + 1, seen)


def side_of(ids: TokenIds, rows: int) -> TokenizerSide:
    """Return a side for a vocabulary: of characters if it has nothing longer."""
    ids = {clean(token): id for token, id in ids.items()}
    letters = all(len(t) == 1 or t.startswith("<") for t in ids) and "<unk>" in ids
    return VocabularySide(ids, ids["<unk>"]) if letters else WordSide(ids, rows)


def read_side(path: Path, rows: int) -> TokenizerSide:
    """Read a vocabulary or tokenizer from a file that is no pickle.

    Raises CheckpointError with what can be read instead.
    """
    suffix, name = path.suffix.lower(), short(path.name)
    if suffix == ".json":
        read_tokenizer(path)
        value = read_json_value(path, MAX_TOKENIZER)
        if isinstance(value, dict) and isinstance(value.get("model"), dict):
            return _of_tokenizer_json(value, path, rows)
        ids = vocabulary_in(value)
    elif suffix in (".txt", ".vocab", ".tsv", ".dict"):
        ids = vocabulary_in(_lines(path))
    else:
        data = read_tokenizer(path)
        refuse_foreign(data[:512], name)
        return SentencePieceSide(data, name)
    if ids is None:
        raise CheckpointError(
            "{file} is no vocabulary: it must have a unique id per token, as a "
            "dict, a list or lines, or be a sentencepiece model or tokenizer.json.",
            file=name,
        )
    return side_of(ids, rows)


def open_side(path: Path, rows: int) -> TokenizerSide:
    """Open one side of a tokenizer for an embedding of ``rows`` rows.

    Raises CheckpointError as ``read_side``, or if the sizes differ.
    """
    return fitting(read_side(path, rows), rows, short(path.name))


def fitting(side: TokenizerSide, rows: int, name: str) -> TokenizerSide:
    """Return a side; CheckpointError if it does not have as many tokens as rows."""
    if side.size != rows:
        raise CheckpointError(
            ngettext(
                "{file} has {n:,} token but the model's embedding has {rows:,} rows: "
                "they belong to different models. Use the right one.",
                "{file} has {n:,} tokens but the model's embedding has {rows:,} rows: "
                "they belong to different models. Use the right one.",
                side.size,
                file=name,
                rows=rows,
            )
        )
    return side


def _of_tokenizer_json(
    value: Mapping[str, Any], path: Path, rows: int
) -> TokenizerSide:
    """Read a ``tokenizer.json``: words by ourselves, the rest with its own library."""
    model = value["model"]
    if model.get("type") == "WordLevel" and value.get("normalizer") is None:
        ids = vocabulary_in(model.get("vocab"))
        if ids is not None:
            return side_of(ids, rows)
    return HuggingFaceSide(read_tokenizer(path), short(path.name))


def _lines(path: Path) -> list[str] | TokenIds:
    """Read a token a line, or a token with its id, its score or its count."""
    data, name = read_tokenizer(path), short(path.name)
    refuse_foreign(data[:512], name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CheckpointError(
            "{file} is not UTF-8. Save the vocabulary as UTF-8.", file=name
        ) from error
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    for separator in ("\t", " "):
        pairs = [line.rpartition(separator) for line in lines]
        if all(token and last.isdigit() and len(last) < 8 for token, _s, last in pairs):
            ids = {token: int(last) for token, _s, last in pairs}
            if sorted(ids.values()) == [*range(len(lines))]:
                return ids
        if all(token and _is_number(n) for token, _s, n in pairs):
            return [token for token, _s, _n in pairs]  # scores, or how often it occurs
    return lines


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
