"""Loops, beams and batches: axes are the model's own, and a run is a Trace a row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from tests.system.watching.comparing import CLOSE, apart
from tests.system.watching.small_models import (
    WIDTH,
    Attention,
    Encoder,
    Kept,
    Translator,
    V,
    assert_kept,
    assert_nothing_missed,
    assert_traced,
    kept_by,
    some_ids,
)
from visformer.watching.watcher import Watched, watch

STEPS = 4


def stepped(own: list[Tensor]) -> Tensor:
    """Return the weights of steps of a query each as one matrix, zeros after each."""
    keys = own[-1].shape[3]
    wide = [nn.functional.pad(x, (0, keys - x.shape[3])) for x in own]
    return torch.cat(wide, 2)  # [B, H, steps, K]


def greedy(model: Translator, source: Tensor) -> Tensor:
    """Decode as the Annotated Transformer does; what the decoder read last, [B, T]."""
    memory, target = model.encode(source), torch.full((len(source), 1), 1)
    for _ in range(STEPS):
        last = target
        best = model.decode(memory, target)[:, -1].argmax(-1, keepdim=True)
        target = torch.cat([target, best], 1)
    return last


def by_item(model: Translator, source: Tensor) -> Tensor:
    """Decode one sentence with numbers that leave torch: new tensors each step."""
    memory, ids = model.encode(source), [1]
    for _ in range(STEPS):
        last = torch.tensor([ids])
        ids.append(int(model.decode(memory, last)[0, -1].argmax().item()))
    return last


def filled_in(model: Translator, source: Tensor) -> Tensor:
    """Decode into a tensor that is as long as the result from the beginning."""
    memory = model.encode(source)
    target = torch.zeros(len(source), STEPS + 1, dtype=torch.long)
    target[:, 0] = 1
    for at in range(1, STEPS + 1):
        last = target[:, :at]
        target[:, at] = model.decode(memory, last)[:, -1].argmax(-1)
    return last


def assert_growing(watched: Watched, kept: Kept, source: Tensor) -> None:
    """Assert that steps are those of the model, and the last one a Trace a row."""
    rows, length = source.shape
    kinds = ["encoder"] + ["decoder", "cross"] * STEPS
    assert [one.kind for one in watched.attentions] == kinds
    assert_kept(watched, kept)
    shapes = [x.weights.shape for x in watched.attentions if x.module == "own"]
    assert shapes == [(rows, 2, at, at) for at in range(1, STEPS + 1)]
    assert_traced(watched, "encoder", kept["mine"][0])
    assert_traced(watched, "decoder", kept["own"][-1])
    assert_traced(watched, "cross", kept["cross"][-1])
    assert [len(x.source) for x in watched.traces] == [length] * rows
    assert_nothing_missed(watched)


def assert_ids(watched: Watched, source: Tensor, target: Tensor) -> None:
    assert [x.source_ids.tolist() for x in watched.traces] == source.tolist()
    assert [x.target_ids.tolist() for x in watched.traces] == target.tolist()
    names = [[str(id) for id in row] for row in target.tolist()]
    assert [list(x.target) for x in watched.traces] == names


@pytest.mark.parametrize("shared", [False, True], ids=["two tables", "one table"])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("loop", [greedy, filled_in])
def test_a_loop_of_encode_and_decode_is_one_growing_trace(
    loop: Any, rows: int, shared: bool
) -> None:
    model, source = Translator(shared=shared).eval(), some_ids(rows, 5)
    with torch.no_grad(), watch(model) as watched:
        target = loop(model, source)
    assert_growing(watched, kept_by(model), source)
    assert_ids(watched, source, target)
    chosen = [[step.id for step in x.steps[:-1]] for x in watched.traces]
    assert chosen == target[:, 1:].tolist()


@pytest.mark.parametrize("shared", [False, True], ids=["two tables", "one table"])
def test_a_loop_whose_numbers_leave_torch(shared: bool) -> None:
    model, source = Translator(shared=shared).eval(), some_ids(1, 5)
    with torch.no_grad(), watch(model) as watched:
        target = by_item(model, source)
    assert_growing(watched, kept_by(model), source)
    assert_ids(watched, source, target)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_source_as_long_as_a_step_and_a_batch_as_large_as_the_heads(
    rows: int,
) -> None:
    """Sizes tell no axis from another: 2 heads, 2 rows, 2 tokens."""
    model, source = Translator().eval(), some_ids(rows, 2)
    with torch.no_grad(), watch(model) as watched:
        target = greedy(model, source)
    assert_growing(watched, kept_by(model), source)
    assert_ids(watched, source, target)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_model_whose_forward_is_the_loop(rows: int) -> None:
    class Loop(Translator):
        def forward(self, source: Tensor, target: Any = None) -> Tensor:
            return greedy(self, source)

    model, source = Loop().eval(), some_ids(rows, 5)
    with torch.no_grad(), watch(model) as watched:
        target = model(source)
    assert_growing(watched, kept_by(model), source)
    assert_ids(watched, source, target)
    with torch.no_grad():
        called = watch(model)(source)
    assert torch.equal(called.output, target)
    assert_traced(called, "decoder", kept_by(model)["own"][-1])
    assert_ids(called, source, target)


class Cached(Translator):
    """A Translator that keeps what its decoder has read."""

    def step(
        self, memory: Tensor, token: Tensor, before: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        at = 0 if before is None else before.shape[1]
        x = self.embed_target(token) + self.positions[:, at : at + 1]
        whole = x if before is None else torch.cat([before, x], 1)
        x = x + self.own(x, whole)
        return self.out(x + self.cross(x, memory)), whole


@pytest.mark.parametrize("rows", [1, 2])
def test_cached_steps_are_one_trace_with_the_true_ids(rows: int) -> None:
    model, source = Cached().eval(), some_ids(rows, 5)
    with torch.no_grad(), watch(model) as watched:
        memory, token, before = model.encode(source), torch.full((rows, 1), 1), None
        read: list[Tensor] = []
        for _ in range(STEPS):
            read.append(token)
            logits, before = model.step(memory, token, before)
            token = logits[:, -1].argmax(-1, keepdim=True)
    kept = kept_by(model)
    kinds = ["encoder"] + ["decoder", "cross"] * STEPS
    assert [one.kind for one in watched.attentions] == kinds
    assert_kept(watched, kept)
    assert_traced(watched, "encoder", kept["mine"][0])
    assert_traced(watched, "decoder", stepped(kept["own"]))
    assert_traced(watched, "cross", torch.cat(kept["cross"], 2))
    assert_ids(watched, source, torch.cat(read, 1))
    assert_nothing_missed(watched)


class CachedDecoder(Encoder):
    """A decoder alone that keeps what it has read."""

    def forward(self, ids: Tensor, before: Tensor | None = None) -> Any:
        x = self.embed(ids)
        whole = x if before is None else torch.cat([before, x], 1)
        x = x + self.own(x, whole)
        return self.out(x), whole


@pytest.mark.parametrize("rows", [1, 2])
def test_cached_steps_of_one_query_are_a_decoder(rows: int) -> None:
    model = CachedDecoder().eval()
    token, before, read = torch.full((rows, 1), 4), None, []
    with torch.no_grad(), watch(model) as watched:
        for _ in range(STEPS):
            read.append(token)
            logits, before = model(token, before)
            token = logits[:, -1].argmax(-1, keepdim=True)
    kept = kept_by(model)
    assert [one.kind for one in watched.attentions] == ["decoder"] * STEPS
    assert_kept(watched, kept)
    assert_traced(watched, "decoder", stepped(kept["own"]))
    several = torch.cat(read, 1).tolist()
    assert [x.target_ids.tolist() for x in watched.traces] == several
    assert_nothing_missed(watched)


def test_a_beam_loop_of_ones_own_is_a_trace_for_each_row_of_its_last_step() -> None:
    model, beams = Translator().eval(), 3
    source = some_ids(2, 5)
    with torch.no_grad(), watch(model) as watched:
        memory = model.encode(source).repeat_interleave(beams, 0)
        target = torch.full((2 * beams, 1), 1)
        scores = torch.tensor([0.0, -1e4, -1e4] * 2)[:, None]
        for _ in range(STEPS):
            read = target
            logits = model.decode(memory, target)[:, -1].log_softmax(-1)
            best = (scores + logits).view(2, -1).topk(beams)
            parents = best.indices // V + torch.arange(2)[:, None] * beams
            scores = best.values.view(-1, 1)
            tokens = (best.indices % V).view(-1, 1)
            target = torch.cat([target[parents.flatten()], tokens], 1)
    shapes = [x.weights.shape for x in watched.attentions if x.kind == "cross"]
    assert shapes == [(6, 2, at, 5) for at in range(1, STEPS + 1)]
    kept = kept_by(model)
    assert_kept(watched, kept)
    assert_traced(watched, "encoder", kept["mine"][0].repeat_interleave(beams, 0))
    assert_traced(watched, "decoder", kept["own"][-1])
    assert_traced(watched, "cross", kept["cross"][-1])
    assert_ids(watched, source.repeat_interleave(beams, 0), read)


def test_sentences_that_are_finished_leave_the_batch() -> None:
    model, source = Translator().eval(), some_ids(3, 5)
    with torch.no_grad(), watch(model) as watched:
        memory, target = model.encode(source), torch.full((3, 1), 1)
        for at in range(STEPS):
            read = target
            best = model.decode(memory, target)[:, -1].argmax(-1, keepdim=True)
            target = torch.cat([target, best], 1)
            if at == 1:
                memory, target = memory[1:], target[1:]
    kept = kept_by(model)
    assert_kept(watched, kept)
    assert_traced(watched, "decoder", kept["own"][-1])
    assert_traced(watched, "cross", kept["cross"][-1])
    assert_ids(watched, source[1:], read)


class LeftPadded(Encoder):
    """A decoder whose mask is added: rows that may read nothing read all alike."""

    def forward(self, ids: Tensor, mask: Any = None) -> Tensor:
        x, n = self.embed(ids), ids.shape[1]
        q, k, v = (
            layer(x).view(len(x), n, 2, 4).transpose(1, 2)
            for layer in (self.own.q, self.own.k, self.own.v)
        )
        allowed = torch.ones(n, n).tril().bool() & mask.bool()[:, None, None, :]
        scores = q @ k.mT / 2 + (~allowed) * torch.finfo(torch.float32).min
        weights = scores.softmax(-1)
        self.own.kept.append(weights.detach())
        made = weights @ v
        return self.out(made.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def test_a_decoders_batch_that_is_padded_on_the_left() -> None:
    model, ids = LeftPadded().eval(), some_ids(2, 6)
    ids[1, :2] = 0
    watched = watch(model, pad=0)(ids, (ids != 0).long())
    assert [one.kind for one in watched.attentions] == ["decoder"]
    assert_traced(watched, "decoder", kept_by(model)["own"][-1])
    assert [x.target_ids.tolist() for x in watched.traces] == ids.tolist()
    assert watched.certificate.missed == ()


@pytest.mark.parametrize("rows", [1, 3])
def test_learned_queries_of_multihead_attention(rows: int) -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.queries = nn.Parameter(torch.randn(1, 2, 16))
            self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            queries = self.queries.expand(len(x), -1, -1)  # [B, 2, 16]
            made, self.own = self.attention(queries, x, x, average_attn_weights=False)
            return made  # type: ignore[no-any-return]

    torch.manual_seed(0)
    model = Pooled().eval()
    watched = watch(model)(torch.randn(rows, 9, 16))
    (one,) = watched.attentions
    assert (one.kind, one.weights.shape) == ("cross", (rows, 4, 2, 9))
    assert apart(one.weights, model.own.detach()) <= 1e-6
    assert_traced(watched, "cross", model.own.detach())


@pytest.mark.parametrize("fused", [False, True])
def test_differential_attention_has_traces(fused: bool) -> None:
    class Differential(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.qkv = nn.Embedding(V, WIDTH), nn.Linear(WIDTH, 24)

        def forward(self, ids: Tensor) -> Tensor:
            qkv = self.qkv(self.embed(ids)).view(*ids.shape, 3, 2, 4)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)  # [B, 2, N, 4] each
            halves = [*zip(q.chunk(2, -1), k.chunk(2, -1), strict=True)]
            maps = [(a @ b.mT / 2**0.5).softmax(-1) for a, b in halves]
            # what multiplies the values: [B, 4, N, N], or mixed [B, 2, N, N]
            whole = torch.cat(maps, 1) if fused else maps[0] - 0.5 * maps[1]
            self.own = whole.detach()
            if fused:
                made = [scaled_dot_product_attention(a, b, v) for a, b in halves]
                return made[0] - 0.5 * made[1]
            return (maps[0] - 0.5 * maps[1]) @ v  # type: ignore[no-any-return]

    torch.manual_seed(0)
    model = Differential().eval()
    watched = watch(model)(some_ids(2, 5))
    maps = torch.cat([torch.tensor(one.weights) for one in watched.attentions], 1)
    assert apart(maps, model.own) <= CLOSE
    assert [len(x.target or x.source) for x in watched.traces] == [5, 5]
    assert sum(x.layers("encoder") for x in watched.traces) > 0


def test_two_loops_in_one_with_are_told_apart() -> None:
    """The last one is shown; the first one's attention is among the attentions."""
    model, first, second = Translator().eval(), some_ids(2, 5), some_ids(1, 3, seed=2)
    with torch.no_grad(), watch(model) as watched:
        greedy(model, first)
        target = greedy(model, second)
    assert len(watched.attentions) == 2 * (1 + 2 * STEPS)
    kept = kept_by(model)
    assert_kept(watched, kept)
    assert_traced(watched, "decoder", kept["own"][-1])
    assert_traced(watched, "cross", kept["cross"][-1])
    assert_ids(watched, second, target)


def test_an_attention_of_ones_own_in_a_loop_without_a_model_around_it() -> None:
    attention = Attention().eval()
    with torch.no_grad(), watch(attention) as watched:
        x = torch.randn(2, 1, WIDTH)
        for _ in range(3):
            x = torch.cat([x, attention(x, x)[:, -1:]], 1)
    shapes = [one.weights.shape for one in watched.attentions]
    assert shapes == [(2, 2, at, at) for at in (1, 2, 3)]
    assert_kept(watched, kept_by(attention))


def test_a_cache_that_puts_the_newest_key_first() -> None:
    """Where one row reads equal tokens, another one tells which key is whose."""
    model, ids = Encoder().eval(), torch.tensor([[5, 5, 5, 5], [5, 6, 7, 8]])
    known = torch.zeros(2, 0, WIDTH)
    with torch.no_grad(), watch(model) as watched:
        for at in range(ids.shape[1]):
            x = model.embed(ids[:, at : at + 1].clone())
            known = torch.cat([x, known], 1)
            model.own(x, known)
    own = [one.flip(-1) for one in model.own.kept]
    assert [x.target_ids.tolist() for x in watched.traces] == ids.tolist()
    for row, trace in enumerate(watched.traces):
        assert apart(trace.attention("decoder", 0), stepped(own)[row]) <= CLOSE
