"""The keys and values that a decoder keeps between steps: maps, sizes and costs."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from visformer.language import N_, _, clauses, sentences
from visformer.pictures.attention.maps import labels
from visformer.pictures.picture import (
    AttentionRole,
    Matrix,
    Numbers,
    largest,
    signed_shade,
)
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


def kept_kinds(trace: Trace | None) -> list[Kind]:
    """Return the kinds of attention whose keys and values are kept."""
    return [kind for kind in KINDS_KEPT if trace is not None and kind in trace.kinds]


def map_name(kind: Kind, letter: str) -> str:
    """Name the keys "K" or the values "V" of a kind of attention."""
    return _("{part} of {kind}", part=letter, kind=_(KIND_NAMES[kind]))


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
    rows, said, why = len(trace), [], ""
    if trace.model.known is None or (rows and not trace.steps):
        why = _(
            "This model was recorded in passes over all tokens: nothing is kept from "
            "step to step."
        )
    elif recomputes(trace):
        why = _(
            "This run keeps nothing: with its change or its mask, each step recomputes "
            "all rows."
        )
    elif rows and all(step.origin == "reference" for step in trace.steps):
        why = _(
            "The reference is read in one pass, all {rows:,} rows at once: nothing "
            "needs to be kept.",
            rows=rows,
        )
    if why:
        return sentences((why, _(WOULD)))
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
    return sentences(said) or _("Nothing is decoded yet. Step forward.")


def cache_maps(trace: Trace, layer: int, head: int) -> dict[tuple[Kind, str], Matrix]:
    """Return K and V of a head [rows, d], by kind and letter."""
    found = {}
    for kind in kept_kinds(trace):
        at = min(layer, trace.layers(kind) - 1), min(head, trace.heads(kind) - 1)
        both = trace.keys(kind, *at), trace.values(kind, *at)
        for (role, letter), values in zip(PARTS.items(), both, strict=True):
            rows, width = values.shape
            reach = largest(values)
            found[kind, letter] = Matrix(
                title=f"{map_name(kind, letter)} [{rows}, {width}]",
                values=values,
                shade=signed_shade(values, reach),
                rows=labels(trace, kind)[1],
                columns=tuple(map(str, range(width))),
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


def _counts(
    rows: tuple[str, ...], columns: tuple[str, ...], lines: Sequence[object]
) -> Numbers:
    # float64: float32 would round counts
    values = cast("Floats", np.array(lines, np.float64))
    return Numbers(
        rows=rows, columns=columns, values=values, axis="", by="column", counts=True
    )


def sizes(trace: Trace) -> tuple[Numbers | None, str]:
    """Count the numbers of all keys and values, and their bytes; say what they are.

    None and "" where nothing is kept.
    """
    names, counts, products = [], [], []
    for kind in kept_kinds(trace):
        facts, tokens = trace.model.attention[kind], len(trace.tokens(kind)[1])
        widths = [
            facts.key_heads * size for size in (facts.head_size, facts.value_size)
        ]
        for letter, width in zip(PARTS.values(), widths, strict=True):
            new = width * facts.layers
            names.append(f"{_(KIND_NAMES[kind])} {letter}")
            grows = kind == "decoder" and len(trace) > 0
            counts.append((tokens * width, tokens * new, grows * new))
        product = _(
            "{kind}: {rows:,} tokens × ({keys:,} + {values:,}) × {layers} layers",
            kind=_(KIND_NAMES[kind]),
            rows=tokens,
            keys=widths[0],
            values=widths[1],
            layers=facts.layers,
        )
        products.append(product)
    if not names:
        return None, ""
    lines = [
        [*line, sum(line), BYTES * sum(line)] for line in zip(*counts, strict=True)
    ]
    rows = _("one layer"), _("all layers"), _("new at this step")
    words = _(
        "{products}: {numbers:,.0f} float32 numbers, {memory:,.0f} bytes.",
        products=clauses(products),
        numbers=lines[1][-2],
        memory=lines[1][-1],
    )
    return _counts(rows, (*names, _("numbers"), _("bytes")), lines), words


def costs(trace: Trace) -> tuple[Numbers | None, str]:
    """Count a step's multiply-adds in all decoder layers, with and without a cache.

    None and "" if the sizes of the model's layers are unknown, and before step 1.
    """
    rows, config = len(trace), trace.model.known
    if config is None or not rows or "decoder" not in trace.kinds:
        return None, ""
    width, lines = config.d_model, []
    for computed, is_kept in ((1, True), (rows, False)):
        feed = computed * (3 if config.gated else 2) * width * config.feed_forward
        counts = np.array([0, 0, 0, 0, feed])
        for kind in kept_kinds(trace):
            facts, keys = trace.model.attention[kind], len(trace.tokens(kind)[1])
            made = computed if kind == "decoder" else 0 if is_kept else keys
            made *= facts.key_heads * (facts.head_size + facts.value_size)
            query = computed * facts.heads * facts.head_size
            value = computed * facts.heads * facts.value_size
            counts[:4] += (
                width * (query + made),
                keys * query,
                keys * value,
                width * value,
            )
        lines.append(config.decoder_layers * np.array([*counts, counts.sum()]))
    columns = _("to Q, K, V"), "QKᵀ", "× V", "× Wₒ", "FFN", _("sum")
    kept, again = (int(line[-1]) for line in lines)
    words = _(
        "Multiply-adds of step {step} in all decoder layers: {kept:,.0f} with a cache; "
        "{again:,.0f} if it computes all rows again, {times} times as many.",
        step=rows,
        kept=kept,
        again=again,
        times=f"{again / kept:.1f}",
    )
    return _counts((_("with a cache"), _("without")), columns, lines), words
