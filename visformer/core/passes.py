"""One teacher-forced pass over a padded batch of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visformer.arguments import is_several, one_of, wrong_type
from visformer.core.corpus_mean import with_means
from visformer.core.lens_rows import read_streams
from visformer.core.loaded import Loaded
from visformer.core.mask_rules import RULES, Masks, make_masks, padded, real_tokens
from visformer.core.model import StackRecord, work
from visformer.core.models import Model, SourceTokens, opened
from visformer.core.modified import (
    LayeredMasks,
    as_intervention,
    check_padding,
    host_mask,
    modified_checkpoint,
    modified_masks,
)
from visformer.core.next_tokens import NextTokens
from visformer.core.parts import split_heads, weights_by_blocks
from visformer.core.rows import (
    as_ids,
    check_ids,
    check_length,
    empty_trace,
    host,
    memory_rows,
    stack_rows,
    text_pieces,
)
from visformer.core.search import exhausted
from visformer.core.threads import few_threads
from visformer.errors import InputError
from visformer.language import _, ngettext
from visformer.values.arrays import Floats, read_only
from visformer.values.facts import KINDS, Description, Kind, ModelFacts
from visformer.values.intervention import Intervention
from visformer.values.row_columns import Columns
from visformer.values.step import Choice, Step
from visformer.values.trace import OwnWeights, Trace

WHOLE_LAYER = 1 << 24  # most weights of a layer whose heads are computed together
IdRows = Sequence[Sequence[int]] | np.ndarray | Tensor
Texts = str | Sequence[str]  # a batch of one, or several
Lengths = Sequence[int] | np.ndarray | Tensor
GivenMasks = Mapping[Kind, np.ndarray | Tensor]


def run(
    checkpoint: Loaded | Model | str | Path,
    source_ids: IdRows | Texts | None,
    target_ids: IdRows | Texts,
    *,
    source_lengths: Lengths | None = None,
    masks: GivenMasks | None = None,
    intervention: Intervention | str | None = None,
) -> list[Trace]:
    """Run a batch in one pass: ids [B, S] and [B, T], padded with the pad ids.

    Returns one Trace per row, pads included. Row t of the target predicts the token
    after it; a step's choice is the next target token and, after the last one, the
    model's own best. Texts stand for their ids, from the start to the end of the
    sentence; several are padded. Models that mask by lengths take ``source_lengths``
    [B]; without them, no source token of given ids is masked. ``masks``, bool [B, Q, K]
    by kind, True = may attend, replace those that the model's own rule derives from the
    ids; an ``intervention`` modifies the run on top of that. Without ``source_ids`` the
    decoder runs alone, as tutorials 002 and 003 allow: cross attention is skipped, with
    its residual and norm. Raises InputError for unequal batches, lengths beyond the
    model's positions, ids outside the vocabulary, and lengths, masks or interventions
    that do not fit.
    """
    native, change = _native(checkpoint), as_intervention(intervention)
    return run_native(native, source_ids, target_ids, source_lengths, masks, change)


@torch.inference_mode()
def run_native(
    native: Loaded,
    source_ids: IdRows | Texts | None,
    target_ids: IdRows | Texts,
    source_lengths: Lengths | None,
    masks: GivenMasks | None,
    change: Intervention,
    *,
    steps: bool = True,
) -> list[Trace]:
    """Do what ``run`` does; ``steps``, with candidates, take a third of the time."""
    changed = exhausted(with_means(native, change, run))
    checkpoint = modified_checkpoint(native, changed)
    model, facts = checkpoint.model, checkpoint.facts
    texts = _texts(source_ids)
    if texts:
        rows = [[p.id for p in text_pieces(checkpoint, text)] for text in texts]
        source_ids = padded(rows, checkpoint.tokenizer.source_pad)
        if source_lengths is None and RULES[checkpoint.config.mask_rule].by_length:
            source_lengths = [*map(len, rows)]
    target = _batch(target_ids, checkpoint, source=False)
    if source_ids is None:
        facts = _decoder_alone(checkpoint)
    source = _source(source_ids, source_lengths, checkpoint, target)
    _check_pair(checkpoint, source, target)
    changed.check(facts, source.shape[1])
    given = {} if masks is None else masks
    allowed = allowed_masks(checkpoint, source, target, source_lengths, given, changed)
    tokens = max(source.shape[1], target.shape[1])
    with few_threads(work(model, tokens, len(target))):
        read = None if source_ids is None else model.encode(source, allowed.encoder)
        memory = None if read is None else read.output  # [B, S, D]
        encoded = read or _nothing_encoded(target, checkpoint)
        decoded = model.decode(target, memory, allowed.decoder, allowed.cross)
        records = allowed, changed, encoded, decoded
        return [
            _trace(checkpoint, facts, text, source[b], target[b], *records, b, steps)
            for b, text in enumerate(texts or [""] * len(source))
        ]


def _native(given: Loaded | Model | str | Path) -> Loaded:
    """Return a native model; InputError for one that is run by its own program."""
    made = given if isinstance(given, Loaded) else opened(given)
    if not isinstance(made, Loaded):
        raise InputError(
            "“{name}” is run by its own program, which takes no batch: use "
            "visformer.Decoding and its feed.",
            name=made.name,
        )
    return made


def _texts(given: Any) -> list[str]:
    """Return the texts that are given in place of ids; none for ids."""
    texts = [given] if isinstance(given, str) else given
    several = isinstance(texts, list | tuple)
    return [*texts] if several and all(isinstance(x, str) for x in texts) else []


def _decoder_alone(checkpoint: Loaded) -> ModelFacts:
    alone = Description.of(checkpoint.config, ("decoder",))
    return replace(checkpoint.facts, **alone._asdict())


def allowed_masks(
    checkpoint: Loaded,
    source: Tensor,
    target: Tensor,
    given_lengths: Lengths | None,
    given_masks: GivenMasks,
    changed: Intervention,
) -> LayeredMasks:
    """Return what may be attended to: by the rule, as given, as changed."""
    rule, tokenizer, lengths = checkpoint.config.mask_rule, checkpoint.tokenizer, None
    if given_lengths is not None:
        lengths = _lengths(checkpoint, given_lengths, source)
    real = real_tokens(rule, source, tokenizer.source_pad, lengths)  # [B, S]
    shown = target != tokenizer.pad  # [B, T]
    check_padding(changed, padded=not (real.all() and shown[:, 1:].all()))
    original = _given(make_masks(rule, real, shown), given_masks, source, target)
    opened = original.decoder | make_masks(rule, real, shown, causal=False).decoder
    return modified_masks(changed, checkpoint.config, original, opened)


def _source(
    ids: IdRows | Texts | None,
    lengths: Lengths | None,
    checkpoint: Loaded,
    target: Tensor,
) -> Tensor:
    """Return the source [B, S]; S = 0 if the decoder runs alone."""
    if ids is None:
        if lengths is not None:
            raise InputError(
                "source_lengths needs source_ids. Leave it out, or give both."
            )
        return target[:, :0]
    source = _batch(ids, checkpoint, source=True)
    check_length("source", checkpoint.config.encoder_norm_length, source.shape[1])
    return source


def _nothing_encoded(target: Tensor, checkpoint: Loaded) -> StackRecord:
    """Return the record of an encoder that did not run, over no tokens."""
    width = checkpoint.config.d_model
    nothing = torch.zeros(len(target), 0, width, device=checkpoint.device)  # [B, 0, D]
    return StackRecord([nothing], [], [], nothing)


def _check_pair(checkpoint: Loaded, source: Tensor, target: Tensor) -> None:
    if len(source) != len(target):
        raise InputError(
            "The numbers of sources ({sources:,}) and targets ({targets:,}) "
            "differ, but must be equal.",
            sources=len(source),
            targets=len(target),
        )
    config = checkpoint.config
    check_length("target", config.decoder_norm_length, target.shape[1])
    if config.position_axis == "batch" and len(source) > config.max_positions:
        raise InputError(
            "The batch has {n:,} sentences, but the model's {most:,} positions run "
            "along the batch. Give fewer sentences.",
            n=len(source),
            most=config.max_positions,
        )


def _lengths(checkpoint: Loaded, given: Lengths, source: Tensor) -> Tensor:
    if not RULES[checkpoint.config.mask_rule].by_length:
        raise InputError(
            "source_lengths is only for models that mask by length; this one "
            "recognises padding by its id. Leave it out."
        )
    lengths = torch.tensor(as_ids("source_lengths", given), dtype=torch.int64)
    if lengths.shape != source.shape[:1] or bool((lengths < 0).any()):
        raise InputError(
            ngettext(
                "source_lengths must be {n} number, not negative, one per sentence.",
                "source_lengths must be {n} numbers, not negative, one per sentence.",
                len(source),
            )
        )
    return lengths.to(source.device)


def _given_mask(kind: Kind, given: object) -> Tensor:
    try:
        return torch.as_tensor(np.asarray(given))
    except (TypeError, ValueError, RuntimeError):
        allowed = _("an array of True and False")
        raise wrong_type(f"masks[“{kind}”]", given, allowed) from None


def _given(
    rule_masks: Masks, given: GivenMasks, source: Tensor, target: Tensor
) -> Masks:
    """Expand the rule's masks to [B, Q, K]; given ones replace them."""
    batch, rows, columns = len(source), target.shape[1], source.shape[1]
    shapes = [(columns, columns), (rows, rows), (rows, columns)]
    if not isinstance(given, Mapping):
        raise wrong_type("masks", given, _("a dict of masks by kind of attention"))
    for kind in given:
        one_of("masks", kind, KINDS)
    masks = []
    for kind, mask, shape in zip(KINDS, rule_masks, shapes, strict=True):
        if kind in given:
            mask = _given_mask(kind, given[kind])
            if mask.dtype != torch.bool or mask.shape != (batch, *shape):
                raise InputError(
                    "The {kind} mask must be bool {expected}, but is {dtype} {found}.",
                    kind=kind,
                    expected=[batch, *shape],
                    dtype=mask.dtype,
                    found=list(mask.shape),
                )
        masks.append(mask.to(source.device).expand(batch, *shape))
    return Masks(*masks)


def _rows(argument: str, ids: IdRows | Texts, size: int) -> Tensor:
    """Return a batch of ids, int64 [B, T]; an error for what is not one.

    Numbers in lists may be of any magnitude: they are compared with ``size`` here.
    """
    if isinstance(ids, np.ndarray | Tensor):
        given = torch.as_tensor(ids)
        if not given.is_floating_point() and given.dtype != torch.bool:
            return given.to(torch.int64)
    if not is_several(ids):
        raise wrong_type(argument, ids, _("rows of token ids"))
    rows = [as_ids(f"{argument}[{at}]", row) for at, row in enumerate(ids)]
    for row in filter(None, rows):
        check_ids(row, size)
    if len(lengths := sorted(set(map(len, rows)))) > 1:
        raise InputError(
            "The rows of {argument} have {least} to {most} tokens: pad them to "
            "one length.",
            argument=argument,
            least=lengths[0],
            most=lengths[-1],
        )
    return torch.tensor(rows, dtype=torch.int64)


def _batch(ids: IdRows | Texts, checkpoint: Loaded, *, source: bool) -> Tensor:
    side, positions = checkpoint.tokenizer, checkpoint.config.max_positions
    size = side.source.size if source else side.target.size
    if texts := [] if source else _texts(ids):
        rows = [[side.bos, *side.encode_target(text), side.eos] for text in texts]
        ids = padded(rows, side.pad)
    batch = _rows("source_ids" if source else "target_ids", ids, size)
    if batch.dim() != 2:
        raise InputError(
            "The ids must have shape [batch, length], but have {shape}.",
            shape=list(batch.shape),
        )
    if batch.shape[1] > positions:
        raise InputError(
            "There are {n:,} tokens, but the model has only {most:,} positions.",
            n=batch.shape[1],
            most=positions,
        )
    check_ids(batch.flatten().tolist(), size)
    return batch.to(checkpoint.device)


def _trace(
    checkpoint: Loaded,
    facts: ModelFacts,
    text: str,
    source: Tensor,
    target: Tensor,
    allowed: LayeredMasks,
    intervention: Intervention,
    encoded: StackRecord,
    decoded: StackRecord,
    row: int,
    steps: bool,
) -> Trace:
    """Extract one row from a batch's records."""
    final, tokenizer = checkpoint.config.final_norm, checkpoint.tokenizer
    start = empty_trace(
        checkpoint,
        SourceTokens(source.tolist(), text=text),
        encoder=stack_rows(encoded, final_norm=final)[row],
        memory=memory_rows(decoded)[row],
        mask=host_mask(allowed.encoder, row),
        intervention=intervention,
    )
    ids = target.tolist()
    masks = dict(zip(KINDS, (host_mask(mask, row) for mask in allowed), strict=True))
    return replace(
        start,
        model=facts,
        encoder_rows=start.encoder_rows[:, : Columns(facts).width("encoder")],
        target=tuple(tokenizer.target.token(i) for i in ids),
        target_ids=read_only(np.array(ids, np.int64)),
        steps=_steps(checkpoint, decoded.output[row], ids) if steps else (),
        decoder_rows=host(stack_rows(decoded, final_norm=final)[row]),
        masks={kind: masks[kind] for kind in facts.kinds},
        own_weights=_own_weights(checkpoint, start, allowed, encoded, decoded, row),
        own_lens=partial(read_streams, checkpoint),
    )


def _own_weights(
    checkpoint: Loaded,
    start: Trace,
    allowed: LayeredMasks,
    encoded: StackRecord,
    decoded: StackRecord,
    row: int,
) -> OwnWeights:
    """Return a function that recomputes a pass's weights, by the same operations."""
    projections = {
        "encoder": encoded.attention,
        "decoder": decoded.attention,
        "cross": decoded.cross,
    }
    masks = dict(zip(KINDS, allowed, strict=True))
    config = checkpoint.config

    @torch.inference_mode()
    def weights(kind: Kind, layer: int, head: int | None) -> Floats:
        queries, keys, _values = projections[kind][layer]  # [B, Q, D], [B, K, D]
        q, k = (split_heads(x, config.heads) for x in (queries, keys))  # [B, H, ., d]
        first, only = 0, q.numel() // q.shape[-1] * k.shape[2] > WHOLE_LAYER
        if head is not None and only:
            first, q, k = head, q[:, head : head + 1], k[:, head : head + 1]
        mask = masks[kind]
        mask = mask if isinstance(mask, Tensor) else mask[layer]
        with few_threads(q.numel() * k.shape[2]):
            changes = replace(start.intervention.at(kind, layer), head=first)
            blocks = list(weights_by_blocks(q, k, mask, config.masked_value, changes))
        heads = host(torch.cat([block[row] for block in blocks], 1))  # [H, Q, K]
        return heads if head is None else read_only(heads[head - first])

    return weights


def _steps(checkpoint: Loaded, output: Tensor, ids: list[int]) -> tuple[Step, ...]:
    token = checkpoint.tokenizer.target.token
    following = NextTokens(checkpoint.model.output(output))
    chosen = [*ids[1:], int(following.best[-1, 0])]
    decode = checkpoint.tokenizer.decode
    return tuple(
        following.step(
            t,
            Choice(id, "reference" if t + 1 < len(ids) else "model"),
            decode(chosen[: t + 1]),
            token,
        )
        for t, id in enumerate(chosen)
    )
