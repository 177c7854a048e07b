"""One side of a tokenizer of transformers, whatever kind it is (extra ``hf``)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from visformer.errors import InputError, refusing
from visformer.language import _
from visformer.text import clean, without_controls
from visformer.tokenizers.tokenizer import MAX_PIECE_BYTES, Token
from visformer.values.pieces import BYTE_OF, SPACE


class TransformersSide:
    """The source or the target side of a tokenizer that transformers has loaded."""

    kind: ClassVar[str] = "transformers"

    def __init__(self, inner: Any, size: int, *, target: bool = False) -> None:
        """``size`` is how many tokens the model knows, which may lack a name."""
        self.inner, self.size = inner, size
        self._target = target
        unknown = inner.unk_token_id
        self.unknown: int = -1 if unknown is None else int(unknown)
        mask = getattr(inner, "mask_token_id", None)
        self.mask: int = mask if type(mask) is int else -1  # the masked token's id
        self._pieces: dict[int, str] = {}

    def encode(self, text: str) -> list[Token]:
        """Split ``text`` without the special tokens that the model reads around it."""
        return self._tokens(text, special=False)

    def around(self, text: str) -> list[Token]:
        """Split ``text`` with its special tokens: end, language, [CLS]."""
        return self._tokens(text, special=True)

    def _tokens(self, text: str, *, special: bool) -> list[Token]:
        text = without_controls(text)
        with refusing(_("The tokenizer cannot split this text.")):
            ids, spans = self._split(text, special)
        outside = next((id for id in ids if not 0 <= id < self.size), None)
        if outside is not None:
            raise InputError(
                "The tokenizer gives the id {id:,}, but the model knows ids up to "
                "{high:,}: they belong to different models.",
                id=outside,
                high=self.size - 1,
            )
        return [
            Token(id, self._shown(id, text[start:end]), start, end)
            for id, (start, end) in zip(ids, spans, strict=True)
        ]

    def _split(
        self, text: str, special: bool
    ) -> tuple[list[int], list[tuple[int, int]]]:
        name = "text_target" if self._target else "text"
        given: dict[str, Any] = {name: text, "add_special_tokens": special}
        fast = bool(self.inner.is_fast)
        made = self.inner(**given, return_offsets_mapping=fast)
        ids = [int(id) for id in made["input_ids"]]
        spans = made["offset_mapping"] if fast else [(0, 0)] * len(ids)
        return ids, [(int(start), int(end)) for start, end in spans]

    def _shown(self, id: int, text: str) -> str:
        return f"<unk:{text}>" if id == self.unknown and text else self.token(id)

    def decode(self, ids: Sequence[int]) -> str:
        """Join tokens into text, special ones left out, as transformers does."""
        named = [id for id in ids if self._named(id)]
        with refusing(_("The tokenizer cannot join these tokens.")):
            return clean(self.inner.decode(named, skip_special_tokens=True))

    def token(self, id: int) -> str:
        """Return the token with this id, 0 <= id < size; a space is written ▁."""
        if id not in self._pieces:
            self._pieces[id] = self._piece(id)
        return self._pieces[id]

    def _piece(self, id: int) -> str:
        piece = self._named(id)
        if piece and self._bytes and all(c in self._bytes for c in piece):
            stored = bytes(self._bytes[c] for c in piece)
            text = stored.decode("utf-8", "replace")
            if "\ufffd" not in text:  # else it is a part of a character
                piece = text.replace(" ", SPACE)
        return clean(piece)[:MAX_PIECE_BYTES] or f"<{id}>"

    def _named(self, id: int) -> str:
        """Return what the tokenizer calls an id; "" where the model alone has it."""
        try:
            piece = self.inner.convert_ids_to_tokens(id)
        except (LookupError, TypeError, ValueError, OverflowError):
            return ""
        return piece if isinstance(piece, str) else ""

    @cached_property
    def _bytes(self) -> dict[str, int]:
        """The byte that each character of a piece stands for; {} if they are text."""
        backend = getattr(self.inner, "backend_tokenizer", None)
        decoder = getattr(backend, "decoder", None)
        return BYTE_OF if "ByteLevel" in repr(decoder) else {}
