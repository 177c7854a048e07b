"""Several texts in one padded pass of a model of transformers: a Trace of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from visformer.core.mask_rules import padded
from visformer.errors import InputError
from visformer.language import _
from visformer.values.trace import Trace
from visformer.watching.watcher import Watched, watch

if TYPE_CHECKING:
    from visformer.formats.hugging_face.folder_model import FolderModel


def batch_of(model: FolderModel, texts: Sequence[str]) -> list[Trace]:
    """Decode each text, then run all as one batch, whose padding is masked.

    Raises InputError for a model that pads nothing, and for one that goes on with a
    prompt: its prompts are of different lengths.
    """
    pad = model.tokenizer.pad
    if model.alone or pad < 0:
        raise InputError(
            _("“{name}” takes one text at a time: it has no padding.", name=model.name)
        )
    sources = [model.read(text) for text in texts]
    ids = padded([source.ids for source in sources], pad).to(model.device)
    shown = [[*s.tokens, *model.pieces([pad] * ids.shape[1])] for s in sources]
    sides, lengths = [ids], [[len(source.ids) for source in sources]]
    if model.task == "seq2seq":
        rows = [_consumed(model, text) for text in texts]
        sides.append(padded(rows, pad))
        lengths.append([len(row) for row in rows])
    tokens = [tokens[: ids.shape[1]] for tokens in shown]
    watched = _watched_rows(model, sides, lengths, source_tokens=tokens)
    return [
        replace(trace, model=model.described(trace.model), source_text=text)
        for trace, text in zip(watched.traces, texts, strict=True)
    ]


def _watched_rows(
    model: FolderModel,
    sides: Sequence[Tensor],
    lengths: Sequence[list[int]],
    *,
    source_tokens: list[list[str]] | None = None,
) -> Watched:
    """Watch one pass over int64 [B, S] and [B, T]; what follows a length is masked."""
    inputs: dict[str, Any] = {}
    for side, ids, real in zip(("", "decoder_"), sides, lengths, strict=False):
        inputs[f"{side}input_ids"] = ids.to(model.device)
        inputs[f"{side}attention_mask"] = _real(real, ids.to(model.device))
    watcher = watch(
        model.model,
        tokenizer=lambda id: model.pieces([id])[0],
        source_tokens=source_tokens,
        sources=None if model.alone else "input_ids",
        targets={"seq2seq": "decoder_input_ids", "prompt": "input_ids"}.get(model.task),
    )
    with torch.no_grad(), watcher as watched:
        watched.output = model.model(**inputs)
    return watched


def watched_ids(model: FolderModel, ids: Sequence[Tensor]) -> Watched:
    """Watch one pass over int64 [B, S] and [B, T]; padding at the end is masked.

    A model of one side reads the first. Raises InputError where one is missing.
    """
    needed = 2 if model.task == "seq2seq" else 1
    if len(ids) < needed:
        raise InputError(
            _("“{name}” reads a source and a target: give both.", name=model.name)
        )
    lengths = []
    for one in ids[:needed]:
        places = torch.arange(1, one.shape[1] + 1, device=one.device)
        real = places * (one != model.tokenizer.pad)
        lengths.append(real.amax(1).clamp(min=1).tolist())
    return _watched_rows(model, ids[:needed], lengths)


def _consumed(model: FolderModel, text: str) -> list[int]:
    """Return what the decoder reads of a text's own translation."""
    decoding = model.begin_decoding(text)
    ids: list[int] = decoding.finish().target_ids.tolist()
    return ids


def _real(lengths: list[int], ids: Tensor) -> Tensor:
    places = torch.arange(ids.shape[1], device=ids.device)[None]
    return (places < torch.tensor(lengths, device=ids.device)[:, None]).long()
