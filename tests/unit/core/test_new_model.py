"""A model of one's own, by developing.md: it reads letters and writes them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch

import visformer
from tests.system.engine.test_process import Pipe
from visformer.core.generation import Generation
from visformer.core.models import BatchRow, Extras, Model, Reached, SourceTokens
from visformer.core.next_tokens import NextTokens
from visformer.core.search import exhausted, search_run
from visformer.engine.messages import (
    Batch,
    Decode,
    Done,
    Finished,
    Numbered,
    Open,
    Opened,
    Passed,
    Progressed,
    Refused,
    Shuffle,
)
from visformer.engine.process import Server
from visformer.errors import InputError
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import ModelFacts
from visformer.values.finding import Finding
from visformer.values.given_attention import traces_of_weights
from visformer.values.intervention import Intervention
from visformer.values.step import Step
from visformer.values.trace import Trace

LETTERS = "#$abcdef"  # start, end
START, END = 0, 1


class Letters:
    """The vocabulary: a letter is a token."""

    size, numbers = len(LETTERS), 0

    def read(self, source: str | Sequence[int]) -> SourceTokens:
        typed = isinstance(source, str)
        ids = [LETTERS.find(x) if isinstance(x, str) else x for x in source]
        if not ids or min(ids) < 0:
            raise InputError("Type letters from a to f.")
        names, text = tuple(self.pieces(ids)), str(source) if typed else ""
        return SourceTokens(ids, names, text=text)

    def reference(self, target: str | Sequence[int]) -> list[int]:
        return [*self.read(target).ids, END] if isinstance(target, str) else [*target]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [LETTERS[id] for id in ids]

    def text(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces([id for id in ids if id > END]))

    def find(self, text: str) -> tuple[tuple[int, str], ...]:
        return tuple((id, one) for id, one in enumerate(LETTERS) if one == text)

    def one(self, token: str | int) -> int:
        (id,) = self.read([token] if isinstance(token, int) else token).ids
        return id


@dataclass
class CopyRun:
    """Row t attends to source token t, and predicts it."""

    source: SourceTokens
    limit: int
    given = (START,)
    rules = Generation()

    @property
    def start(self) -> Trace:
        return self._trace((START,), (), 0)

    def to(
        self, consumed: Sequence[int], *, since: int = 0, fed: bool = False
    ) -> tuple[Reached, NextTokens]:
        logits = torch.zeros(len(consumed), len(LETTERS))
        for row, id in enumerate([*self.source.ids, END][: len(consumed)]):
            logits[row, id] = 5
        trace = partial(self._trace, tuple(consumed))
        return Reached(trace, len(consumed)), NextTokens(logits[since:])

    def release(self) -> None: ...

    def beam_rows(self, beams: int) -> CopyRun:
        return self

    def next(self, consumed: torch.Tensor) -> torch.Tensor:
        return self.to(consumed[0].tolist())[1].logits[-1:].expand(len(consumed), -1)

    def keep(self, rows: torch.Tensor, sentences: torch.Tensor | None) -> None: ...

    def _trace(
        self, consumed: Sequence[int], steps: Sequence[Step], rows: int
    ) -> Trace:
        names = self.source.tokens
        weights = np.eye(len(consumed), len(names), dtype=np.float32)
        weights[len(names) :, -1] = 1  # past the end: the last letter
        (trace,) = traces_of_weights(
            {"cross": [weights[None, None]]}, names, Letters().pieces(consumed)
        )
        ids = np.array(consumed)
        return replace(trace, target_ids=ids, steps=tuple(steps)).until(rows)


class Copying:
    """The model."""

    name, ends = "Copying", (END,)
    vocabulary, extras = Letters(), Extras()
    findings: tuple[Finding, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def facts(self) -> ModelFacts:
        made = CopyRun(Letters().read("ab"), 1).start.model
        return replace(made, name=self.name, bos=START, eos=END)

    def can(self, change: Intervention, source: SourceTokens) -> None:
        if change:
            raise InputError("Copying cannot be changed.")

    def begin(
        self, source: SourceTokens, change: Intervention, limit: int | None
    ) -> CopyRun:
        return CopyRun(source, limit or len(source.ids) + 1)

    def batch(
        self, rows: Sequence[BatchRow], changes: Sequence[Intervention] = ()
    ) -> list[Trace]:
        return [CopyRun(row.source, 9).to(row.target)[0].trace((), 9) for row in rows]

    def search(
        self,
        sources: Sequence[SourceTokens],
        beams: int | None,
        *,
        scored: bool = True,
    ) -> list[BeamSearch]:
        runs = [CopyRun(source, len(source.ids) + 1) for source in sources]
        return [exhausted(search_run(run, beams or 1, self.ends)) for run in runs]


MODEL: Model = Copying()  # which mypy checks


def test_it_is_decoded_as_any_model() -> None:
    decoding = visformer.Decoding(MODEL, "abc")
    assert len(decoding.trace) == 0
    trace = decoding.step(2)
    assert (trace.text, trace.source, trace.target) == (
        "ab",
        ("a", "b", "c"),
        ("#", "a"),
    )
    assert trace.attention("cross", 0, 0).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert [step.candidates[0].token for step in trace.steps] == ["a", "b"]
    assert decoding.finish().text == "abc"
    assert decoding.ended
    assert len(decoding.back(3)) == 1
    assert decoding.force("f").steps[0].origin == "forced"
    assert decoding.step().target == ("#", "f")
    assert decoding.feed("de").text == "de"
    assert visformer.translate(["ab", "", "fed"], MODEL) == ["ab", "", "fed"]
    with pytest.raises(InputError, match="cannot be changed"):
        visformer.Decoding(MODEL, "abc", intervention="causal off")


def test_it_is_served_to_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe()
    server = Server(pipe, MODEL)  # type: ignore[arg-type]
    monkeypatch.setattr("visformer.engine.process.SOON", 0)
    asked = Open(path="mine"), Decode(source="abc"), Batch(sources=("ab", "cde"))
    for number, request in enumerate([*asked, Shuffle(source="abc", target=())]):
        server.answer(Numbered(number, request))
    kinds = [type(answer) for answer in pipe.sent]
    passes = [answer.trace for answer in pipe.sent if isinstance(answer, Passed)]
    assert kinds[0] is Opened
    assert [len(trace) for trace in passes][:2] == [0, 1]
    assert passes[-1].text == "abc"
    assert kinds[-4:] == [Progressed, Progressed, Done, Refused]
    assert kinds.count(Finished) == 1
    done = next(answer for answer in pipe.sent if isinstance(answer, Done))
    assert [trace.target for trace in done.value] == [tuple("#ab"), tuple("#cde")]
