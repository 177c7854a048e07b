"""The engine process's own loop, on a pipe in memory."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

import visformer
from tests.system.formats.folders import write_letters
from tests.tiny_models import count_encodings, tiny_checkpoint
from visformer.core import checkpoint, parts, threads
from visformer.core.decoding import Decoding
from visformer.core.pauses import pause
from visformer.core.search import exhausted
from visformer.core.vocabulary import named
from visformer.engine import process
from visformer.engine.messages import (
    Answer,
    Decode,
    Done,
    Effect,
    FindTokens,
    Finished,
    Lens,
    Nearest,
    Numbered,
    Open,
    Opened,
    OpenProgressed,
    Parameters,
    Passed,
    Progressed,
    Ready,
    Refused,
    Request,
    SearchBeams,
    Shuffle,
    Started,
    Stepped,
    Stop,
    SwitchOff,
)
from visformer.engine.process import LESS_PRIORITY, Server, serve
from visformer.formats import loading
from visformer.values.intervention import parse
from visformer.values.step import GREEDY, Choice, Strategy

CHECKPOINT = tiny_checkpoint()
WEIGHTS = Parameters(stack="encoder", layer=0)
LENS = Lens(
    hidden=np.zeros((1, 3, 16), np.float32), chosen=np.array([0]), temperature=1.0
)


class Pipe:
    """The engine's end of a pipe: requests that wait, answers that were sent."""

    def __init__(self, *requests: Numbered) -> None:
        self.requests, self.sent = list(requests), list[Answer]()
        self.on_send: Callable[[Answer], None] = lambda answer: None

    def poll(self) -> bool:
        return bool(self.requests)

    def recv(self) -> Numbered:
        return self.requests.pop(0)

    def send(self, answer: Answer) -> None:
        self.sent.append(answer)
        self.on_send(answer)

    def put_after(self, count: int, kind: type[Answer], *requests: Numbered) -> None:
        """Have requests arrive when so many answers of a kind have been sent."""

        def look(answer: Answer) -> None:
            if isinstance(answer, kind) and len(self.of(kind)) == count:
                self.requests += requests

        self.on_send = look

    def of(self, kind: type[Answer]) -> list[int]:
        """Return the numbers of the answers of a kind."""
        return [answer.number for answer in self.sent if isinstance(answer, kind)]


def server_on(pipe: Pipe) -> Server:
    server = Server(pipe)  # type: ignore[arg-type]
    server.model = CHECKPOINT
    return server


def importing(monkeypatch: pytest.MonkeyPatch, *, spare: bool) -> list[object]:
    """Return what a process does before it is asked; its own thread gives no way."""
    done: list[object] = []
    ways: dict[int, int] = {}  # thread -> the nice value that it gets

    class Ended(Pipe):
        def recv(self) -> Numbered:
            raise EOFError

    def load(name: str) -> None:
        done.extend((name, ways.get(threading.get_native_id())))

    pipe = Ended()
    pipe.on_send = done.append
    monkeypatch.setattr(process, "end_with", lambda parent: None)
    monkeypatch.setattr(process, "import_module", load)
    # whoever runs the tests may have another priority, which bounds what can be set
    monkeypatch.setattr(os, "setpriority", lambda _, *given: ways.update([given]))
    monkeypatch.setattr(gc, "freeze", lambda: None)  # it would hold for all tests
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(threads._Long, "threads", None)
    monkeypatch.setattr(process, "Wire", lambda given: given)
    serve(cast(Connection, pipe), 1, "", spare)
    assert threading.get_native_id() not in ways
    return done


@pytest.mark.skipif(sys.platform != "linux", reason="threads share a priority")
def test_a_spare_process_gives_way_while_it_imports_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_way = ["torch", LESS_PRIORITY]
    assert importing(monkeypatch, spare=True) == [*given_way, Ready(number=0)]
    assert importing(monkeypatch, spare=False) == [Ready(number=0)]


@pytest.mark.parametrize("newer", [Decode(source="ab"), Shuffle(source="a", target=())])
def test_a_running_decode_stops_for_a_newer_request(newer: Request) -> None:
    pipe = Pipe()
    server = server_on(pipe)
    pipe.put_after(3, Stepped, Numbered(2, newer))
    server.answer(Numbered(1, Decode(source="abcdef", limit=40)))
    assert pipe.of(Stepped) == [1, 1, 1]
    assert pipe.of(Finished) == [1]
    assert server.newest() == (2, newer)  # it is carried out next


@pytest.mark.parametrize("block", [parts.WEIGHTS_BLOCK, 14])
def test_encoding_stops_between_layers_and_between_blocks_of_queries(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "WEIGHTS_BLOCK", block)  # 14: of one query, of 7 keys
    pipe = Pipe()
    server = server_on(pipe)
    pipe.requests = [Numbered(2, WEIGHTS), Numbered(3, Stop())]
    made: list[Tensor] = []
    own = parts.attention_weights

    def weights(*given: Any, **more: Any) -> Tensor:
        made.append(own(*given, **more))
        return made[-1]

    monkeypatch.setattr(parts, "attention_weights", weights)
    server.answer(Numbered(1, Decode(source="abcdef", limit=3)))
    assert [one.shape[2] for one in made] == [7 if block > 14 else 1]
    assert pipe.of(Done) == [2]  # a side request is answered meanwhile
    assert not pipe.of(Started)
    assert server.newest() == (3, Stop())
    server.answer(Numbered(4, Decode(source="abcdef", limit=3)))
    assert pipe.of(Stepped) == [4, 4, 4]


def test_nothing_that_comes_after_an_opening_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checkpoint, "warm_up", lambda packed: pause())
    folder = write_letters(tmp_path)
    pipe = Pipe(
        Numbered(1, Open(path=str(folder))),
        Numbered(2, Decode(source="ab", limit=1)),
    )
    server = Server(pipe)  # type: ignore[arg-type]
    while pipe.poll():
        server.answer(server.newest())
    assert (pipe.of(Opened), pipe.of(Finished)) == ([1], [2])
    size = (folder / "model.safetensors").stat().st_size
    assert pipe.sent[0] == OpenProgressed(number=1, size=size)


def test_it_is_told_how_much_of_a_source_is_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "WEIGHTS_BLOCK", 4 * 14)  # of 4 queries
    monkeypatch.setattr(process, "SOON", 0)
    pipe = Pipe()
    server_on(pipe).answer(Numbered(1, Decode(source="abcdef", limit=1)))
    told = [answer for answer in pipe.sent if isinstance(answer, Progressed)]
    assert [one.done for one in told] == [29, 50, 79, 100]  # 4 of 7 of a half
    assert {(one.of, one.part) for one in told} == {(100, "")}
    assert pipe.of(Started) == [1]


EFFECT = Effect(
    source=(5, 6, 3),
    chosen=(Choice(7, "forced"),),
    step=0,
    fed=False,
    intervention=parse(["head cross off @ L1H1"]),
)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode in blocks of one query, and tell of each."""
    monkeypatch.setattr(parts, "WEIGHTS_BLOCK", 1)
    monkeypatch.setattr(process, "SOON", 0)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("aside", "kind"),
    [
        (EFFECT, Done),
        (LENS, Done),
        (FindTokens(text="a"), Done),
        (Nearest(side="target", asked=5), Done),
        (Nearest(side="target", asked=10**6), Refused),
    ],
)
def test_what_is_asked_aside_of_an_encoding_is_answered_and_stops_nothing(
    aside: Request, kind: type[Answer]
) -> None:
    pipe = Pipe()
    server = server_on(pipe)
    pipe.put_after(2, Progressed, Numbered(2, aside))
    server.answer(Numbered(1, Decode(source="abcdef", limit=5)))
    kinds = [type(answer) for answer in pipe.sent]
    assert kinds[:3] == [Progressed, Progressed, kind]
    assert pipe.of(kind) == [2]
    if isinstance(aside, Effect):  # which encodes, too: the numbers are its own
        alone = process.effect(CHECKPOINT, aside)
        assert [one.value for one in pipe.sent if isinstance(one, Done)] == [alone]
    assert set(pipe.of(Progressed)) == {1}
    shares = [one.done for one in pipe.sent if isinstance(one, Progressed)]
    assert shares == sorted(shares)
    whole = Decoding(CHECKPOINT, "abcdef", limit=5).finish()
    assert decoded(pipe, 1) == [step.id for step in whole.steps]


@pytest.mark.usefixtures("told")
def test_what_a_change_did_is_left_for_a_newer_request() -> None:
    pipe = Pipe(Numbered(2, LENS), Numbered(3, Stop()))
    server = server_on(pipe)
    server.answer(Numbered(1, EFFECT))
    assert pipe.of(Done) == [2, 1]
    assert isinstance(pipe.sent[1], Done)
    assert pipe.sent[1].value == {}
    assert server.newest() == (3, Stop())


@pytest.mark.usefixtures("told")
def test_a_measurement_that_is_asked_for_during_an_encoding_takes_its_place() -> None:
    pipe = Pipe()
    server = server_on(pipe)
    ids = (2, 5), (5, 6)
    newer = Numbered(2, SwitchOff(source="ab", ids=ids, given=0, fed=True))
    pipe.put_after(2, Progressed, newer)
    server.answer(Numbered(1, Decode(source="abcdef", limit=5)))
    assert not pipe.of(Started)
    assert server.newest() is newer
    server.answer(newer)
    assert pipe.of(Done) == [2]
    server.answer(Numbered(3, Decode(source="abcdef", limit=5)))
    whole = Decoding(CHECKPOINT, "abcdef", limit=5).finish()
    assert decoded(pipe, 3) == [step.id for step in whole.steps]


def test_passes_stop_for_a_newer_request() -> None:
    pipe = Pipe()
    server = server_on(pipe)
    newer = Numbered(2, Decode(source="ab"))
    pipe.put_after(2, Passed, newer)
    prefix = tuple(Choice(id, "forced") for id in (5, 6, 7, 8))
    request = Decode(
        source="abc",
        prefix=prefix,
        limit=9,
        intervention=parse(["causal off"]),
    )
    server.answer(Numbered(1, request))
    assert pipe.of(Passed) == [1, 1]


def decoded(pipe: Pipe, number: int) -> list[int]:
    """Return the tokens that a request's steps chose, from the first."""
    rows = [a.row for a in pipe.sent if isinstance(a, Stepped) and a.number == number]
    return [row.step.id for row in rows if row.step]


def test_rows_at_other_positions_are_sent_again() -> None:
    """Of a model whose positions restart at each step; a reference is fed whole."""
    sizes = {"source_vocabulary": 30, "target_vocabulary": 30, "d_model": 16}
    checkpoint = replace(
        visformer.build("d2l", device="cpu", encoder_layers=1, **sizes),
        tokenizer=CHECKPOINT.tokenizer,
    )
    pipe = Pipe()
    server = server_on(pipe)
    server.model = checkpoint
    fed = tuple(Choice(id, "reference") for id in (5, 6, 7))
    server.answer(Numbered(1, Decode(source="abc", limit=5, reference="bcd")))
    server.answer(Numbered(2, Decode(source="abc", limit=5, prefix=fed)))
    kept = [answer.kept for answer in pipe.sent if isinstance(answer, Started)]
    assert kept == [0, 0]


def test_the_same_sentence_is_decoded_anew_by_another_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tiny_checkpoint(seed=1)
    files = SimpleNamespace(load=lambda device: other, asks=False)
    monkeypatch.setattr(loading, "checkpoint_files", lambda path, told: files)
    pipe = Pipe()
    server = server_on(pipe)
    request = Decode(source="abcdef", limit=8)
    server.answer(Numbered(1, request))
    server.answer(Numbered(2, Open(path="other", device="cpu")))
    server.answer(Numbered(3, request))
    assert server.model is other
    chosen = [
        [step.id for step in Decoding(model, "abcdef", limit=8).finish().steps]
        for model in (CHECKPOINT, other)
    ]
    assert [decoded(pipe, 1), decoded(pipe, 3)] == chosen
    assert chosen[0] != chosen[1]


def test_the_same_sentence_is_decoded_anew_in_another_way() -> None:
    pipe = Pipe()
    server = server_on(pipe)
    drawn = Strategy(name="sample", temperature=5.0, seed=1)
    for number, strategy in enumerate((GREEDY, drawn), 1):
        server.answer(
            Numbered(number, Decode(source="abcdef", limit=8, strategy=strategy))
        )
        run = Decoding(CHECKPOINT, "abcdef", limit=8, strategy=strategy).finish()
        assert decoded(pipe, number) == [step.id for step in run.steps]
    assert decoded(pipe, 1) != decoded(pipe, 2)


def test_a_decoded_sentence_is_searched_without_being_encoded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded = count_encodings(monkeypatch)
    pipe = Pipe()
    server = server_on(pipe)
    prefix = (Choice(5, "forced"),)
    server.answer(Numbered(1, Decode(source="abcdef", limit=8)))
    for number, source in enumerate(("abcdef", "abc"), 2):
        asked = SearchBeams(source=source, limit=8, prefix=prefix, beams=3)
        server.answer(Numbered(number, asked))
    assert encoded == [7, 4]
    found = [answer.value for answer in pipe.sent if isinstance(answer, Done)]
    for search, source in zip(found, ("abcdef", "abc"), strict=True):
        alone = Decoding(CHECKPOINT, source, limit=8)
        assert exhausted(alone.searched([5], 3)).finished == search.finished
    server.answer(Numbered(4, Decode(source="abcdef", limit=8)))
    assert encoded[2:] == [7, 4]  # by those that are compared with
    assert decoded(pipe, 4) == decoded(pipe, 1)


def test_a_side_request_is_answered_amid_a_decode_and_stops_nothing() -> None:
    pipe = Pipe()
    server = server_on(pipe)
    pipe.put_after(2, Stepped, Numbered(2, WEIGHTS), Numbered(3, LENS))
    server.answer(Numbered(1, Decode(source="abc", limit=6)))
    kinds = [type(answer) for answer in pipe.sent]
    steps = len(pipe.of(Stepped))
    assert steps > 2
    assert kinds[3:5] == [Done, Done]  # after Started and two rows
    assert pipe.of(Done) == [2, 3]
    assert kinds[-1] is Finished


def test_stale_requests_are_skipped_and_asides_among_them_answered() -> None:
    first, newest = Numbered(1, Decode(source="ab")), Numbered(4, Decode(source="abc"))
    pipe = Pipe(first, Numbered(2, WEIGHTS), Numbered(3, LENS), newest)
    server = server_on(pipe)
    assert server.newest() is newest
    assert [answer.number for answer in pipe.sent] == [2, 3]
    asked = Numbered(5, WEIGHTS)
    pipe.requests = [asked, newest]
    assert server.newest() is asked
    assert server.newest() is newest


def test_what_interrupted_is_superseded_like_any_other() -> None:
    pipe = Pipe()
    server = server_on(pipe)
    second, third = (Numbered(n, Decode(source="a" * n)) for n in (2, 3))
    pipe.put_after(1, Stepped, second, third)
    server.answer(Numbered(1, Decode(source="abcdef", limit=40)))
    assert server.newest() is third


def test_nothing_is_answered_without_a_model() -> None:
    pipe = Pipe()
    server = Server(pipe)  # type: ignore[arg-type]
    requests = (Decode(source="a"), Shuffle(source="a", target=()), WEIGHTS, LENS)
    for number, request in enumerate(requests):
        server.answer(Numbered(number, request))
    assert pipe.of(Refused) == [0, 1]
    weights, lens = pipe.sent[2:]
    assert isinstance(weights, Done)
    assert weights.value is None
    assert isinstance(lens, Done)
    assert lens.value == ()


def test_a_fault_in_what_is_side_request_leaves_the_decode_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setitem(process.HANDLERS, Parameters, broken)
    pipe = Pipe()
    server = server_on(pipe)
    pipe.put_after(1, Stepped, Numbered(2, WEIGHTS))
    server.answer(Numbered(1, Decode(source="abc", limit=6)))
    assert pipe.of(Refused) == [2]
    assert len(pipe.of(Stepped)) > 1
    assert pipe.of(Finished) == [1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Length(Request):
    """A question that no file of the program knows: how many tokens a text has."""

    text: str


def test_a_new_question_is_a_class_and_a_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def length(_: object, request: Length) -> int:
        return len(request.text)

    monkeypatch.setitem(process.HANDLERS, Length, process.answering(length))
    pipe = Pipe()
    server_on(pipe).answer(Numbered(7, Length(text="abc")))
    (answer,) = pipe.sent
    assert isinstance(answer, Done)
    assert (answer.number, answer.value) == (7, 3)


def test_both_orders_come_of_a_shuffle() -> None:
    pipe = Pipe()
    server_on(pipe).answer(Numbered(1, Shuffle(source="abcd", target=(2, 5), seed=1)))
    (answer,) = pipe.sent
    assert isinstance(answer, Done)
    order, baseline, shuffled = answer.value
    assert list(shuffled.source) == [baseline.source[at] for at in order]


def test_target_tokens_are_found_by_what_is_typed() -> None:
    checkpoint = tiny_checkpoint()
    side = checkpoint.tokenizer.target
    wanted = side.token(side.size - 1)
    asked = FindTokens(text=f" {wanted} ")
    found = process.find_tokens(checkpoint, asked)
    assert found[0] == (side.size - 1, wanted)  # itself before what contains it
    assert all(wanted.casefold() in token.casefold() for _id, token in found)
    assert process.find_tokens(checkpoint, FindTokens(text=" ")) == ()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("elle", (3, 1, 2, 4)),
        ("_elle", (3, 2)),
        ("▁", (0, 3, 2)),
        ("Elles", (2,)),
        ("_", (5,)),
    ],
)
def test_of_tokens_as_alike_the_one_that_begins_a_word_comes_first(
    text: str, ids: tuple[int, ...]
) -> None:
    tokens = "▁", "elle", "▁elles", "▁elle", "belle", "_"
    found = named(text, tokens)
    assert tuple(id for id, _token in found) == ids
    assert all(tokens[id] == token for id, token in found)
