"""The keys and values that a decoder keeps between steps: maps, sizes and costs."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from visformer.language import N_, _
from visformer.pictures.attention.maps import labels
from visformer.pictures.picture import AttentionRole, Matrix, Numbers, largest
from visformer.pictures.picture import signed_shade as shaded
from visformer.pictures.positions import ends
from visformer.pictures.words.absent import has_target
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES

KINDS_KEPT: tuple[Kind, ...] = ("decoder", "cross")
PARTS: dict[AttentionRole, str] = {"key": "K", "value": "V"}
BYTES = 4  # of a float32
WOULD = N_("A cache would hold what is shown here.")


def recomputes(trace: Trace) -> bool:
    """Whether each step recomputes all rows, so that nothing is cached.

    True under a change that acts on whole passes, and if a row that may attend to
    nothing attends equally to all tokens, including later ones.
    """
    if trace.intervention.whole or trace.intervention.reaches_back:
        return True
    facts = trace.model.attention.get("decoder")
    if facts is None or facts.masked_value == -math.inf or not len(trace):
        return False
    return not bool(np.asarray(trace.masks["decoder"]).any(-1).all())


def kept_words(trace: Trace | None) -> str:
    """Say what is cached at this step, or why nothing is."""
    if trace is None:
        return _("No sentence has been run yet.")
    if not has_target(trace):
        return _("This model has no decoder: nothing is kept between steps.")
    rows = len(trace)
    if trace.model.known is None:
        found = _(
            "This model was recorded in passes over all tokens: nothing is kept from "
            "step to step."
        )
        return f"{found} {_(WOULD)}"
    if recomputes(trace):
        found = _(
            "This run keeps nothing: with its change or its mask, each step recomputes "
            "all rows."
        )
        return f"{found} {_(WOULD)}"
    if rows and all(step.origin == "reference" for step in trace.steps):
        found = _(
            "The reference is read in one pass, all {rows:,} rows at once: nothing "
            "needs to be kept.",
            rows=rows,
        )
        return f"{found} {_(WOULD)}"
    said = []
    if rows == 1:
        said.append(_("Step 1 makes the first key and value, which are kept."))
    elif rows:
        said.append(
            _(
                "At step {step} only row {step} is new: its key and value join those "
                "that were kept, and no earlier row is computed again.",
                step=rows,
            )
        )
    if "cross" in trace.kinds:
        said.append(
            _(
                "The keys and values of cross-attention are computed once, from the "
                "encoder's output, and used at every step."
            )
        )
    return " ".join(said) or _("Nothing is decoded yet. Step forward.")


def cache_maps(trace: Trace, layer: int, head: int) -> dict[tuple[Kind, str], Matrix]:
    """Return K and V of a head [rows, d], by kind and letter."""
    found = {}
    for kind in KINDS_KEPT:
        if kind not in trace.kinds:
            continue
        at = min(layer, trace.layers(kind) - 1), min(head, trace.heads(kind) - 1)
        both = trace.keys(kind, *at), trace.values(kind, *at)
        names = labels(trace, kind)[1]
        for (role, letter), values in zip(PARTS.items(), both, strict=True):
            reach = largest(values)
            found[kind, letter] = Matrix(
                title=_(
                    "{part} of {kind} [{rows}, {width}]",
                    part=letter,
                    kind=_(KIND_NAMES[kind]),
                    rows=len(values),
                    width=values.shape[1],
                ),
                values=values,
                shade=shaded(values, reach),
                rows=names,
                columns=tuple(map(str, range(values.shape[1]))),
                row_axis=_("token"),
                column_axis=_("head dimension (dim)"),
                column_unit=_("dim"),
                ends=ends(reach),
                note="",
                signed=True,
                row_role="key",
                role=role,
            )
    return found


def size_table(trace: Trace) -> Numbers | None:
    """Count the numbers of all keys and values, and their bytes; None if none."""
    kinds = [kind for kind in KINDS_KEPT if kind in trace.kinds]
    if not kinds:
        return None
    names: list[str] = []
    each, every, new = [], [], []
    for kind in kinds:
        facts = trace.model.attention[kind]
        rows = len(trace.tokens(kind)[1])
        for letter, size in (("K", facts.head_size), ("V", facts.value_size)):
            width = facts.key_heads * size
            names.append(f"{_(KIND_NAMES[kind])} {letter}")
            each.append(rows * width)
            every.append(rows * width * facts.layers)
            grows = kind == "decoder" and len(trace) > 0
            new.append(width * facts.layers if grows else 0)
    lines = [[*line, sum(line), BYTES * sum(line)] for line in (each, every, new)]
    return Numbers(
        rows=(_("one layer"), _("all layers"), _("new at this step")),
        columns=(*names, _("numbers"), _("bytes")),
        values=cast("Floats", np.array(lines, np.float64)),
        axis="",
        by="column",
        counts=True,
    )


def size_words(trace: Trace) -> str:
    """Say how the cache's size follows from the model's shapes."""
    table, products = size_table(trace), []
    for kind in KINDS_KEPT if table is not None else ():
        if kind in trace.kinds:
            facts = trace.model.attention[kind]
            products.append(
                _(
                    "{kind}: {rows:,} tokens × ({keys:,} + {values:,}) × {layers} "
                    "layers",
                    kind=_(KIND_NAMES[kind]),
                    rows=len(trace.tokens(kind)[1]),
                    keys=facts.key_heads * facts.head_size,
                    values=facts.key_heads * facts.value_size,
                    layers=facts.layers,
                )
            )
    if table is None:
        return ""
    numbers, memory = (float(one) for one in table.values[1, -2:])
    return _(
        "{products}: {numbers:,.0f} float32 numbers, {memory:,.0f} bytes.",
        products="; ".join(products),
        numbers=numbers,
        memory=memory,
    )


def cost_table(trace: Trace) -> Numbers | None:
    """Count a step's multiply-adds in all decoder layers, with and without a cache.

    None if the sizes of the model's layers are unknown, and before step 1.
    """
    rows, config = len(trace), trace.model.known
    if config is None or not rows or "decoder" not in trace.kinds:
        return None
    width, inner = config.d_model, config.feed_forward
    lines = []
    for computed, is_kept in ((1, True), (rows, False)):
        projected = scores = weighted = joined = 0
        for kind in KINDS_KEPT:
            if kind not in trace.kinds:
                continue
            facts, keys = trace.model.attention[kind], len(trace.tokens(kind)[1])
            both = facts.key_heads * (facts.head_size + facts.value_size)
            made = computed if kind == "decoder" else 0 if is_kept else keys
            projected += computed * width * facts.heads * facts.head_size
            projected += made * width * both
            scores += computed * keys * facts.heads * facts.head_size
            weighted += computed * keys * facts.heads * facts.value_size
            joined += computed * width * facts.heads * facts.value_size
        feed = computed * (3 if config.gated else 2) * width * inner
        line = (projected, scores, weighted, joined, feed)
        lines.append([config.decoder_layers * one for one in (*line, sum(line))])
    return Numbers(
        rows=(_("with a cache"), _("without")),
        columns=(_("to Q, K, V"), "QKᵀ", "× V", "× Wₒ", "FFN", _("sum")),
        values=cast("Floats", np.array(lines, np.float64)),
        axis="",
        by="column",
        counts=True,
    )


def cost_words(trace: Trace | None) -> str:
    """Compare the two rows of ``cost_table``; "" without it."""
    table = None if trace is None else cost_table(trace)
    if table is None or trace is None:
        return ""
    kept, again = (float(line[-1]) for line in table.values)
    return _(
        "Multiply-adds of step {step} in all decoder layers: {kept:,.0f} with a cache; "
        "{again:,.0f} if it computes all rows again, {times} times as many.",
        step=len(trace),
        kept=kept,
        again=again,
        times=f"{again / kept:.1f}",
    )
