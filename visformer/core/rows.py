"""From tensors to Traces: the results of a pass as numpy rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from visformer.arguments import is_several, whole_number, wrong_type
from visformer.core.loaded import Loaded
from visformer.core.model import StackRecord
from visformer.core.models import SourceTokens
from visformer.errors import InputError
from visformer.language import _, ngettext
from visformer.tokenizers.tokenizer import Token
from visformer.values.arrays import Bools, Floats, read_only
from visformer.values.facts import SentenceSide
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace


def host(tensor: Tensor) -> Floats:
    """Copy a tensor to the CPU as read-only float32."""
    return read_only(tensor.detach().to("cpu", torch.float32).numpy())


def stack_rows(record: StackRecord, *, final_norm: bool) -> Tensor:
    """Arrange a stack's record as rows, [B, T, Columns.width(...)]."""
    parts: list[Tensor] = []
    for index, projections in enumerate(record.attention):
        parts.extend(projections)
        if record.cross:
            parts.append(record.cross[index].queries)
    parts.extend(record.hidden)
    if final_norm:
        parts.append(record.output)
    return torch.cat(parts, -1)


def memory_rows(record: StackRecord) -> Tensor:
    """Arrange the cross attention's k and v, [B, S, Columns.width("memory")]."""
    parts = [
        part
        for projections in record.cross
        for part in (projections.keys, projections.values)
    ]
    return (
        torch.cat(parts, -1)
        if parts
        else record.output.new_zeros(len(record.output), 0, 0)
    )


def source_pieces(
    checkpoint: Loaded, source: str | Sequence[int]
) -> tuple[list[Token], int]:
    """Turn a text or ids into source tokens, cut to the model's positions.

    Returns the tokens and, if some were cut off, how many there were (else 0). Raises
    InputError for an empty source, for ids outside the vocabulary, and if the model's
    norms do not let it run token by token.
    """
    pieces, cut = _source_pieces(checkpoint, source)
    length = checkpoint.config.decoder_norm_length
    if length:
        raise InputError(
            ngettext(
                "This model normalises over {n} target token at once, so it cannot run "
                "token by token. Give visformer.run whole targets of {n} token.",
                "This model normalises over {n} target tokens at once, so it cannot "
                "run token by token. Give visformer.run whole targets of {n} tokens.",
                length,
            )
        )
    check_length("source", checkpoint.config.encoder_norm_length, len(pieces))
    return pieces, cut


def check_length(side: SentenceSide, needed: int, tokens: int) -> None:
    """Raise InputError if norms need another number of tokens; 0: they take any."""
    if needed and tokens != needed:
        raise InputError(
            ngettext(
                "This model normalises over {n} {side} token at once, so it needs "
                "exactly {n}, but the {side} has {found}.",
                "This model normalises over {n} {side} tokens at once, so it needs "
                "exactly {n}, but the {side} has {found}.",
                needed,
                side=_(side),
                found=tokens,
            )
        )


def _source_pieces(
    checkpoint: Loaded, source: str | Sequence[int]
) -> tuple[list[Token], int]:
    tokenizer, limit = checkpoint.tokenizer, checkpoint.config.max_positions
    if isinstance(source, str):
        pieces = text_pieces(checkpoint, source)
        if len(pieces) > limit:
            return [*pieces[: limit - 1], pieces[-1]], len(pieces)
        return pieces, 0
    source = as_ids("source", source, text=True)
    check_ids(source, tokenizer.source.size)
    pieces = [Token(i, tokenizer.source.token(i), 0, 0) for i in source]
    return pieces[:limit], len(pieces) if len(pieces) > limit else 0


def text_pieces(checkpoint: Loaded, text: str) -> list[Token]:
    """Return the source tokens of a text, however many; InputError for none."""
    if not text.strip():
        raise InputError("The source is empty. Type a sentence to translate.")
    return checkpoint.tokenizer.encode_source(text)


def as_ids(argument: str, given: object, *, text: bool = False) -> list[int]:
    """Return ids as numbers, from a list, a row of an array or of a tensor.

    Raises TypeError or InputError for fractions and what is not one row; ``text`` says
    that the caller takes text as well.
    """
    allowed = _("token ids in a row, whole numbers from 0 on")
    if text:
        allowed = _("a text, or token ids in a row")
    if not is_several(given):
        raise wrong_type(argument, given, allowed)
    shape = getattr(given, "shape", (1,))
    if len(shape) != 1:
        raise InputError(
            "{argument} has the shape {shape}, but must be {allowed}.",
            argument=argument,
            shape=list(shape),
            allowed=allowed,
        )
    if isinstance(given, np.ndarray | Tensor):
        given = given.tolist()
    return [whole_number(f"{argument}[{at}]", id) for at, id in enumerate(given)]


def check_ids(ids: Sequence[int], size: int) -> None:
    """Raise InputError unless there are ids and all are in 0..size - 1."""
    if len(ids) == 0:
        raise InputError("There are no ids. Give at least one token.")
    for id in ids:
        if not 0 <= int(id) < size:
            raise InputError(
                ngettext(
                    "The id {id} is outside the vocabulary of {n:,} token.",
                    "The id {id} is outside the vocabulary of {n:,} tokens.",
                    size,
                    id=id,
                )
            )


def common_start(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items two sequences share from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def empty_trace(
    checkpoint: Loaded,
    source: SourceTokens,
    *,
    encoder: Tensor,
    memory: Tensor,
    mask: Bools,
    intervention: Intervention,
) -> Trace:
    """Return the Trace of a sentence before anything is decoded (T = 0).

    ``encoder`` [S, E] and ``memory`` [S, M] are rows as in ``Columns``; ``mask`` is the
    encoder's, as in a Trace.
    """
    bias, token = checkpoint.model.output.bias, checkpoint.tokenizer.source.token
    length = len(source.ids)
    return Trace(
        model=checkpoint.facts,
        source_text=source.text,
        source=source.tokens or tuple(map(token, source.ids)),
        source_ids=read_only(np.array(source.ids, np.int64)),
        source_spans=source.spans,
        target=(),
        target_ids=np.zeros(0, np.int64),
        steps=(),
        encoder_rows=host(encoder),
        memory_rows=host(memory),
        decoder_rows=np.zeros((0, 0), np.float32),
        masks={
            "encoder": mask,
            "decoder": np.zeros((0, 0), bool),
            "cross": np.zeros((0, length), bool),
        },
        intervention=intervention,
        truncated_from=source.cut_from,
        output_weight=host(checkpoint.model.output.weight),
        output_bias=None if bias is None else host(bias),
    )
