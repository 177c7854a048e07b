"""What loops predict: each row's logits are those of the step that computed it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.system.watching.comparing import apart
from tests.system.watching.small_models import Translator, V, some_ids
from tests.system.watching.test_generating import ALONE, FAMILIES, given, made
from tests.system.watching.test_loops import (
    STEPS,
    Cached,
    CachedDecoder,
    by_item,
    filled_in,
    greedy,
)
from visformer.pictures.candidates import candidate_table
from visformer.pictures.words.absent import no_lens_words
from visformer.pictures.words.choices import choice_sentence, short_choice
from visformer.pictures.words.modified_run import score
from visformer.values.not_finite import not_finite_words
from visformer.values.trace import Trace
from visformer.watching.watcher import Watched, watch

CLOSE = 1e-5


def assert_steps(trace: Trace, logits: Tensor, first: int = 0) -> None:
    """Assert that steps are those of logits [T, V]; rows before ``first`` of none."""
    assert len(trace.steps) == len(trace) == len(logits)
    assert np.isnan(trace.logits[:first]).all()
    assert apart(trace.logits[first:], logits[first:]) <= CLOSE * float(
        logits.abs().max()
    )
    for step, row in zip(trace.steps[first:], trace.logits[first:], strict=True):
        own = torch.tensor(row)
        p = own.softmax(-1)
        assert step.computed
        assert step.probability == pytest.approx(float(p[step.id]), abs=1e-6)
        assert step.candidates[0].id == int(own.argmax())
        assert step.rank == int((own > own[step.id]).sum()) + 1
        entropy = -(p * p.clamp(min=1e-30).log2()).sum()
        assert step.entropy == pytest.approx(float(entropy), abs=1e-4)
    read = trace.target_ids[1:].tolist()
    assert [step.id for step in trace.steps[:-1]] == read


def whole(family: str, model: Any, trace: Trace) -> Tensor:
    """Return the logits of one pass over what a Trace has read, [T, V]."""
    ids, source = (torch.tensor(x)[None] for x in (trace.target_ids, trace.source_ids))
    inputs = {"input_ids": ids}
    if family not in ALONE:
        inputs = {"input_ids": source, "decoder_input_ids": ids}
    with torch.no_grad():
        logits: Tensor = model(**inputs, use_cache=False).logits[0]
    return logits


@pytest.mark.parametrize(
    ("beams", "cache"), [(1, True), (3, True), (3, False)], ids=str
)
@pytest.mark.parametrize("family", FAMILIES)
def test_generate(family: str, beams: int, cache: bool) -> None:
    model, ids = made(family), given(2, 6)
    with torch.no_grad(), watch(model) as watched:
        model.generate(
            ids,
            **{"num_beams": beams, "max_new_tokens": 5, "min_new_tokens": 3},
            use_cache=cache,
            do_sample=False,
        )
    assert len(watched.traces) == 2
    for trace in watched.traces:
        # of a prompt, generate computes the logits of the last token alone
        first = 0 if family not in ALONE else 5 if cache else len(trace) - 1
        assert_steps(trace, whole(family, model, trace), first)
        assert_streams(trace, model)


def assert_streams(trace: Trace, model: Any) -> None:
    """Assert that what goes from layer to layer is that of one pass."""
    ids, source = (torch.tensor(x)[None] for x in (trace.target_ids, trace.source_ids))
    inputs = (source, None, ids) if source.numel() else (ids,)
    with torch.no_grad():
        (once,) = watch(model)(*inputs, use_cache=False).traces
    assert trace.model.stacks == once.model.stacks
    assert no_lens_words(trace) == ""
    for stack, facts in once.model.stacks.items():
        for layer in range(facts.hidden):
            ours, theirs = (x.hidden(stack, layer) for x in (trace, once))
            assert apart(ours, theirs) <= CLOSE * float(np.abs(theirs).max())


def test_a_prompts_rows_without_logits_are_said_to_have_none() -> None:
    model, ids = made("Llama"), given(1, 4)
    with torch.no_grad(), watch(model) as watched:
        model.generate(ids, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    (trace,) = watched.traces
    assert [step.computed for step in trace.steps] == [False] * 3 + [True] * 3
    assert not_finite_words(trace) == ""
    first = trace.steps[0]
    assert (len(first.candidates), math.isnan(first.entropy)) == (0, True)
    said = "The model computed no logits for this row; the step's token is "
    assert choice_sentence(trace, 0).startswith(said)
    assert "no logits were computed" in short_choice(trace, 0)
    assert candidate_table(trace.until(1)).summary.startswith(said)
    told = score(trace)
    assert told is not None
    assert (told.tokens, math.isfinite(told.total)) == (2, True)


def assert_one_pass(watched: Watched, model: Translator, source: Tensor) -> None:
    for row, trace in enumerate(watched.traces):
        read = torch.tensor(trace.target_ids)[None]
        with torch.no_grad():
            logits = model.decode(model.encode(source[row : row + 1]), read)[0]
        assert_steps(trace, logits)


@pytest.mark.parametrize("loop", [greedy, filled_in, by_item])
def test_a_loop_of_ones_own(loop: Any) -> None:
    model, source = Translator().eval(), some_ids(1 if loop is by_item else 2, 5)
    with torch.no_grad(), watch(model) as watched:
        loop(model, source)
    assert_one_pass(watched, model, source)


def test_a_loop_that_projects_the_last_token_alone() -> None:
    class Last(Translator):
        def decode(self, memory: Tensor, target: Tensor) -> Tensor:
            return super().decode(memory, target)[:, -1:]

    model, source = Last().eval(), some_ids(2, 5)
    with torch.no_grad(), watch(model) as watched:
        greedy(model, source)
    assert_one_pass(watched, Translator().eval(), source)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_cached_steps(rows: int) -> None:
    model, source = Cached().eval(), some_ids(rows, 5)
    kept = []
    with torch.no_grad(), watch(model) as watched:
        memory, token, before = model.encode(source), torch.full((rows, 1), 1), None
        for _ in range(STEPS):
            logits, before = model.step(memory, token, before)
            kept.append(logits.clone())
            token = logits[:, -1].argmax(-1, keepdim=True)
            logits[:] = 0  # what comes after is no business of the model's
    for trace, own in zip(watched.traces, torch.cat(kept, 1), strict=True):
        assert_steps(trace, own)


@pytest.mark.parametrize("shape", ["[B, T, V]", "[B T, V]", "[B, V]"])
def test_cached_steps_of_a_decoder(shape: str) -> None:
    class Shaped(CachedDecoder):
        def forward(self, ids: Tensor, before: Tensor | None = None) -> Any:
            x = self.embed(ids)
            kept = x if before is None else torch.cat([before, x], 1)
            new, all_keys = x.shape[1], kept.shape[1]
            may = torch.ones(new, all_keys).tril(all_keys - new).bool()
            logits = self.out(x + self.own(x, kept, may))
            each.append(logits)
            shaped = {"[B T, V]": logits.flatten(0, 1), "[B, V]": logits[:, -1]}
            return shaped.get(shape, logits), kept

    each: list[Tensor] = []
    model, token, before = Shaped().eval(), some_ids(2, 3), None
    with torch.no_grad(), watch(model) as watched:
        for _ in range(STEPS):
            _logits, before = model(token, before)
            token = each[-1][:, -1].argmax(-1, keepdim=True)
    several = torch.cat(each, 1)
    for trace, logits in zip(watched.traces, several, strict=True):
        assert_steps(trace, logits, 2 if shape == "[B, V]" else 0)


def test_a_model_whose_forward_is_the_loop() -> None:
    class Loop(Translator):
        def forward(self, source: Tensor, target: Any = None) -> Tensor:
            return greedy(self, source)

    model, source = Loop().eval(), some_ids(2, 5)
    with torch.no_grad():
        watched = watch(model)(source)
    assert_one_pass(watched, model, source)


def test_a_beam_loop_of_ones_own_follows_its_parents() -> None:
    model, source, beams = Cached().eval(), some_ids(2, 5), 2
    with torch.no_grad(), watch(model) as watched:
        memory = model.encode(source).repeat_interleave(beams, 0)
        token, before = torch.full((2 * beams, 1), 1), None
        scores = torch.tensor([0.0, -1e4] * 2)[:, None]
        for _ in range(STEPS):
            logits, before = model.step(memory, token, before)
            found = scores + logits[:, -1].log_softmax(-1)
            best = found.view(2, -1).topk(beams)
            parents = (best.indices // V + torch.arange(2)[:, None] * beams).flatten()
            scores, token = best.values.view(-1, 1), (best.indices % V).view(-1, 1)
            before = before[parents]
    sources = source.repeat_interleave(beams, 0)
    plain: Any = Translator().eval()
    plain.load_state_dict(model.state_dict())
    assert_one_pass(watched, plain, sources)
