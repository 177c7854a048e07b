"""A change in one file: the recipe of developing.md, at each point of a run.

Each class below is all that such a file holds; the fixture enters them in the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from pytestqt.qtbot import QtBot
from torch import Tensor

from tests.opened import opened_model
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_checkpoint
from tests.unit.session.sessions import TRACE, Engine, answer, take, translated
from visformer import open_trace
from visformer.analysis.sublayers import LayerRows
from visformer.cli import main
from visformer.core import parts
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.passes import run
from visformer.core.side_runs import layer_parameters
from visformer.errors import InputError
from visformer.session import runs, tree
from visformer.session.state import Session
from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    ROW,
    KindField,
    LayerField,
    NumberField,
    RowField,
    one_word,
)
from visformer.values.facts import KINDS, STACK_OF, STACKS, Kind, StackName
from visformer.values.intervention import (
    CHANGES,
    NO_CHANGES,
    Intervention,
    examples,
    parse,
)
from visformer.values.trace import Trace

SOURCE, TARGET = [4, 5, 6, 7], [1, 8, 9, 10, 11]


@dataclass(frozen=True)
class Hidden(RunChange):
    """Hide every other key."""

    name = "sparse"
    forms = ("sparse {kind}{layer}",)
    examples = ("sparse cross",)
    point = "mask"
    kind: KindField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        x[..., 1::2] = False
        return x


@dataclass(frozen=True)
class Louder(RunChange):
    """Add to the scores of one key."""

    name = "louder"
    forms = ("louder {kind} {key} by {amount}{layer}",)
    examples = ("louder cross 2 by 1.5",)
    point = "scores"
    kind: KindField
    key: RowField
    amount: NumberField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        x[..., self.key] += self.amount
        return x


@dataclass(frozen=True)
class Even(RunChange):
    """Give all allowed keys of one query the same weight."""

    name = "even"
    forms = ("even {kind} {query}{layer}",)
    examples = ("even cross 2",)
    point = "weights"
    kind: KindField
    query: RowField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        row = place.at(self.query)
        allowed = 0 * x[row] + place.beside[row]
        x[row] = allowed / allowed.sum(-1)[..., None]
        return x


@dataclass(frozen=True)
class HeadScaled(RunChange):
    """Multiply what one head reads."""

    name = "loud head"
    forms = ("loud {kind} {one} * {factor}{layer}",)
    examples = ("loud cross 2 * 0",)
    point = "heads"
    kind: KindField
    one: Annotated[int, ROW._replace(where=True)]
    factor: NumberField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        x[place.at(None, self.one)] *= self.factor
        return x


@dataclass(frozen=True)
class Silent(RunChange):
    """Let all heads of an attention add nothing to one row."""

    name = "silent"
    forms = ("silent {kind} {query}{layer}",)
    examples = ("silent decoder 2",)
    point = "output"
    kind: KindField
    query: RowField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        x[place.at(self.query)] = 0
        return x


@dataclass(frozen=True)
class Skipped(RunChange):
    """Let one row of a stack skip a layer."""

    name = "skip"
    forms = ("skip {stack} {row}{layer}",)
    examples = ("skip encoder 2",)
    point = "stream"
    stack: Annotated[StackName, one_word(STACKS, where=True)]
    row: RowField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        row = place.at(self.row)
        x[row] = place.beside[row]
        return x


@dataclass(frozen=True)
class Replaced(RunChange):
    """Embed another token in one place."""

    name = "replaced"
    forms = ("replaced {side} {row} = {id}",)
    examples = ("replaced source 2 = 9",)
    point = "embedding"
    side: Annotated[str, one_word(("source", "target"), where=True)]
    row: RowField
    id: Annotated[int, ROW._replace(read=int, write=str, where=False)]

    def apply(self, x: Any, place: LocalChanges) -> Any:
        x[place.at(self.row)] = place.beside([self.id])
        return x


NEW = Hidden, Louder, Even, HeadScaled, Silent, Skipped, Replaced
TEXTS = (
    "sparse encoder @ L2",
    "louder cross 2 by 1.5 @ L1",
    "louder decoder 1 by -2",
    "even encoder 3 @ L1",
    "even decoder 4",
    "loud cross 2 * 0 @ L2",
    "loud decoder 1 * -2.5",
    "silent decoder 2 @ L1",
    "silent cross 3",
    "skip encoder 2 @ L2",
    "skip decoder 4",
    "replaced source 2 = 9",
    "replaced target 3 = 12",
)


@pytest.fixture(autouse=True)
def _entered(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in NEW:
        monkeypatch.setitem(CHANGES, kind.name, kind)


def passed(checkpoint: Checkpoint, text: str = "") -> Trace:
    return run(checkpoint, [SOURCE], [TARGET], intervention=parse([text]))[0]


# ---- the same arithmetic by hand, one step after the other ---------------------------


def asked(text: str, point: str, of: str, layer: int) -> Any:
    """Return the change, if it acts at this point of this place."""
    (change,) = parse([text])
    return change if change.point == point and change.concerns(of, layer) else None


def attended(
    part: parts.Attention, text: str, at: tuple[Kind, int], x: Tensor, memory: Tensor
) -> Tensor:
    allowed = torch.ones(len(x), len(memory)).bool()
    if at[0] == "decoder":
        allowed = allowed.tril()
    if asked(text, "mask", *at):
        allowed[:, 1::2] = False
    heads = []
    size = x.shape[1] // part.heads
    for head in range(part.heads):
        own = slice(head * size, (head + 1) * size)
        q, k, v = (
            project(rows)[:, own]
            for project, rows in zip(
                (part.query, part.key, part.value), (x, memory, memory), strict=True
            )
        )
        scores = q @ k.T / size**0.5
        if louder := asked(text, "scores", *at):
            scores[:, louder.key] += louder.amount
        weights = scores.where(allowed, -1e9).softmax(-1)
        if even := asked(text, "weights", *at):
            weights[even.query] = allowed[even.query] / allowed[even.query].sum()
        z = weights @ v
        scaled = asked(text, "heads", *at)
        heads.append(z * scaled.factor if scaled and scaled.one == head else z)
    joined = torch.cat(heads, 1)
    if silent := asked(text, "output", *at):
        joined[silent.query] = 0
    added: Tensor = part.output(joined)
    return added


@torch.no_grad()
def by_hand(checkpoint: Checkpoint, text: str) -> dict[str, list[Tensor]]:
    """Return the residual streams, [T, D] each, and last the logits [T, V]."""
    model, made = checkpoint.model, {}
    memory: Tensor | None = None
    for side, name, ids in (
        ("source", "encoder", SOURCE),
        ("target", "decoder", TARGET),
    ):
        stack: Any = model.get_submodule(name)
        table: Any = model.get_submodule(f"{side}_embedding")
        if replaced := asked(text, "embedding", side, 0):
            ids = [*ids]
            ids[replaced.row] = replaced.id
        x = table(torch.tensor(ids)) * model.scale + model.positions[: len(ids)]
        streams = [x]
        for index, layer in enumerate(stack):
            entered = x
            here: Any = name, index
            own = layer.self_attention_norm
            x = own(x + attended(layer.self_attention, text, here, x, x))
            if memory is not None:
                read = attended(
                    layer.cross_attention, text, ("cross", index), x, memory
                )
                x = layer.cross_attention_norm(x + read)
            x = layer.feed_forward_norm(x + layer.feed_forward(x))
            if skipped := asked(text, "stream", *here):
                x[skipped.row] = entered[skipped.row]
            streams.append(x)
        memory, made[name] = x, streams
    made["logits"] = [model.output(x)]
    return made


@pytest.mark.parametrize("text", TEXTS)
def test_a_run_is_what_the_change_says(text: str) -> None:
    checkpoint = tiny_checkpoint()
    trace, expected = passed(checkpoint, text), by_hand(checkpoint, text)
    for stack in STACKS:
        for layer, stream in enumerate(expected[stack]):
            found = trace.hidden(stack, layer)
            np.testing.assert_allclose(found, stream.numpy(), rtol=0, atol=2e-5)
    found = trace.logits
    np.testing.assert_allclose(found, expected["logits"][0].numpy(), atol=5e-5, rtol=0)
    assert np.abs(found - passed(checkpoint).logits).max() > 1e-3


@pytest.mark.parametrize("text", TEXTS)
def test_what_cannot_depend_on_the_change_stays_to_the_bit(text: str) -> None:
    checkpoint = tiny_checkpoint()
    trace, plain = passed(checkpoint, text), passed(checkpoint)
    change: Any = parse([text])[0]
    stacks: dict[str, StackName] = {"source": "encoder", "target": "decoder"}
    stack = (stacks | STACK_OF)[change.kinds[0]]
    first = getattr(change, "layer", None) or 0  # no layer before it is another
    if stack == "decoder":
        assert (trace.encoder_rows == plain.encoder_rows).all()
    if change.point != "embedding":
        before, after = plain.hidden(stack, first), trace.hidden(stack, first)
        assert (before == after).all()
    row = getattr(change, "query", getattr(change, "row", 0))
    if stack == "decoder":  # nothing reads ahead
        assert (trace.decoder_rows[:row] == plain.decoder_rows[:row]).all()
        assert not trace.intervention.reaches_back
    again = passed(checkpoint)
    assert (again.decoder_rows == plain.decoder_rows).all()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_what_is_derived_is_what_the_run_had(
    text: str, norm_first: bool, tmp_path: Path
) -> None:
    checkpoint = tiny_checkpoint(norm_first=norm_first, final_norm=norm_first)
    trace = passed(checkpoint, text)
    trace.save(tmp_path / "a.vis")
    read = open_trace(tmp_path / "a.vis")
    assert read.intervention == trace.intervention == parse([text])
    for kind in KINDS:
        for layer in range(2):
            own = trace.attention(kind, layer)
            for head in range(2):
                one = read.attention(kind, layer, head)
                np.testing.assert_allclose(one, own[head], rtol=0, atol=1e-6)
                assert (one == read.attention(kind, layer)[head]).all()
                last = read.attention_heads(kind, layer, head).weights(slice(2, 4))
                assert (last[0] == one[2:4]).all()
    for stack in STACKS:
        for layer in range(2):
            parameters = layer_parameters(checkpoint, stack, layer)
            rows = LayerRows(read, parameters, slice(1, None))
            made, left = (
                rows.feed_forward.residual.output,
                read.hidden(stack, layer + 1),
            )
            np.testing.assert_allclose(made, left[1:], rtol=0, atol=2e-5)


@pytest.mark.parametrize("text", TEXTS)
def test_decoding_is_the_pass_of_each_step(text: str) -> None:
    checkpoint = tiny_checkpoint()
    decoding = Decoding(checkpoint, SOURCE, limit=4, intervention=text)
    for _step in range(4):
        trace = decoding.step()
        ids = trace.target_ids.tolist()
        (full,) = run(checkpoint, [SOURCE], [ids], intervention=text)
        for name in ("encoder_rows", "memory_rows", "decoder_rows"):
            made, expected = getattr(trace, name), getattr(full, name)
            np.testing.assert_allclose(made, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("text", TEXTS)
def test_its_text_and_its_data_follow_from_its_fields(text: str) -> None:
    made = parse(["hide 2", f" {text} ;"])
    assert str(made) == f"hide 2; {text}"
    data = json.loads(json.dumps(made.to_json()))
    assert Intervention.from_json(data) == made
    assert made.without(parse([text])[0]) == parse(["hide 2"])


def test_the_help_names_it_and_what_does_not_fit_is_refused() -> None:
    for kind in NEW:
        for example in kind.examples:
            assert example in examples()
            assert str(parse([example])) == example
    checkpoint = tiny_checkpoint()
    for text, words in {
        "loud cross 1 * 0 @ L3": "the model has 2 such layers",
        "even encoder 5": "the source has 4 tokens",
        "skip encoder 5": "the source has 4 tokens",
    }.items():
        with pytest.raises(InputError, match=words):
            passed(checkpoint, text)
    with pytest.raises(InputError, match="is not a valid change"):
        parse(["loud cross 1 * @ L3"])


@pytest.mark.parametrize("text", ["skip decoder 2"])
def test_render_takes_it(text: str, tmp_path: Path, qtbot: QtBot) -> None:
    given = "--checkpoint", str(write_letters(tmp_path / "letters")), "--text", "abc"
    pictures = []
    for changes in ([], ["--change", text]):
        picture = tmp_path / f"{len(changes)}.png"
        assert main(["render", *given, *changes, "-o", str(picture)]) == 0
        pictures.append(picture.read_bytes())
    assert pictures[0] != pictures[1]


def test_it_is_undone() -> None:
    engine = Engine()
    session = Session(engine=engine)
    take(session, opened_model(TRACE.model, path="/m"))
    translated(session, engine)
    change = parse([TEXTS[0]])
    session.do(runs.change_run, change)
    assert session.state.intervention == engine.last.intervention == change
    answer(session, engine, replace(TRACE, intervention=change))
    session.do(tree.undo)
    assert session.state.intervention == NO_CHANGES
    session.do(tree.redo)
    assert session.state.intervention == change
