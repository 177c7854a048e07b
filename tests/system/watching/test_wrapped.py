"""A wrapped model is decoded with as a checkpoint is: type, step, back, force, feed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.system.watching.comparing import apart
from tests.system.watching.faulty_models import built
from visformer.values.not_finite import not_finite_words
from visformer.values.step import Strategy
from visformer.watching.wrapped import wrap

WORDS = [*"@$", *"abcdefghijklmnopqrstuv"]  # pad, end, and 22 letters


def encode(text: str) -> list[int]:
    return [WORDS.index(letter) for letter in text.split()]


def decode(ids: list[int]) -> list[str]:
    return [WORDS[id] for id in ids]


def greedy(model: nn.Module, source: list[int], steps: int) -> list[int]:
    ids = [2]
    for _step in range(steps):
        with torch.no_grad():
            logits = model(torch.tensor([source]), torch.tensor([ids]))
        ids.append(int(logits[0, -1].argmax()))
    return ids[1:]


@pytest.fixture
def decoding() -> Any:
    model = built("healthy")
    wrapped = visformer.wrap(
        lambda src, tgt: model(src, tgt),
        bos=2,
        eos=1,
        pad=0,
        encode=encode,
        decode=decode,
    )
    return visformer.Decoding(wrapped, "d e f g", limit=6)


def test_stepping_is_the_models_own_greedy_loop(decoding: Any) -> None:
    model = decoding.checkpoint.model.model
    own = greedy(model, encode("d e f g"), 4)
    for at in range(4):
        trace = decoding.step()
        assert [step.id for step in trace.steps] == own[: at + 1]
        assert trace.target_ids.tolist() == [2, *own[:at]]
        assert trace.steps[-1].origin == "model"
    assert trace.source == ("d", "e", "f", "g")
    assert trace.source_text == "d e f g"
    assert trace.text == " ".join(decode(own))
    assert decoding.text == trace.text
    with torch.no_grad():
        watched = visformer.watch(model)(
            torch.tensor([encode("d e f g")]), torch.tensor([[2, *own[:3]]])
        )
    for kind in trace.kinds:
        same = [one for one in watched.attentions if one.kind == kind]
        for layer, one in enumerate(same):
            assert apart(trace.attention(kind, layer), one.weights[0]) <= 2e-5
    assert trace.certificate.passed
    assert trace.model.name == "Healthy"


def test_beams_have_the_sums_of_the_models_own_passes(decoding: Any) -> None:
    decoding.strategy = Strategy("beam", beams=3)
    trace, found = decoding.finish(), decoding.search
    best = found.line_of(found.ranked()[0])
    assert [step.id for step in trace.steps] == list(best.ids)
    model, source = decoding.checkpoint.model.model, encode("d e f g")
    for one in found.finished:
        ids, logprobs = found.line_of(one)
        target = torch.tensor([[2, *ids[:-1]]])
        with torch.no_grad():
            logits = model(torch.tensor([source]), target)[0]
        own = logits.log_softmax(-1)[range(len(ids)), list(ids)]
        assert logprobs == pytest.approx(own.tolist(), abs=1e-4)


def test_a_draw_tells_its_own_distribution(decoding: Any) -> None:
    """At half the temperature shares are squared, then scaled by those kept."""
    decoding.strategy = Strategy("sample", temperature=0.5, top_k=2)
    for step in decoding.step(3).steps:
        first, second = (one.probability for one in step.candidates[:2])
        assert step.origin == "drawn"
        share = step.probability**2 / (first**2 + second**2)
        assert step.drawn == (pytest.approx(share, rel=1e-4), 0.5, 2, 1.0)


def test_going_back_computes_nothing() -> None:
    model, calls = built("healthy"), []

    def call(source: Tensor, target: Tensor) -> Any:
        calls.append(target)
        return model(source, target)

    wrapped = visformer.wrap(call, bos=2, eos=1, pad=0)
    decoding = visformer.Decoding(wrapped, "3 4 5 6")
    assert len(decoding.step(3)) == 3
    passes = len(calls)
    assert len(decoding.back(2)) == 1
    assert len(decoding.step(2)) == 3
    assert len(calls) == passes == 3
    assert len(decoding.back(5)) == 0
    assert decoding.trace.attention("encoder", 0).shape == (4, 4, 4)
    assert decoding.trace.attention("cross", 0).shape == (4, 0, 4)


def test_a_forced_token_is_consumed_by_the_next_row(decoding: Any) -> None:
    decoding.step(2)
    trace = decoding.force("k")
    assert (trace.steps[-1].token, trace.steps[-1].origin) == ("k", "forced")
    assert decoding.step().target[-1] == "k"
    with pytest.raises(visformer.InputError, match="exactly one token"):
        decoding.force("k l")
    with pytest.raises(visformer.InputError, match="from 0 to 23"):
        decoding.force(99)


def test_a_reference_is_fed_in_one_pass(decoding: Any) -> None:
    trace = decoding.feed("h i j")
    assert [step.token for step in trace.steps] == ["h", "i", "j", "$"]
    assert {step.origin for step in trace.steps} == {"reference"}
    assert trace.target == ("a", "h", "i", "j")
    assert decoding.ended
    assert len(decoding.step()) == 4
    with pytest.raises(visformer.InputError, match="at most 6 are allowed"):
        decoding.feed("h i j k l m n")


class Causal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.embed, self.head = nn.Embedding(24, 16), nn.Linear(16, 24)
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return {"logits": self.head(self.body(self.embed(ids), mask=mask))}


@pytest.mark.parametrize("prompt", ["d", "d e f"])
def test_a_model_of_the_target_alone_goes_on_from_a_prompt(prompt: str) -> None:
    wrapped = wrap(Causal().eval(), bos=2, eos=1, encode=encode, decode=decode)
    decoding = visformer.Decoding(wrapped, prompt, limit=3)
    given = len(encode(prompt))
    assert len(decoding.trace) == given - 1
    trace = decoding.step(3)
    assert trace.kinds == ("decoder",)
    assert len(trace) == given + 2
    assert trace.prompt == given
    assert trace.target[:given] == tuple(prompt.split())
    assert trace.target_ids[given] == trace.steps[given - 1].id
    assert np.allclose(trace.attention("decoder", 1).sum(-1), 1, atol=1e-5)


def test_without_a_vocabulary_ids_are_typed() -> None:
    decoding = visformer.Decoding(
        visformer.wrap(built("healthy"), bos=2, eos=1), "5 6 7"
    )
    assert decoding.step().source == ("5", "6", "7")
    with pytest.raises(visformer.InputError, match="as there is no encode"):
        visformer.Decoding(decoding.checkpoint, "five")


def test_misuse_is_refused_in_a_sentence() -> None:
    with pytest.raises(TypeError, match="call is"):
        visformer.wrap("model", bos=2, eos=1)  # type: ignore[arg-type]
    given: Any
    for option in ("encode", "decode"):
        given = {option: []}
        with pytest.raises(TypeError, match=f"{option} is .* a function"):
            visformer.wrap(built("healthy"), bos=2, eos=1, **given)
    with pytest.raises(TypeError, match="pad is 'x'"):
        visformer.wrap(built("healthy"), bos=2, eos=1, pad="x")  # type: ignore[arg-type]
    for call in (lambda: 0, lambda src, tgt, mask: 0):
        with pytest.raises(TypeError, match=r"of \[B, T\] alone"):
            visformer.wrap(call, bos=2, eos=1)
    wrong = visformer.wrap(lambda src, tgt: (src, tgt), bos=2, eos=1)
    with pytest.raises(visformer.InputError, match="logits"):
        visformer.Decoding(wrong, "5 6").step()


@pytest.mark.parametrize("made", ["5 6", None, [[5, 6]], [5.5]])
def test_what_encode_gives_is_looked_at(made: Any) -> None:
    wrapped = visformer.wrap(built("healthy"), bos=2, eos=1, encode=lambda _text: made)
    with pytest.raises(TypeError, match="encode gives is"):
        visformer.Decoding(wrapped, "d e")
    given: Any = None if made is None else 5
    wrapped = visformer.wrap(built("healthy"), bos=2, eos=1, decode=lambda _ids: given)
    with pytest.raises(TypeError, match="decode gives is"):
        visformer.Decoding(wrapped, "5 6").step()


def test_what_is_no_id_of_the_model_is_named() -> None:
    decoding = visformer.Decoding(visformer.wrap(built("healthy"), bos=2, eos=1), "5 6")
    with pytest.raises(visformer.InputError, match="token is '²', but must be ids"):
        decoding.force("²")
    with pytest.raises(visformer.InputError, match="target is ''"):
        decoding.feed("")
    wrong = visformer.wrap(built("healthy"), bos=2, eos=99)
    with pytest.raises(visformer.InputError, match=r"eos is 99, .* from 0 to 23"):
        visformer.Decoding(wrong, "5 6").step()
    shorter = visformer.wrap(lambda src, tgt: torch.rand(1, 24), bos=2, eos=1)
    with pytest.raises(visformer.InputError, match=r"call gives Tensor \[1, 24\]"):
        visformer.Decoding(shorter, "5 6").step()


def test_encode_is_given_no_control_characters() -> None:
    seen: list[str] = []

    def noted(text: str) -> list[int]:
        seen.append(text)
        return encode("a")

    wrapped = visformer.wrap(built("healthy"), bos=2, eos=1, encode=noted)
    assert wrapped.vocabulary.read("a\x1bb\tc").text == "a b\tc"
    assert seen == ["a b\tc"]


def test_what_the_model_raises_is_its_own() -> None:
    def call(src: Tensor, tgt: Tensor) -> Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        visformer.Decoding(visformer.wrap(call, bos=2, eos=1), "5 6").step()


@pytest.mark.parametrize("step", [1, 3])
def test_a_run_ends_where_the_logits_are_no_numbers(step: int) -> None:
    model = built("healthy")

    def call(source: Tensor, target: Tensor) -> Tensor:
        logits: Tensor = model(source, target)
        return logits * torch.nan if target.shape[1] >= step else logits

    wrapped = visformer.wrap(call, bos=2, eos=1, pad=0)
    decoding = visformer.Decoding(wrapped, [3, 4, 5], limit=6)
    trace = decoding.finish()
    assert len(trace) == step
    assert decoding.ended
    assert not_finite_words(trace).startswith("The logits are not finite")
