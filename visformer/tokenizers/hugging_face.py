"""A Hugging Face ``tokenizer.json``, read by its own library of the extra ``hf``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, ClassVar

from visformer.errors import CheckpointError, refusing
from visformer.language import _
from visformer.text import clean
from visformer.tokenizers.tokenizer import MAX_PIECE_BYTES, Token


class HuggingFaceSide:
    """One side whose text is split by the library ``tokenizers``."""

    kind: ClassVar[str] = "tokenizers"

    def __init__(self, data: bytes, name: str) -> None:
        try:
            library: Any = importlib.import_module("tokenizers")
        except ImportError as error:
            raise CheckpointError(
                _(
                    "{file} is split by the library “tokenizers”, which is not "
                    "installed. Run {command}.",
                    file=name,
                    command="pip install tokenizers",
                )
            ) from error
        try:
            self._inner = library.Tokenizer.from_str(data.decode())
            self._inner.no_padding()  # a file can ask for any number of tokens
            self._inner.no_truncation()
            self.size: int = self._inner.get_vocab_size(with_added_tokens=True)
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
                _(
                    "{file} is not a valid tokenizer.json. Save it again with "
                    "tokenizer.save.",
                    file=name,
                )
            ) from error

    def _unknown(self) -> int:
        word = getattr(self._inner.model, "unk_token", None)
        known = self._inner.token_to_id(word) if isinstance(word, str) else None
        return -1 if known is None else int(known)

    def encode(self, text: str) -> list[Token]:
        """Split a text as the library does, without the special tokens it adds."""
        text = clean(text)
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

    def token(self, id: int) -> str:
        """Return the token with this id, 0 <= id < size."""
        return self._tokens[id]
