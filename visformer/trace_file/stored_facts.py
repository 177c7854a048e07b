"""The facts of a run as a file holds them: JSON, checked before anything is built."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from visformer.errors import VisformerError
from visformer.trace_file.file_blocks import Payload
from visformer.trace_file.stored_steps import MOST_ID, candidates_from
from visformer.values.config import LIMITS
from visformer.values.facts import (
    KINDS,
    STACKS,
    AttentionFacts,
    Description,
    Kind,
    ModelFacts,
)
from visformer.values.finding import Certificate
from visformer.values.intervention import Intervention
from visformer.values.step import Candidates, chosen_tokens
from visformer.values.trace import Trace

MOST_NAME = 1000  # characters of the name of a model, a run, a block
MOST_TEXT = 1_000_000  # characters of a sentence
MOST_HEIGHT = 1 << 16  # rows per block
MOST_PARAMETERS = 1 << 50
SMALLEST, LARGEST = 1e-30, 1e30  # of a scale: its reciprocal is a float32 as well

# what reading other people's JSON as facts can raise
DAMAGE = (
    VisformerError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class RunSelection(msgspec.Struct, frozen=True, kw_only=True):
    """What of a run was looked at when it was saved."""

    kind: Kind = "cross"
    layer: int = 0
    head: int = 0
    step: int | None = None  # None: the last one
    tab: str = "attention"


class StoredBias(msgspec.Struct, frozen=True, kw_only=True):
    """One layer's bias: where its numbers are, and their form."""

    form: Literal["distance", "full"]
    layer: int  # in whose blocks the numbers are: layers may share them
    heads: int
    zero: int = 0  # of a table by distance
    width: int = 0  # its columns


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All of a run but its numbers: what the block ``RUN/facts`` holds."""

    model: ModelFacts
    source_text: str
    source: tuple[str, ...]
    source_ids: tuple[int, ...]
    source_spans: tuple[tuple[int, int], ...]
    target: tuple[str, ...]
    target_ids: tuple[int, ...]
    chosen: tuple[str, ...]  # the token of each step; none where steps were not kept
    text: str  # of the last step
    height: int  # rows per block, of all arrays of the run
    prompt: int = 0
    truncated_from: int = 0
    intervention: list[dict[str, Any]] | dict[str, Any]  # a dict in older files
    # by token: id, token and probability of each candidate; null is NaN
    fills: tuple[tuple[int, tuple[tuple[int, str, float | None], ...]], ...] = ()
    layered_masks: tuple[Kind, ...] = ()  # kinds whose layers have masks of their own
    biases: dict[Kind, tuple[StoredBias, ...]] = {}
    captured: tuple[tuple[Kind, int], ...] = ()
    encoder_of: int = 0  # the number of the run whose encoder rows it shares
    memory_of: int = 0
    certificate: Certificate | None = None
    name: str = ""
    note: str = ""
    selection: RunSelection | None = None


class CheckedFacts(NamedTuple):
    """Facts that passed every check, and what was built of them."""

    facts: RunFacts
    intervention: Intervention
    fills: Mapping[int, Candidates]


def facts_json(trace: Trace, **more: Any) -> bytes:
    """Return the facts of a Trace as JSON; ``more`` are fields of ``RunFacts``."""
    fills = [
        (at, [(c.id, c.token, _or_null(c.probability)) for c in candidates])
        for at, candidates in trace.fills.items()
    ]
    facts = {
        "model": plain_model(trace.model),
        "source_text": trace.source_text,
        "source": trace.source,
        "source_ids": trace.source_ids.tolist(),
        "source_spans": trace.source_spans,
        "target": trace.target,
        "target_ids": trace.target_ids.tolist(),
        "chosen": chosen_tokens(trace.steps),
        "text": trace.text,
        "prompt": trace.prompt,
        "truncated_from": trace.truncated_from,
        "intervention": trace.intervention.to_json(),
        "fills": fills,
        "certificate": _certificate(trace),
        **more,
    }
    # a lone surrogate, which UTF-8 does not have, becomes a question mark
    return json.dumps(facts, ensure_ascii=False, allow_nan=False).encode(
        "utf-8", "replace"
    )


def read_facts(payload: Payload, run: int) -> CheckedFacts:
    """Return the facts of run number ``run``; one of ``DAMAGE`` where they are not."""
    return checked(msgspec.json.decode(payload), run)


def checked(data: Any, run: int = 0) -> CheckedFacts:
    """Return facts from plain data; raises one of ``DAMAGE`` where a check fails."""
    model = data["model"]
    for place in (*model["attention"].values(), model.get("known") or {}):
        if isinstance(place.get("masked_value"), str):
            place["masked_value"] = _number(place["masked_value"])
    facts = msgspec.convert(data, RunFacts)
    _check_model(facts.model)
    _check_tokens(facts)
    _check_numbers(facts, run)
    _check_biases(facts)
    intervention = Intervention.from_json(facts.intervention)
    intervention.check(facts.model, len(facts.source))
    return CheckedFacts(facts, intervention, _fills(facts))


# ---- numbers that JSON does not have -------------------------------------------------


def plain_model(model: ModelFacts | Description) -> dict[str, Any]:
    """Return what is known of a model, or a part of it, as data for JSON."""
    known = model._asdict() if isinstance(model, Description) else model
    facts: dict[str, Any] = msgspec.to_builtins(known)
    facts["attention"] = {k: _finite(v) for k, v in facts["attention"].items()}
    if facts["known"] is not None:
        facts["known"] = _finite(facts["known"])
    return facts


def _finite(facts: dict[str, Any]) -> dict[str, Any]:
    """Write a masked value that is not finite as text: “-inf”."""
    value = facts["masked_value"]
    if value is None or math.isfinite(value):
        return facts
    return {**facts, "masked_value": str(float(value))}


def _certificate(trace: Trace) -> dict[str, Any] | None:
    """Return a Trace's certificate; a difference that is infinite is the largest."""
    if trace.certificate is None:
        return None
    plain: dict[str, Any] = msgspec.to_builtins(trace.certificate)
    for name in ("worst", "output_difference"):
        if plain[name] is not None:
            plain[name] = min(plain[name], LARGEST)
    return plain


def _number(text: str) -> float:
    if text != "-inf":
        raise ValueError("masked_value")
    return -math.inf


def _or_null(share: float) -> float | None:
    return None if math.isnan(share) else share


# ---- checks --------------------------------------------------------------------------


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_model(model: ModelFacts) -> None:
    _require(bool(model.attention), "model.attention")
    for kind, facts in model.attention.items():
        _check_attention(kind, facts)
    for name, stack in model.stacks.items():
        _require(1 <= stack.d_model <= LIMITS["d_model"], f"{name}.d_model")
        layers = LIMITS["encoder_layers"]
        _require(0 <= stack.hidden <= layers + 1, f"{name}.hidden")
    for text in (model.name, model.digest, model.layout, model.device):
        _require(len(text) <= MOST_NAME, "model.name")
    for count in (model.parameters, *(block.parameters for block in model.blocks)):
        _require(0 <= count <= MOST_PARAMETERS, "model.parameters")
    for special in (model.pad, model.bos, model.eos, model.source_pad or 0):
        _require(-1 <= special <= MOST_ID, "model.pad")
    for block in model.blocks:
        _require(max(len(block.block), len(block.shared)) <= MOST_NAME, "model.blocks")
    _check_known(model)


def _check_attention(kind: str, facts: AttentionFacts) -> None:
    _require(1 <= facts.layers <= LIMITS["encoder_layers"], f"{kind}.scales")
    for scale in facts.scales:
        _require(SMALLEST <= abs(scale) <= LARGEST, f"{kind}.scales")
    _require(1 <= facts.heads <= LIMITS["heads"], f"{kind}.heads")
    _require(1 <= facts.key_heads <= facts.heads, f"{kind}.key_heads")
    _require(facts.heads % facts.key_heads == 0, f"{kind}.key_heads")
    for size in (facts.head_size, facts.value_size):
        _require(1 <= size <= LIMITS["d_model"], f"{kind}.head_size")
    _check_masked_value(facts.masked_value)


def _check_masked_value(value: float | None) -> None:
    limit = float(np.finfo(np.float32).max)
    fits = value is None or value == -math.inf or abs(value) <= limit
    _require(fits, "masked_value")


def _check_known(model: ModelFacts) -> None:
    """Check that the facts agree with the config, where that is known."""
    config = model.known
    if config is None:
        return
    _check_masked_value(config.masked_value)
    _require(0 <= config.norm_eps < 1, "known.norm_eps")
    layers = {"encoder": config.encoder_layers}
    for kind in KINDS:
        if kind in model.attention:
            known = layers.get(kind, config.decoder_layers)
            _require(model.layers(kind) == known, f"{kind}.scales")
            _require(model.attention[kind].heads == config.heads, f"{kind}.heads")
    for name in STACKS:
        if name in model.stacks:
            stack = model.stacks[name]
            hidden = layers.get(name, config.decoder_layers) + 1
            _require(stack.d_model == config.d_model, f"{name}.d_model")
            _require(stack.hidden in (0, hidden), f"{name}.hidden")


def _check_tokens(facts: RunFacts) -> None:
    kinds, spans = facts.model.attention, facts.source_spans
    source, target = len(facts.source), len(facts.target)
    _require(len(facts.source_ids) == source, "source_ids")
    _require(len(facts.target_ids) == target, "target_ids")
    _require(len(facts.chosen) in (0, target), "chosen")
    _require(not source or bool({"encoder", "cross"} & set(kinds)), "source")
    _require(not target or bool({"decoder", "cross"} & set(kinds)), "target")
    for id in (*facts.source_ids, *facts.target_ids):
        _require(-1 <= id <= MOST_ID, "source_ids or target_ids")
    _require(len(facts.source_text) <= MOST_TEXT, "source_text")
    _require(not spans or len(spans) == source, "source_spans")
    for start, stop in spans:
        _require(0 <= start <= stop <= len(facts.source_text), "source_spans")


def _check_numbers(facts: RunFacts, run: int) -> None:
    _require(0 <= facts.prompt <= len(facts.target), "prompt")
    _require(0 <= facts.truncated_from <= MOST_ID, "truncated_from")
    _require(1 <= facts.height <= MOST_HEIGHT, "height")
    _require(0 <= facts.encoder_of <= run, "encoder_of")
    _require(0 <= facts.memory_of <= run, "memory_of")
    made = facts.certificate
    said = () if made is None else (*made.missed, *made.checks)
    _require(sum(map(len, said)) <= MOST_TEXT, "certificate")
    _require(len(facts.name) <= MOST_NAME, "name")
    _require(len(facts.note) <= MOST_TEXT, "note")
    chosen, kinds = facts.selection or RunSelection(), facts.model.attention
    step = 0 if chosen.step is None else chosen.step
    for number in (chosen.layer, chosen.head, step):
        _require(0 <= number <= MOST_ID, "selection")
    _require(len(chosen.tab) <= MOST_NAME, "selection")
    _require(set(facts.layered_masks) <= set(kinds), "layered_masks")
    for kind, layer in facts.captured:
        _require(0 <= layer < facts.model.layers(kind), "captured")


def _check_biases(facts: RunFacts) -> None:
    for kind, biases in facts.biases.items():
        layers = facts.model.layers(kind)
        _require(len(biases) == layers, "biases")
        for bias in biases:
            heads = facts.model.attention[kind].heads
            of_all = bias.form == "full" and bias.heads == 1
            _require(of_all or bias.heads == heads, "biases")
            _require(0 <= bias.layer < layers, "biases")
            _require(biases[bias.layer] == bias, "biases")
            if bias.form == "distance":
                _require(0 <= bias.zero < bias.width <= MOST_TEXT, "biases")


def _fills(facts: RunFacts) -> dict[int, Candidates]:
    fills = {}
    for at, candidates in facts.fills:
        _require(0 <= at < len(facts.source), "fills")
        ids = np.array([id for id, _, _ in candidates], np.int64)
        shares = np.array([share for *_, share in candidates], np.float64)  # None: NaN
        tokens = [token for _, token, _ in candidates]
        fills[at] = candidates_from(ids, tokens, shares)
    return fills
