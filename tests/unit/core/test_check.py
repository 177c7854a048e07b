"""The table of checks on Models: each finds its fault, and none finds one elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import visformer
from tests.tiny_models import EOS, tiny_checkpoint
from tests.unit.core.variants import faults, small
from visformer.core import check
from visformer.core.check import checking
from visformer.core.checkpoint import Checkpoint
from visformer.core.incremental import DecoderRows
from visformer.core.models import BatchRow, Model
from visformer.core.modified import as_intervention
from visformer.core.native_run import NativeRun
from visformer.core.parts import Dropout
from visformer.core.search import exhausted, search_run
from visformer.formats.loading import presets
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import KINDS
from visformer.values.finding import CheckResult
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.trace import Trace

TEXT = "abcdefgh"
BUNDLED = Path(__file__).parents[3] / "checkpoints"


def results(
    model: Model, text: str | None = TEXT, change: str = ""
) -> dict[str, CheckResult]:
    """Return what every check says, by its id."""
    source = None if text is None else model.vocabulary.read(text)
    made = as_intervention(change) if change else NO_CHANGES
    return {one.id: one for one in exhausted(checking(model, source, made))}


def wrong(found: dict[str, CheckResult], *verdicts: str) -> list[str]:
    """Return the ids of the findings with these verdicts."""
    return [id for id, one in found.items() if one.verdict in verdicts]


# ---- faults made on purpose ----------------------------------------------------------


class Fault(NamedTuple):
    """A model with a fault, what it runs, and what is to be said."""

    make: Callable[[], Checkpoint]
    change: str = ""
    verdict: str = "fault"
    text: str = TEXT
    said: str = ""  # of the evidence
    also: tuple[str, ...] = ()  # other faults that it has


def short(**sizes: Any) -> Checkpoint:
    """Return a tiny checkpoint whose runs, which do not end, have few steps."""
    return tiny_checkpoint(**{"max_positions": 20, **sizes})


def edited(edit: Callable[[Any], None], **sizes: Any) -> Callable[[], Checkpoint]:
    """Return what makes a tiny checkpoint and edits its module."""

    def make() -> Checkpoint:
        made = short(**sizes)
        with torch.no_grad():
            edit(made.model)
        return made

    return make


def layer(model: Any, stack: str = "encoder", at: int = 0) -> Any:
    return [*getattr(model, stack)][at]


def broken(model: Any) -> None:
    layer(model).feed_forward.w1.weight[0] = math.nan


def overflowing(model: Any) -> None:
    layer(model, "decoder").feed_forward.w2.weight.fill_(3e38)


def dropping(model: Any) -> None:
    for module in model.modules():
        if isinstance(module, Dropout):
            module.rate = 0.5
            module.train()


def same_heads(model: Any) -> None:
    attention = layer(model).self_attention
    for linear in (attention.query, attention.key):
        linear.weight[8:] = linear.weight[:8]
        linear.bias[8:] = linear.bias[:8]


def queries(model: Any, factor: float, rows: slice = slice(None)) -> None:
    query = layer(model).self_attention.query
    query.weight[rows] *= factor
    query.bias[rows] *= factor


def no_values(model: Any) -> None:
    value = layer(model, "decoder", 1).cross_attention.value
    value.weight[:8] = 0
    value.bias[:8] = 0


def untied(model: Any) -> None:
    model.output.weight = nn.Parameter(model.output.weight + 0.1)


def copied(model: Any) -> None:
    model.output.weight = nn.Parameter(model.output.weight.clone())


def endless(model: Any) -> None:
    model.output.bias[EOS] = -1e4


class StaleCache(Checkpoint):
    """Its steps read another token than the one before."""

    def begin(self, source: Any, change: Intervention, limit: int | None) -> Any:
        class Run(NativeRun):
            def to(self, consumed: Sequence[int], **given: Any) -> Any:
                ids = [*consumed]
                return super().to([ids[0], *ids[:1], *ids[2:]][: len(ids)], **given)

        return Run(self, source, change, limit)


class MixedBatch(Checkpoint):
    """Its padded rows get what another row reads."""

    def batch(self, rows: Sequence[BatchRow], changes: Any = ()) -> list[Trace]:
        traces = super().batch(rows, changes)
        if rows[0].source.ids == rows[-1].source.ids:
            return traces
        first, last = traces
        mixed = replace(first, decoder_rows=last.decoder_rows)
        return [mixed, last]


class LostParents(Checkpoint):
    """Its cache is not chosen as the ids of its beams are."""

    def begin(self, source: Any, change: Intervention, limit: int | None) -> Any:
        class Run(NativeRun):
            def beam_rows(self, beams: int) -> DecoderRows:
                rows: Any = super().beam_rows(beams)
                keep = rows.keep
                rows.keep = lambda kept, some: keep(kept.flip(0), some)
                made: DecoderRows = rows
                return made

        return Run(self, source, change, limit)


class LeastLikely(Checkpoint):
    """Its searches take the token that is the least likely."""

    def begin(self, source: Any, change: Intervention, limit: int | None) -> Any:
        class Run(NativeRun):
            def beam_rows(self, beams: int) -> DecoderRows:
                rows: Any = super().beam_rows(beams)
                following = rows.next
                rows.next = lambda ids: -following(ids)
                made: DecoderRows = rows
                return made

        return Run(self, source, change, limit)


class RandomCalls(Checkpoint):
    """Each of its passes adds some noise of its own."""

    def batch(self, rows: Sequence[BatchRow], changes: Any = ()) -> list[Trace]:
        noise = np.random.default_rng()
        return [
            replace(x, own_logits=x.logits + noise.random(x.logits.shape, np.float32))
            for x in super().batch(rows, changes)
        ]


def remade(kind: type[Checkpoint]) -> Callable[[], Checkpoint]:
    """Return what makes a tiny checkpoint of another class."""

    def make() -> Checkpoint:
        made = short()
        names = ("name", "layout", "config", "model", "tokenizer", "digest")
        return kind(**{name: getattr(made, name) for name in names})

    return make


def tiny(**sizes: Any) -> Callable[[], Checkpoint]:
    return lambda: short(**sizes)


def preset(name: str, **sizes: Any) -> Callable[[], Checkpoint]:
    return lambda: small(name, seed=5, **sizes)


def bundled(name: str) -> Callable[[], Checkpoint]:
    return lambda: visformer.load(BUNDLED / name, device="cpu")


FAULTS: dict[str, list[Fault]] = {
    "nan-parameter": [Fault(edited(broken), said="16 of its 512 numbers")],
    "nan-result": [Fault(edited(overflowing))],
    "dropout-on": [Fault(edited(dropping), said="modules")],
    "causal-off-by-one": [Fault(tiny(), "causal +1", said="row 1")],
    "not-causal": [
        Fault(tiny(), "causal off"),
        Fault(tiny(), "masked score -1", also=("padding-read",)),
        Fault(tiny(), "multiply", also=("padding-read",)),
    ],
    "padding-read": [Fault(tiny(mask_rule="causal"), said="a padding token")],
    "no-key": [
        Fault(tiny(), ";".join(f"cell cross 2 {key} off" for key in range(1, 10)))
    ],
    "not-scaled": [Fault(tiny(), "scale off", "note", said="sqrt(8)")],
    "wrong-scale": [
        Fault(tiny(), f"scale {0.5**0.5}", said="1/sqrt(16)"),
        Fault(tiny(), "scale 3", "note"),
    ],
    "rows-not-one": [Fault(tiny(), "cell cross 2 2 = 0.9 raw", said="Row 2")],
    "calls-differ": [Fault(remade(RandomCalls), verdict="note")],
    "positions-along-batch": [Fault(tiny(position_axis="batch"))],
    "batch-row-differs": [Fault(remade(MixedBatch))],
    "source-not-used": [Fault(tiny(), "head cross off")],
    "order-not-seen": [Fault(tiny(), "positions none")],
    "positions-restart": [Fault(tiny(position_axis="restart"), said="row 2")],
    "cached-steps-differ": [Fault(remade(StaleCache), said="Row 2")],
    "beam-order": [
        Fault(remade(LostParents), said="another sum"),
        Fault(remade(LeastLikely), said="is not greedy"),
    ],
    "not-tied": [
        Fault(edited(untied, tied_output=True), said="differ by 0.1"),
        Fault(edited(copied, tied_output=True), verdict="note"),
    ],
    "dead-head": [Fault(edited(no_values), verdict="note", said="1 of 12")],
    "uniform-head": [
        Fault(edited(lambda m: queries(m, 1e-4, slice(8))), verdict="note", said="1 of")
    ],
    "duplicate-heads": [Fault(edited(same_heads), verdict="note", said="1 and 2")],
    "collapsed-entropy": [
        Fault(edited(lambda m: queries(m, 1e4)), verdict="note", said="1 of 6")
    ],
    "unknown-tokens": [Fault(tiny(), verdict="note", text="abc猫de", said="token 4")],
    "end-never-likely": [Fault(edited(endless, output_bias=True), said="30 of 30")],
    "ended-by-limit": [Fault(tiny(), verdict="note", said="limit of")],
    "position-layout": [
        Fault(bundled("reverse"), "positions halves", text="attention")
    ],
}
CASES = [(id, fault) for id, several in FAULTS.items() for fault in several]


@pytest.mark.parametrize(
    ("id", "fault"), CASES, ids=[f"{id} {fault.change}" for id, fault in CASES]
)
def test_a_fault_made_on_purpose_is_found(id: str, fault: Fault) -> None:
    found = results(fault.make(), fault.text, fault.change)
    one = found[id]
    assert one.verdict == fault.verdict, wrong(found, "fault", "note")
    assert fault.said in one.what
    assert all((one.where, one.remedy, one.title))
    expected = [id] if fault.verdict == "fault" else []
    assert wrong(found, "fault") == [
        *expected,
        *fault.also,
    ]  # what follows from it is not said


def test_beams_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(*given: Any) -> Any:
        found: BeamSearch = yield from search_run(*given)
        return replace(found, sums=found.sums[:, ::-1])

    monkeypatch.setattr("visformer.core.check.search_run", turned)
    found = results(short())["beam-order"]
    assert (found.verdict, found.what[:5]) == ("fault", "Beam ")


# ---- no false alarm ------------------------------------------------------------------

SENTENCES = {"tatoeba-en-fr": "I have a cat.", "tatoeba-zh-en": "我有一只猫。"}


@pytest.mark.parametrize(
    "name", ["tatoeba-en-fr", "tatoeba-zh-en", "reverse", "blackboard"]
)
def test_bundled_models_have_no_fault(name: str) -> None:
    model = visformer.load(BUNDLED / name, device="cpu")
    found = results(model, SENTENCES.get(name, "dab"))
    assert wrong(found, "fault", "note") == []
    for id in ("cached-steps-differ", "batch-row-differs", "rows-not-one"):
        assert 0 <= (found[id].measured or 0.0) < 2e-6


LESSONS = {"d2l": ["positions-restart"]}
LESSONS |= {"labml": ["padding-read", "positions-along-batch"]}


@pytest.mark.parametrize("name", ["d2l", "handout", "labml", "modular", "scratch"])
def test_tutorials_have_their_own_faults_alone(name: str) -> None:
    model = visformer.load(BUNDLED / "lessons" / name, device="cpu")
    assert faults(model) == LESSONS.get(name, [])


@pytest.mark.parametrize("name", presets())
def test_untrained_models_have_no_other_fault(name: str) -> None:
    assert set(faults(small(name, seed=5, max_positions=30))) <= {
        *LESSONS.get(name, [])
    }


def test_what_cannot_be_looked_at_says_why() -> None:
    found = results(short(), None)
    skipped = [one for one in found.values() if one.verdict == "not applicable"]
    assert {"unknown-tokens", "ended-by-limit", "fast-path-nan"} <= {
        one.id for one in skipped
    }
    assert all(one.what.endswith(".") for one in skipped)
    assert found["unknown-tokens"].what == "No sentence was given: ids were drawn."


def test_of_a_long_text_as_much_is_read_as_has_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, text, read = tiny_checkpoint(), "abcdefghabcdefgh", []
    heads = sum(model.facts.layers(kind) * model.facts.heads(kind) for kind in KINDS)
    monkeypatch.setattr(check, "MOST_WEIGHTS", 2 * heads * 10**2)
    begin = Checkpoint.begin

    def noted(self: Checkpoint, source: Any, *more: Any) -> Any:
        read.append(source)
        return begin(self, source, *more)

    monkeypatch.setattr(Checkpoint, "begin", noted)
    found = results(model, text)
    whole = model.vocabulary.read(text)
    assert len(whole.ids) > 10
    assert read[0].ids == [*whole.ids[:9], EOS]  # and the end
    assert read[0].tokens == (*whole.tokens[:9], whole.tokens[-1])
    note = found["source-shortened"]
    assert note.verdict == "note"
    assert "the first 9 tokens and the last" in note.what
    assert "target-shortened" not in found
    assert len(found) > 30
    assert "source-shortened" not in results(model, "abcdefgh")
    consumed = model.vocabulary.read("ab").ids
    given = exhausted(checking(model, whole, target=[*consumed * 9][:16]))
    said = {one.id: one.what for one in given}
    assert "the first 10 tokens" in said["target-shortened"]
    assert said.keys() >= {"source-shortened", "cached-steps-differ"}


class Wrapped(nn.Module):
    """A translator of 16 positions around torch's own Transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(16, 16)
        self.inner = nn.Transformer(16, 4, 1, 1, 32, batch_first=True, dropout=0.1)
        self.out = nn.Linear(16, 20)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> Any:
        sides = [
            self.words(ids) * 4 + self.places(torch.arange(ids.shape[1]))
            for ids in (source, target)
        ]
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.out(self.inner(*sides, tgt_mask=mask))


def test_a_wrapped_model_is_checked_within_its_positions() -> None:
    torch.manual_seed(0)
    module = Wrapped().eval()
    model = visformer.wrap(module, bos=1, eos=2)
    found = results(model, None)
    assert wrong(found, "fault") == []
    assert found["not-causal"].verdict == found["source-not-used"].verdict == "passed"
    module.train()
    with torch.no_grad():
        module.out.bias[model.eos] = 5.0  # it ends at once: each step is a watched pass
    assert wrong(results(model, None), "fault") == ["dropout-on"]
