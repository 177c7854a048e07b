"""The engine with a folder that transformers runs: each answer is of a watched pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.system.engine.test_process import LENS, WEIGHTS, Pipe
from visformer.engine.messages import (
    AllTokens,
    Asked,
    Batch,
    Decode,
    FindTokens,
    Finished,
    Numbered,
    Open,
    Opened,
    Passed,
    Refused,
    Request,
    Shuffle,
)
from visformer.engine.mirror import Mirror
from visformer.engine.process import Server
from visformer.values.intervention import NO_CHANGES, parse
from visformer.values.step import Choice
from visformer.values.trace import Trace

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from tests.system.formats.hugging_face.families import write_folder

    there = tmp_path_factory.mktemp("folders")
    return {name: write_folder(there / name, name) for name in ("T5", "GPT-2", "BERT")}


class Asking:
    """A server with an open folder, and what it says."""

    def __init__(self, folder: Path) -> None:
        self.pipe = Pipe()
        self.server = Server(self.pipe)  # type: ignore[arg-type]
        _begun, self.opened = self.ask(Open(path=str(folder), device="cpu"))

    def ask(self, request: Request) -> list[Any]:
        self.pipe.sent.clear()
        self.server.answer(Numbered(1, request))
        return list(self.pipe.sent)

    def decoded(self, request: Decode) -> tuple[list[Passed], Trace]:
        *passes, finished = self.ask(request)
        assert isinstance(finished, Finished)
        mirror, shown = Mirror(), None
        for one in passes:
            shown = mirror.take(one)
        assert shown is not None
        assert len(shown.trace) == len(passes[-1].trace)
        return passes, shown.trace


def test_a_model_is_opened_and_decoded(folders: dict[str, Path]) -> None:
    asking = Asking(folders["T5"])
    assert isinstance(asking.opened, Opened)
    assert asking.opened.model.layout == "transformers"
    assert (asking.opened.positions.size, asking.opened.asks) == (0, False)
    passes, trace = asking.decoded(Decode(source="the cat sees a dog"))
    assert all(one.kept == len(one.trace) for one in passes)
    assert len(passes) < len(trace) == passes[-1].limit == 10
    assert trace.model == asking.opened.model
    forced = (*(s.choice for s in trace.steps[:2]), Choice(7, "forced"))
    _passes, other = asking.decoded(Decode(source="the cat sees a dog", prefix=forced))
    origins = [step.origin for step in other.steps[:4]]
    assert origins == ["model", "model", "forced", "model"]
    assert np.array_equal(other.target_ids[:3], trace.target_ids[:3])
    _passes, fed = asking.decoded(Decode(source="the cat", reference="a dog"))
    assert fed.text == "a dog"


def test_a_prompt_goes_on(folders: dict[str, Path]) -> None:
    asking = Asking(folders["GPT-2"])
    _passes, trace = asking.decoded(Decode(source="the cat"))
    steps = [step.choice for step in trace.steps]
    forced = (*steps[:-2], Choice(steps[-2].id, "forced"))
    made = Decode(source="the cat", prefix=forced)
    _passes, again = asking.decoded(made)
    assert again.target_ids.tolist() == trace.target_ids.tolist()
    assert again.prompt == trace.prompt > 0


def test_masked_tokens_are_filled(folders: dict[str, Path]) -> None:
    asking = Asking(folders["BERT"])
    passes, trace = asking.decoded(Decode(source="the [MASK] sees a [MASK]"))
    assert (len(passes), list(trace.fills), len(trace)) == (1, [2, 5], 0)
    (refused,) = asking.ask(Decode(source="the cat", reference="a"))
    assert "reads text and writes none" in refused.reason


def test_changes_of_the_run_are_whole_passes(folders: dict[str, Path]) -> None:
    asking = Asking(folders["T5"])
    off = Decode(source="the cat", intervention=parse(["causal off"]))
    passes, trace = asking.decoded(off)
    assert [len(one.trace) for one in passes] == list(range(len(trace) + 1))
    assert {(one.kept, one.limit) for one in passes} == {(0, 10)}
    (refused,) = asking.ask(Decode(source="a", intervention=parse(["positions none"])))
    assert "neither positions" in refused.reason


def test_what_else_a_window_asks(folders: dict[str, Path]) -> None:
    asking = Asking(folders["T5"])
    (found,) = asking.ask(FindTokens(text="cat"))
    assert "▁cat" in [token for _id, token in found.value]
    (lens,), (weights,) = asking.ask(LENS), asking.ask(WEIGHTS)
    assert lens.value == ()
    assert weights.value is None
    (refused,) = asking.ask(Shuffle(source="a b c d", target=(0, 5)))
    assert isinstance(refused, Refused)
    assert "is not shuffled" in refused.reason


@pytest.mark.parametrize("name", ["T5", "GPT-2"])
def test_every_token_of_a_row(name: str, folders: dict[str, Path]) -> None:
    asking = Asking(folders[name])
    _passes, trace = asking.decoded(Decode(source="the cat"))
    row = len(trace) - 2
    asked = AllTokens(
        stream=np.zeros(0, np.float32),
        source=tuple(trace.source_ids.tolist()),
        target=tuple(trace.target_ids.tolist()),
        intervention=NO_CHANGES,
        row=row,
    )
    (done,) = asking.ask(asked)
    whole, best = done.value, trace.steps[row].candidates
    assert len(whole.ids) > len(best) or len(set(whole.ids.tolist())) == len(best)
    assert whole.tokens[: len(best)] == best.tokens
    np.testing.assert_allclose(
        whole.probabilities[: len(best)], best.numbers[1], atol=1e-6
    )
    assert whole.probabilities.sum() == pytest.approx(1, abs=1e-5)


def test_every_token_in_place_of_a_masked_one(folders: dict[str, Path]) -> None:
    asking = Asking(folders["BERT"])
    _passes, trace = asking.decoded(Decode(source="the [MASK] sees a [MASK]"))
    asked = AllTokens(
        stream=np.zeros(0, np.float32),
        source=tuple(trace.source_ids.tolist()),
        target=(),
        intervention=NO_CHANGES,
        row=5,
    )
    (done,) = asking.ask(asked)
    whole, best = done.value, trace.fills[5]
    assert whole.ids[: len(best)].tolist() == best.numbers[0].tolist()
    assert whole.probabilities.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["T5", "BERT"])
def test_padding_of_a_batch_is_masked(name: str, folders: dict[str, Path]) -> None:
    asking = Asking(folders[name])
    done = asking.ask(Batch(sources=("the cat sees a dog", "a dog")))[-1]  # or progress
    long, short = done.value
    (alone,) = asking.decoded(Decode(source="a dog"))[1:]
    size = len(alone.source)
    assert short.source[:size] == alone.source
    assert len(short.source) == len(long.source) > size
    for layer in range(2):
        weights = short.attention("encoder", layer)
        assert weights[..., size:].max() == 0
        ours, theirs = weights[:, :size, :size], alone.attention("encoder", layer)
        assert abs(ours - theirs).max() < 2e-5


def test_prompts_make_no_batch(folders: dict[str, Path]) -> None:
    (refused,) = Asking(folders["GPT-2"]).ask(Batch(sources=("a", "b c")))
    assert "one text at a time" in refused.reason


def test_nothing_is_asked_of_one_language(folders: dict[str, Path]) -> None:
    asking = Asking(folders["T5"])
    opening = Open(path=str(folders["T5"]), device="cpu", ask="open")
    _begun, opened = asking.ask(opening)
    assert isinstance(opened, Opened)
    assert not isinstance(opened, Asked)
