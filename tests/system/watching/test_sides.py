"""Which input is the source, and which the target: by names and by what is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.comparing import CLOSE, apart
from tests.system.watching.small_models import (
    WIDTH,
    Attention,
    Encoder,
    Translator,
    V,
    assert_kept,
    assert_nothing_missed,
    causal,
    kept_by,
    some_ids,
)
from visformer.watching.watcher import Watched, watch

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def called(model: nn.Module, *args: Any, **kwargs: Any) -> Watched:
    with torch.no_grad():
        return watch(model.eval())(*args, **kwargs)


def kinds(watched: Watched) -> dict[str, str]:
    return {one.module: one.kind for one in watched.attentions}


def assert_own(watched: Watched, model: nn.Module) -> None:
    """Assert that all attention is the model's own, and shown or named as missed."""
    assert_kept(watched, {name: own[-1:] for name, own in kept_by(model).items()})
    held = [
        (kind, trace.attention(kind, layer))
        for trace in watched.traces[:1]
        for kind in trace.kinds
        for layer in range(trace.layers(kind))
    ]
    said = " ".join(watched.certificate.missed)
    for one in watched.attentions:
        first = one.weights[0]
        same = [w for k, w in held if k == one.kind and w.shape == first.shape]
        shown = any(apart(first, weights) <= CLOSE for weights in same)
        assert shown or f"“{one.module}”" in said


def assert_translated(
    watched: Watched, model: nn.Module, source: Tensor, target: Tensor
) -> None:
    """Assert the kinds, weights and ids of a Translator's one call."""
    assert kinds(watched) == {"mine": "encoder", "own": "decoder", "cross": "cross"}
    assert_own(watched, model)
    assert [x.source_ids.tolist() for x in watched.traces] == source.tolist()
    assert [x.target_ids.tolist() for x in watched.traces] == target.tolist()
    assert_nothing_missed(watched)


SHARING: dict[str, Callable[[Tensor], Any]] = {
    "the same": lambda x: (x, x),
    "but the last": lambda x: (x, x[:, :-1]),
    "but the first": lambda x: (x, x[:, 1:]),
    "halves": lambda x: x.chunk(2, 1),
    "rows": lambda x: x.chunk(2, 0),
    "parts of both": lambda x: (x[:, :4], x[:, 2:]),
}


@pytest.mark.parametrize("shared", [False, True], ids=["two tables", "one table"])
@pytest.mark.parametrize("case", SHARING)
def test_inputs_that_share_their_numbers(case: str, shared: bool) -> None:
    model = Translator(shared=shared).eval()
    source, target = SHARING[case](some_ids(2, 6))
    watched = called(model, source, target)
    assert_translated(watched, model, source, target)
    assert [x.tolist() for x in watched.sources] == [source.tolist()]
    assert [x.tolist() for x in watched.targets] == [target.tolist()]


@pytest.mark.parametrize("case", SHARING)
def test_shared_numbers_in_the_with_form_and_by_name(case: str) -> None:
    model = Translator().eval()
    source, target = SHARING[case](some_ids(2, 6))
    with torch.no_grad(), watch(model) as watched:
        model(target=target, source=source)
    assert_translated(watched, model, source, target)


@pytest.mark.parametrize("mask_first", [False, True])
def test_a_mask_before_the_ids(mask_first: bool) -> None:
    class Model(Translator):
        def forward(self, attention_mask: Tensor, input_ids: Any, target: Any = None):  # type: ignore[no-untyped-def,override]
            return super().forward(input_ids, target)

    model, source, target = Model().eval(), some_ids(2, 5), some_ids(2, 4, seed=2)
    mask = torch.ones(2, 5, dtype=torch.long)
    given = {"attention_mask": mask, "input_ids": source, "target": target}
    names = list(given) if mask_first else list(given)[::-1]
    watched = called(model, **{name: given[name] for name in names})
    assert_translated(watched, model, source, target)


@pytest.mark.parametrize(
    "names",
    [
        ("sources", "inputs"),
        ("inputs", "targets"),
        ("x", "y"),
        ("enc_x", "dec_x"),
        ("input", "output"),
        ("question", "answer"),
    ],
)
@pytest.mark.parametrize("target_first", [False, True])
def test_any_names_in_any_order(names: tuple[str, str], target_first: bool) -> None:
    """What attends to the other one is the target, whatever it is called."""
    first, second = names[::-1] if target_first else names
    scope: dict[str, Any] = {"Translator": Translator}
    exec(  # the names are the point
        f"class Model(Translator):\n"
        f"  def forward(self, {first}, {second}):\n"
        f"    return self.decode(self.encode({names[0]}), {names[1]})",
        scope,
    )
    model, source, target = scope["Model"]().eval(), some_ids(2, 5), some_ids(2, 4, 2)
    given = (target, source) if target_first else (source, target)
    assert_translated(called(model, *given), model, source, target)


def test_t5_whose_target_is_a_slice_of_its_source() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        **{"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4},
        **{"vocab_size": V, "pad_token_id": 0, "decoder_start_token_id": 0},
    )
    torch.manual_seed(0)
    model, ids = transformers.T5ForConditionalGeneration(config), some_ids(2, 8)
    watched = called(model, input_ids=ids, decoder_input_ids=ids[:, :6])
    assert [one.kind for one in watched.attentions] == ["encoder", "decoder", "cross"]
    shapes = [one.weights.shape[2:] for one in watched.attentions]
    assert shapes == [(8, 8), (6, 6), (6, 8)]
    assert [x.source_ids.tolist() for x in watched.traces] == ids.tolist()
    assert [x.target_ids.tolist() for x in watched.traces] == ids[:, :6].tolist()
    assert watched.certificate.ok, watched.certificate


class Plain(nn.Module):
    """attention(query, key, value), as papers write it; with weights, or without."""

    def __init__(self, *, weights: bool = True) -> None:
        super().__init__()
        several = [nn.Linear(8, 8) if weights else nn.Identity() for _ in range(3)]
        self.layers = nn.ModuleList(several)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **_: Any) -> Any:
        given = zip(self.layers, (query, key, value), strict=True)
        made = [layer(x) for layer, x in given]
        q, k, v = (x.view(len(x), -1, 2, 4).transpose(1, 2) for x in made)
        weights = (q @ k.mT / 2).softmax(-1)  # [B, 2, Q, K]
        return (weights @ v).transpose(1, 2).flatten(2), weights


OF_ATTENTION: dict[str, Callable[[], nn.Module]] = {
    "without weights": lambda: Plain(weights=False),
    "with weights": Plain,
    "torch.nn": lambda: nn.MultiheadAttention(8, 2, batch_first=True),
}


def assert_alone(module: nn.Module, kind: str, *given: Tensor) -> None:
    """Assert the kind and the weights [B, 2, Q, K] of an attention that is alone."""
    watched = called(module, *given, average_attn_weights=False)
    truth = watched.output[1].detach()
    (one,) = watched.attentions
    assert (one.kind, one.weights.shape) == (kind, tuple(truth.shape))
    assert apart(one.weights, truth) <= 1e-6
    held = [trace.attention(one.kind, 0) for trace in watched.traces]  # type: ignore[arg-type]
    assert max(apart(a, b) for a, b in zip(held, truth, strict=True)) <= CLOSE
    assert watched.certificate.missed == ()


@pytest.mark.parametrize("written", OF_ATTENTION)
def test_an_attention_given_three_tensors(written: str) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    assert_alone(OF_ATTENTION[written](), "cross", q, k, v)
    assert_alone(OF_ATTENTION[written](), "cross", q, k, k)


def test_keys_and_values_of_other_sizes() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, kdim=6, vdim=10, batch_first=True)
    q, k, v = torch.randn(2, 3, 8), torch.randn(2, 5, 6), torch.randn(2, 5, 10)
    assert_alone(module, "cross", q, k, v)


@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("written", OF_ATTENTION)
def test_an_attention_given_one_tensor_three_times(written: str, length: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, length, 8)
    assert_alone(OF_ATTENTION[written](), "encoder", x, x, x)


def test_two_encoders_that_one_decoder_reads() -> None:
    class Two(Translator):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.looks, self.seen = (
                nn.Linear(6, WIDTH),
                Attention(),
                Attention(),
            )

        def forward(self, src: Tensor, image: Tensor, tgt: Tensor) -> Tensor:  # type: ignore[override]
            memory, y = self.encode(src), self.patches(image)
            y = y + self.looks(y, y)
            x = self.embed_target(tgt) + self.positions[:, : tgt.shape[1]]
            x = x + self.own(x, x, causal(x.shape[1]))
            x = x + self.cross(x, memory)
            return self.out(x + self.seen(x, y))  # type: ignore[no-any-return]

    model, src, tgt = Two(), some_ids(2, 5), some_ids(2, 4, seed=2)
    watched = called(model, src, torch.randn(2, 7, 6), tgt)
    of = {"mine": "encoder", "looks": "encoder", "own": "decoder"}
    assert kinds(watched) == of | {"cross": "cross", "seen": "cross"}
    assert_own(watched, model)
    assert [x.target_ids.tolist() for x in watched.traces] == tgt.tolist()
    assert watched.certificate.findings == ()


@pytest.mark.parametrize("patches", [6, 9])
def test_two_towers_that_do_not_read_each_other(patches: int) -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.patches = nn.Embedding(V, WIDTH), nn.Linear(12, WIDTH)
            self.text, self.image = Attention(), Attention()

        def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
            x, y = self.words(input_ids), self.patches(pixel_values)
            text = self.text(x, x, causal(x.shape[1]))[:, -1]
            return text @ self.image(y, y).mean(1).T  # type: ignore[no-any-return]

    torch.manual_seed(0)
    model, ids = Towers(), some_ids(2, 6)
    watched = called(model, ids, torch.randn(2, patches, 12))
    assert set(kinds(watched)) == {"text", "image"}
    assert_own(watched, model)
    assert watched.certificate.findings == ()
    told = watch(model, sources="pixel_values", targets="input_ids")
    with torch.no_grad():
        both = told(ids, torch.randn(2, patches, 12))
    assert kinds(both) == {"text": "decoder", "image": "encoder"}
    assert [x.target_ids.tolist() for x in both.traces] == ids.tolist()
    assert_own(both, model)


@pytest.mark.parametrize("lengths", [(5, 5), (5, 7)])
def test_a_bi_encoder(lengths: tuple[int, int]) -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Encoder()

        def forward(self, query: Tensor, passage: Tensor) -> Tensor:
            a, b = self.inner(query).mean(1), self.inner(passage).mean(1)
            return a @ b.T  # type: ignore[no-any-return]

    model = Pair()
    watched = called(model, some_ids(2, lengths[0]), some_ids(2, lengths[1], seed=2))
    own = model.inner.own.kept[-2:]
    model.inner.own.kept.clear()
    assert [one.weights.shape for one in watched.attentions] == [x.shape for x in own]
    assert [
        apart(a.weights, b) for a, b in zip(watched.attentions, own, strict=True)
    ] == [0, 0]
    assert "decoder" not in kinds(watched).values()
    assert watched.certificate.findings == ()
    assert len(watched.last_run) == 2 or watched.certificate.missed


def test_queries_that_were_learned_are_a_target() -> None:
    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.queries = nn.Linear(6, WIDTH), nn.Embedding(3, WIDTH)
            self.mine, self.own, self.cross = Attention(), Attention(), Attention()

        def forward(self, pixel_values: Tensor) -> Tensor:
            y = self.patches(pixel_values)
            y = y + self.mine(y, y)
            x = self.queries.weight[None].expand(len(y), -1, -1)  # [B, 3, 8]
            x = x + self.own(x, x)
            return x + self.cross(x, y)  # type: ignore[no-any-return]

    torch.manual_seed(0)
    model = Detector()
    watched = called(model, torch.randn(2, 7, 6))
    assert kinds(watched) == {"mine": "encoder", "own": "decoder", "cross": "cross"}
    assert_own(watched, model)
    assert [x.target for x in watched.traces] == [("1", "2", "3")] * 2
    assert_nothing_missed(watched)


@pytest.mark.parametrize("future_first", [False, True])
def test_a_forecasters_past_and_future(future_first: bool) -> None:
    class Forecaster(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.Linear(3, WIDTH), nn.Linear(3, WIDTH)
            self.mine, self.own, self.cross = Attention(), Attention(), Attention()

        def forward(self, past_values: Tensor, future_values: Tensor) -> Tensor:
            y, x = self.before(past_values), self.after(future_values)
            y = y + self.mine(y, y)
            x = x + self.own(x, x, causal(x.shape[1]))
            return x + self.cross(x, y)  # type: ignore[no-any-return]

    torch.manual_seed(0)
    model, given = Forecaster(), {"past_values": torch.randn(2, 6, 3)}
    given["future_values"] = torch.randn(2, 4, 3)
    names = list(given)[::-1] if future_first else list(given)
    watched = called(model, **{name: given[name] for name in names})
    assert kinds(watched) == {"mine": "encoder", "own": "decoder", "cross": "cross"}
    assert_own(watched, model)
    assert_nothing_missed(watched)


@pytest.mark.parametrize("name", ["segment_ids", "segment_info", "segments", "seg"])
@pytest.mark.parametrize("first", [False, True])
def test_segments_are_no_target(name: str, first: bool) -> None:
    order = f"{name}, x" if first else f"x, {name}"
    scope: dict[str, Any] = {"Encoder": Encoder, "nn": nn}
    exec(  # the name is the point
        f"class Bert(Encoder):\n"
        f"  def __init__(self):\n"
        f"    super().__init__()\n"
        f"    self.parts = nn.Embedding(2, 8)\n"
        f"  def forward(self, {order}):\n"
        f"    return self.read(self.embed(x) + self.parts({name}))",
        scope,
    )
    model, ids = scope["Bert"](), some_ids(2, 6)
    kind_of_words = torch.tensor([[0, 0, 0, 1, 1, 1]] * 2)
    watched = called(model, **{"x": ids, name: kind_of_words})
    assert kinds(watched) == {"own": "encoder"}
    assert_own(watched, model)
    assert [x.source_ids.tolist() for x in watched.traces] == ids.tolist()
    assert_nothing_missed(watched)


@pytest.mark.parametrize("case", ["halves"])
def test_one_argument_that_is_both_sides(case: str) -> None:
    class Model(Translator):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(*SHARING[case](x))

    model = Model()
    watched = called(model, some_ids(2, 8))
    of = kinds(watched)
    assert (of["mine"], of["own"]) == ("encoder", "decoder")
    assert of["cross"] in ("cross", "other")
    assert_own(watched, model)


def test_two_inputs_that_read_each_other_are_of_no_kind() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Attention(), Attention()

        def forward(self, a: Tensor, b: Tensor) -> Any:
            return self.first(a, b), self.second(b, a)

    watched = called(Both(), torch.randn(2, 5, WIDTH), torch.randn(2, 4, WIDTH))
    assert kinds(watched) == {"first": "other", "second": "other"}
    said = " ".join(watched.certificate.missed)
    assert "“first”: its attention is neither" in said
    assert "“second”: its attention is neither" in said


def test_slices_of_what_was_joined_are_of_the_inputs_that_are_in_them() -> None:
    class Forecaster(Translator):
        def forward(self, past: Tensor, future: Tensor) -> Tensor:
            x = torch.cat([past, future], 1)  # [B, 9, 8]
            y = x[:, 1:5]
            return self.read(y + self.mine(y, y), x[:, 6:])

    watched = called(Forecaster(), torch.randn(2, 6, WIDTH), torch.randn(2, 3, WIDTH))
    assert kinds(watched) == {"mine": "encoder", "own": "decoder", "cross": "cross"}
    assert_nothing_missed(watched)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("how", ["expand", "repeat", "looked up"])
def test_learned_queries_however_they_are_taken(how: str, autocast: bool) -> None:
    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.queries = nn.Embedding(3, WIDTH)
            self.own, self.cross = Attention(), Attention()

        def forward(self, pixel_values: Tensor) -> Tensor:
            n = len(pixel_values)
            x = self.queries.weight[None].expand(n, -1, -1)  # [B, 3, 8]
            if how == "repeat":
                x = self.queries.weight[None].repeat(n, 1, 1)
            elif how == "looked up":
                x = self.queries(torch.arange(3).expand(n, -1))
            x = x + self.own(x, x)
            return x + self.cross(x, pixel_values)  # type: ignore[no-any-return]

    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        watched = called(Detector(), torch.randn(2, 7, WIDTH))
    assert kinds(watched) == {"own": "decoder", "cross": "cross"}
    assert_nothing_missed(watched)


def test_an_image_has_no_tokens_that_could_be_lost() -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.patches = nn.Embedding(V, WIDTH), nn.Conv2d(3, WIDTH, 2, 2)
            self.first = nn.Parameter(torch.randn(1, 1, WIDTH))
            self.text, self.image = Attention(), Attention()

        def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Any:
            x, y = self.words(input_ids), self.patches(pixel_values).flatten(2).mT
            y = torch.cat([self.first.expand(len(y), -1, -1), y], 1)
            return self.text(x, x, causal(x.shape[1])), self.image(y, y)

    watched = called(Towers(), some_ids(2, 5), torch.randn(2, 3, 4, 4))
    assert watched.certificate.missed == ()
