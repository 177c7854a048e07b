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
from visformer.watching.watcher import watch

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
    inputs: dict[str, Any] = {
        "input_ids": ids,
        "attention_mask": _real([len(source.ids) for source in sources], ids),
    }
    if model.task == "seq2seq":
        rows = [_consumed(model, text) for text in texts]
        target = padded(rows, pad).to(model.device)
        inputs["decoder_input_ids"] = target
        inputs["decoder_attention_mask"] = _real([len(row) for row in rows], target)
    watcher = watch(
        model.model,
        tokenizer=lambda id: model.pieces([id])[0],
        source_tokens=[tokens[: ids.shape[1]] for tokens in shown],
        sources="input_ids",
        targets="decoder_input_ids" if model.task == "seq2seq" else None,
    )
    with torch.no_grad(), watcher as watched:
        watched.output = model.model(**inputs)
    return [
        replace(trace, model=model.described(trace.model), source_text=text)
        for trace, text in zip(watched.traces, texts, strict=True)
    ]


def _consumed(model: FolderModel, text: str) -> list[int]:
    """Return what the decoder reads of a text's own translation."""
    decoding = model.begin_decoding(text)
    ids: list[int] = decoding.finish().target_ids.tolist()
    return ids


def _real(lengths: list[int], ids: Tensor) -> Tensor:
    places = torch.arange(ids.shape[1], device=ids.device)[None]
    return (places < torch.tensor(lengths, device=ids.device)[:, None]).long()
