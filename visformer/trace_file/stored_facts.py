"""The facts of a run as a file holds them: JSON, checked before anything is built."""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from visformer.errors import VisformerError
from visformer.trace_file.file_blocks import Payload
from visformer.values.config import LIMITS
from visformer.values.facts import (
    KINDS,
    STACKS,
    AttentionFacts,
    Kind,
    ModelFacts,
    ShortText,
    SpecialId,
)
from visformer.values.finding import Certificate
from visformer.values.intervention import Intervention
from visformer.values.step import Candidates, chosen_tokens
from visformer.values.trace import Trace

MOST_TEXT = 1_000_000  # characters
MOST_ID = (1 << 31) - 1
SMALLEST, LARGEST = 1e-30, 1e30  # of a scale: its reciprocal is a float32 as well

Natural = Annotated[int, Meta(ge=0, le=MOST_ID)]
LongText = Annotated[str, Meta(max_length=MOST_TEXT)]
Probability = Annotated[float, Meta(ge=0, le=1.001)]  # as rounding leaves it

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
    """The attention and the step that were shown when a run was saved."""

    kind: Kind = "cross"
    layer: Natural = 0
    head: Natural = 0
    step: Natural | None = None  # 0: before the first choice; None: after the last
    tab: ShortText = "attention"


class StoredBias(msgspec.Struct, frozen=True, kw_only=True):
    """One layer's bias: where its numbers are, and their form."""

    form: Literal["distance", "full"]
    layer: Natural  # in whose blocks the numbers are: layers may share them
    heads: int
    zero: Natural = 0  # of a table by distance
    width: Annotated[int, Meta(ge=0, le=MOST_TEXT)] = 0  # its columns


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All of a run but its numbers: the content of the block ``RUN/facts``."""

    model: ModelFacts
    source_text: LongText
    source: tuple[str, ...]
    source_ids: tuple[SpecialId, ...]
    source_spans: tuple[tuple[Natural, Natural], ...]
    target: tuple[str, ...]
    target_ids: tuple[SpecialId, ...]
    chosen: tuple[str, ...]  # the token of each step; none where steps were not kept
    text: str  # of the last step
    # rows per block, of all arrays of the run
    height: Annotated[int, Meta(ge=1, le=1 << 16)]
    prompt: Natural = 0
    truncated_from: Natural = 0
    intervention: list[dict[str, Any]] | dict[str, Any]  # a dict in older files
    # by token: id, token and probability of each candidate; null is NaN
    fills: tuple[
        tuple[Natural, tuple[tuple[Natural, str, Probability | None], ...]], ...
    ] = ()
    layered_masks: tuple[Kind, ...] = ()  # kinds whose layers have masks of their own
    biases: dict[Kind, tuple[StoredBias, ...]] = {}
    captured: tuple[tuple[Kind, Natural], ...] = ()
    encoder_of: Natural = 0  # the number of the run whose encoder rows it shares
    memory_of: Natural = 0
    certificate: Certificate | None = None
    name: ShortText = ""
    note: LongText = ""
    selection: RunSelection | None = None
    parent: Natural | None = None  # the number of the run that it was made from


class CheckedFacts(NamedTuple):
    """Facts that passed every check, and what was built of them."""

    facts: RunFacts
    intervention: Intervention
    fills: Mapping[int, Candidates]


_OF_TRACE = (  # facts that a Trace has under the same name
    *("source_text", "source", "source_spans", "target", "text", "prompt"),
    *("truncated_from", "certificate"),
)


def facts_json(trace: Trace, **more: Any) -> bytes:
    """Return the facts of a Trace as JSON; ``more`` are fields of ``RunFacts``."""
    facts = {
        **{name: getattr(trace, name) for name in _OF_TRACE},
        "model": trace.model,
        "source_ids": trace.source_ids.tolist(),
        "target_ids": trace.target_ids.tolist(),
        "chosen": chosen_tokens(trace.steps),
        "intervention": trace.intervention.to_json(),
        "fills": [(at, [*candidates]) for at, candidates in trace.fills.items()],
        **more,
    }
    plain = _strict(msgspec.to_builtins(facts))
    # a lone surrogate, which UTF-8 does not have, becomes a question mark
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def _strict(value: Any) -> Any:
    """Return data with numbers that JSON has: NaN is null, ∞ 1e30, -∞ the text."""
    if isinstance(value, dict):
        return {key: _strict(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(part) for part in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    return LARGEST if value > 0 else "-inf"


def read_facts(payload: Payload, run: int) -> CheckedFacts:
    """Return the facts of run number ``run``.

    Raises one of ``DAMAGE`` where they are not valid.
    """
    data = msgspec.json.decode(payload)
    model = data["model"]
    for place in (*model["attention"].values(), model.get("known") or {}):
        if place.get("masked_value") == "-inf":
            place["masked_value"] = -math.inf
    facts = msgspec.convert(data, RunFacts)
    _check_model(facts.model)
    _check_tokens(facts)
    _check_numbers(facts, run)
    _check_biases(facts)
    intervention = Intervention.from_json(facts.intervention)
    intervention.check(facts.model, len(facts.source))
    return CheckedFacts(facts, intervention, _fills(facts))


# ---- checks --------------------------------------------------------------------------


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_model(model: ModelFacts) -> None:
    _require(bool(model.attention), "model.attention")
    for kind, facts in model.attention.items():
        _check_attention(kind, facts)
    for name, stack in model.stacks.items():
        _require(0 <= stack.hidden <= LIMITS["encoder_layers"] + 1, f"{name}.hidden")
    _check_known(model)


def _check_attention(kind: str, facts: AttentionFacts) -> None:
    _require(1 <= facts.layers <= LIMITS["encoder_layers"], f"{kind}.scales")
    for scale in facts.scales:
        _require(SMALLEST <= abs(scale) <= LARGEST, f"{kind}.scales")
    _require(facts.heads % facts.key_heads == 0, f"{kind}.key_heads")
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
    _require(not spans or len(spans) == source, "source_spans")
    for start, stop in spans:
        _require(start <= stop <= len(facts.source_text), "source_spans")


def _check_numbers(facts: RunFacts, run: int) -> None:
    _require(facts.prompt <= len(facts.target), "prompt")
    _require(facts.encoder_of <= run, "encoder_of")
    _require(facts.memory_of <= run, "memory_of")
    made = facts.certificate
    said = () if made is None else (*made.missed, *made.checks)
    _require(sum(map(len, said)) <= MOST_TEXT, "certificate")
    _require(set(facts.layered_masks) <= set(facts.model.attention), "layered_masks")
    for kind, layer in facts.captured:
        _require(layer < facts.model.layers(kind), "captured")


def _check_biases(facts: RunFacts) -> None:
    for kind, biases in facts.biases.items():
        layers = facts.model.layers(kind)
        _require(len(biases) == layers, "biases")
        for bias in biases:
            heads = facts.model.attention[kind].heads
            of_all = bias.form == "full" and bias.heads == 1
            _require(of_all or bias.heads == heads, "biases")
            _require(bias.layer < layers and biases[bias.layer] == bias, "biases")
            _require(bias.form == "full" or bias.zero < bias.width, "biases")


def _fills(facts: RunFacts) -> dict[int, Candidates]:
    fills = {}
    for at, candidates in facts.fills:
        _require(at < len(facts.source), "fills")
        ids = np.array([id for id, _, _ in candidates], np.int64)
        shares = np.array([share for *_, share in candidates], np.float64)  # None: NaN
        fills[at] = Candidates(ids, [token for _, token, _ in candidates], shares)
    return fills
