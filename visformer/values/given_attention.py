"""Traces of attention weights that are given as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from visformer.arguments import is_several, one_of, wrong_type, wrong_value
from visformer.errors import InputError
from visformer.language import _
from visformer.values.arrays import Bools, Floats, read_only
from visformer.values.facts import KINDS, SIDES, AttentionFacts, Kind, ModelFacts
from visformer.values.row_columns import Columns, RowsName
from visformer.values.trace import Trace


def traces_of_weights(
    attentions: Mapping[Any, Any],
    source_tokens: Sequence[str] | None,
    target_tokens: Sequence[str] | None,
) -> list[Trace]:
    """Return a Trace for each row of the batch.

    ``attentions`` has for each kind a list with, of each layer, an array (or a tensor)
    [B, H, Q, K], or [H, Q, K] of one row. Tokens that are not given are numbered.
    Raises TypeError or InputError for what does not fit together.
    """
    if not isinstance(attentions, Mapping) or not attentions:
        allowed = _("a list of arrays for each kind of attention")
        raise wrong_type("attentions", attentions, allowed)
    layers: dict[Kind, list[Floats]] = {}
    for kind in attentions:
        one_of("attentions", kind, KINDS)
    for kind in KINDS:
        if kind in attentions:
            layers[kind] = _layers(kind, attentions[kind])
    rows = {len(one) for several in layers.values() for one in several}
    sizes = _lengths(layers)
    if len(rows) != 1:
        allowed = _("arrays of one number of batch rows")
        raise wrong_value("attentions", sorted(rows), allowed)
    given = {"source": source_tokens, "target": target_tokens}
    tokens = {side: _tokens(side, given[side], n) for side, n in sizes.items()}
    return [
        _trace(layers, row, tokens["source"], tokens["target"])
        for row in range(rows.pop())
    ]


def _layers(kind: Kind, given: Any) -> list[Floats]:
    if not is_several(given):
        allowed = _("a list of arrays for each kind of attention")
        raise wrong_type("attentions", given, allowed)
    layers = []
    for one in given:
        if hasattr(one, "detach"):  # a tensor of torch, which is not imported here
            one = one.detach().float().cpu().numpy()
        array = np.asarray(one, np.float32)
        array = array[None] if array.ndim == 3 else array
        if array.ndim != 4:
            allowed = _("arrays of [batch, heads, queries, keys]")
            raise wrong_value(f"attentions[{kind!r}]", array.shape, allowed)
        layers.append(array)
    if len({one.shape for one in layers}) != 1:
        allowed = _("one or more layers of one shape")
        shapes = [one.shape for one in layers]
        raise wrong_value(f"attentions[{kind!r}]", shapes, allowed)
    return layers


def _lengths(layers: Mapping[Kind, Sequence[Floats]]) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for kind, several in layers.items():
        for side, n in zip(SIDES[kind], several[0].shape[2:], strict=True):
            if lengths.setdefault(side, n) != n:
                raise InputError(
                    "The {kind} attention has {n:,} {side} tokens, but {other:,} "
                    "were found before.",
                    kind=kind,
                    n=n,
                    side=side,
                    other=lengths[side],
                )
    return {"source": 0, "target": 0, **lengths}


def _tokens(side: str, given: Sequence[str] | None, length: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(at + 1) for at in range(length))
    if len(given) != length:
        allowed = _("{n} tokens, as many as there are weights for", n=length)
        raise wrong_value(f"{side}_tokens", list(given), allowed)
    return tuple(map(str, given))


def _trace(
    layers: Mapping[Kind, Sequence[Floats]],
    row: int,
    source: tuple[str, ...],
    target: tuple[str, ...],
) -> Trace:
    model = ModelFacts(
        attention={
            kind: AttentionFacts(
                scales=(1.0,) * len(several),
                heads=several[0].shape[1],
                key_heads=several[0].shape[1],
                head_size=1,
                value_size=1,
                masked_value=-np.inf,
            )
            for kind, several in layers.items()
        },
        stacks={},
        known=None,
        name=_("given weights"),
        digest="",
        layout="given",
        device="cpu",
        parameters=0,
        pad=-1,
        bos=-1,
        eos=-1,
    )
    columns = Columns(model)

    def nothing(rows: RowsName, length: int) -> Floats:
        return read_only(np.zeros((length, columns.width(rows)), np.float32))

    def read(several: Sequence[Floats]) -> Bools:
        return np.asarray((np.stack(several)[:, row] != 0).any((0, 1)))

    return Trace(
        model=model,
        source_text=" ".join(source),
        source=source,
        source_ids=np.zeros(len(source), np.int64),
        source_spans=(),
        target=target,
        target_ids=np.zeros(len(target), np.int64),
        steps=(),
        encoder_rows=nothing("encoder", len(source)),
        memory_rows=nothing("memory", len(source)),
        decoder_rows=nothing("decoder", len(target)),
        masks={kind: read(several) for kind, several in layers.items()},
        captured={
            (kind, layer): read_only(np.ascontiguousarray(one[row]))
            for kind, several in layers.items()
            for layer, one in enumerate(several)
        },
    )
