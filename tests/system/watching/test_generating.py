"""``generate`` of transformers: beams, batches and padding on the left."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.system.watching.comparing import apart
from tests.system.watching.small_models import uneven
from visformer.watching.watcher import watch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")
V, LAYERS, HEADS = 50, 2, 4
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
BART = {
    **{"d_model": 32, "encoder_layers": LAYERS, "decoder_layers": LAYERS},
    **{"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": V, **SPECIAL},
    **{"decoder_start_token_id": 2, "forced_eos_token_id": None},
}
T5 = {
    **{"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": LAYERS, "num_heads": HEADS},
    **{"vocab_size": V, "pad_token_id": 1, "decoder_start_token_id": 1},
}
LLAMA = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS},
    **{"num_attention_heads": HEADS, "num_key_value_heads": 2, "vocab_size": V},
    **{"max_position_embeddings": 64, **SPECIAL},
}
GPT2 = {"n_embd": 32, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": V, **SPECIAL}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
WINDOW = {**LLAMA, "sliding_window": 4, "head_dim": 8}
MIXED = {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "T5": ("ForConditionalGeneration", T5),
    "Marian": ("MTModel", BART),
    "Bart": ("ForConditionalGeneration", BART),
    "GPT2": ("LMHeadModel", GPT2),
    "Llama": ("ForCausalLM", LLAMA),
}
WINDOWS: dict[str, tuple[str, dict[str, Any]]] = {
    "Mistral": ("ForCausalLM", WINDOW),
    "Mixtral": ("ForCausalLM", {**WINDOW, **EXPERTS}),
    "Gemma3Text": ("ForCausalLM", MIXED),
    "GptOss": ("ForCausalLM", {**MIXED, **EXPERTS, "rope_parameters": ROPE}),
}
ALONE = ("GPT2", "Llama")


def made(family: str, implementation: str = "sdpa") -> Any:
    torch.manual_seed(4)
    suffix, sizes = (FAMILIES | WINDOWS)[family]
    config = getattr(transformers, family + "Config")(**sizes)
    kind = getattr(transformers, family.removesuffix("Text") + suffix)
    return uneven(kind._from_config(config, attn_implementation=implementation).eval())


def given(rows: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(8)
    return torch.randint(3, V, (rows, length), generator=generator)


def assert_as_alone(family: str, model: Any, trace: Any, source: Tensor) -> None:
    """Assert that a Trace is what one forward pass over its sentence gives."""
    target = torch.tensor(trace.target_ids)[None]
    inputs = {"input_ids": target}
    if family not in (*ALONE, *WINDOWS):
        inputs = {"input_ids": source[None], "decoder_input_ids": target}
        assert trace.source_ids.tolist() == source.tolist()
    with torch.no_grad():
        (whole,) = watch(model)(**inputs, use_cache=False).traces
    assert trace.kinds == whole.kinds
    worst = 3e-5 if family == "T5" else 2e-6
    for kind in whole.kinds:
        assert trace.layers(kind) == LAYERS
        for layer in range(LAYERS):
            ours, theirs = (x.attention(kind, layer) for x in (trace, whole))
            assert apart(ours, theirs) <= worst


@pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])
@pytest.mark.parametrize("family", FAMILIES)
def test_beams_are_a_trace_for_each_returned_sequence(family: str, cache: bool) -> None:
    model, ids = made(family), given(2, 6)
    with torch.no_grad(), watch(model) as watched:
        returned = model.generate(
            ids, num_beams=3, max_new_tokens=6, min_new_tokens=2, use_cache=cache
        )
    assert len(watched.traces) == len(returned) == 2
    for trace, sequence, source in zip(watched.traces, returned, ids, strict=True):
        assert trace.target_ids.tolist() == sequence[: len(trace)].tolist()
        assert len(trace) > (6 if family in ALONE else 1)
        assert_as_alone(family, model, trace, source)
    assert watched.certificate.passed


@pytest.mark.parametrize("family", ["Bart", "Llama"])
def test_several_sequences_of_each_sentence(family: str) -> None:
    model, ids = made(family), given(2, 6)
    with torch.no_grad(), watch(model) as watched:
        returned = model.generate(
            ids, num_beams=3, num_return_sequences=2, max_new_tokens=4, min_new_tokens=4
        )
    assert len(watched.traces) == len(returned) == 4
    sources = ids.repeat_interleave(2, 0)
    for trace, sequence, source in zip(watched.traces, returned, sources, strict=True):
        assert trace.target_ids.tolist() == sequence[: len(trace)].tolist()
        assert_as_alone(family, model, trace, source)


@pytest.mark.parametrize("family", ["Bart", "Marian", "T5"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_batch_of_beams_is_no_axis_of_heads(family: str, rows: int) -> None:
    model = made(family)
    with torch.no_grad(), watch(model) as watched:
        model.generate(given(rows, 5), num_beams=3, max_new_tokens=3, min_new_tokens=3)
    cross = [x.weights.shape for x in watched.attentions if x.kind == "cross"]
    assert set(cross) == {(3 * rows, HEADS, 1, 5)}
    own = [x.weights.shape for x in watched.attentions if x.kind == "decoder"]
    assert {shape[:3] for shape in own} == {(3 * rows, HEADS, 1)}
    encoder = [x.weights.shape for x in watched.attentions if x.kind == "encoder"]
    assert set(encoder) == {(rows, HEADS, 5, 5)}
    assert len(watched.traces) == rows


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ALONE)
def test_a_batch_padded_on_the_left(family: str, implementation: str) -> None:
    model, ids = made(family, implementation), given(2, 7)
    ids[1, :3] = 1
    mask = (ids != 1).long()
    with torch.no_grad():
        watched = watch(model, pad=1)(ids, attention_mask=mask)
    assert [one.kind for one in watched.attentions] == ["decoder"] * LAYERS
    assert {one.weights.shape for one in watched.attentions} == {(2, HEADS, 7, 7)}
    assert [x.target_ids.tolist() for x in watched.traces] == ids.tolist()
    eager = made(family, "eager")
    with torch.no_grad():
        own = eager(ids, attention_mask=mask, output_attentions=True).attentions
    for layer in range(LAYERS):
        real = watched.traces[1].attention("decoder", layer)[:, 3:]
        assert apart(real, own[layer][1, :, 3:]) <= 2e-5
    assert watched.certificate.ok, watched.certificate


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ALONE)
def test_generating_from_a_batch_padded_on_the_left(
    family: str, implementation: str
) -> None:
    model, ids = made(family, implementation), given(2, 5)
    ids[1, :2] = 1
    with torch.no_grad(), watch(model, pad=1) as watched:
        returned = model.generate(
            ids,
            attention_mask=(ids != 1).long(),
            **{"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False},
        )
    assert {one.kind for one in watched.attentions} == {"decoder"}
    shapes = [one.weights.shape for one in watched.attentions]
    steps = [(2, HEADS, 5, 5)] + [(2, HEADS, 1, at) for at in (6, 7, 8)]
    assert shapes == [shape for shape in steps for _ in range(LAYERS)]
    read = returned[:, :-1].tolist()
    assert [x.target_ids.tolist() for x in watched.traces] == read
    assert watched.certificate.ok, watched.certificate


def test_the_guides_recipe_where_the_mask_comes_first() -> None:
    model, ids = made("Marian"), given(2, 6)
    ids[1, -2:] = 1
    batch = {"attention_mask": (ids != 1).long(), "input_ids": ids}
    with torch.no_grad(), watch(model, pad=1) as watched:
        returned = model.generate(
            **batch, num_beams=1, max_new_tokens=4, min_new_tokens=4
        )
    kinds = ["encoder"] * LAYERS + ["decoder", "cross"] * LAYERS * 4
    assert [one.kind for one in watched.attentions] == kinds
    assert [x.source_ids.tolist() for x in watched.traces] == ids.tolist()
    read = returned[:, :-1].tolist()
    assert [x.target_ids.tolist() for x in watched.traces] == read
    assert watched.certificate.ok, watched.certificate


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_beams": 3, "num_return_sequences": 2},
        {"cache_implementation": "static"},
    ],
    ids=["greedy", "beams", "static cache"],
)
@pytest.mark.parametrize("family", WINDOWS)
def test_a_cache_that_drops_what_has_left_a_window(
    family: str, settings: dict[str, Any]
) -> None:
    model, ids = made(family, "eager"), given(2, 7)
    with torch.no_grad(), watch(model) as watched:
        returned = model.generate(
            ids, **settings, do_sample=False, max_new_tokens=5, min_new_tokens=5
        )
    assert len(watched.traces) == len(returned)
    for trace, sequence in zip(watched.traces, returned, strict=True):
        assert trace.target_ids.tolist() == sequence[:-1].tolist()
        assert_as_alone(family, model, trace, ids[0])
        left = torch.ones(11, 11).tril(-4).bool()
        assert not torch.tensor(trace.attention("decoder", 0))[:, left].any()
    assert watched.certificate.passed
    assert not any("Trace" in one for one in watched.certificate.missed)


@pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])
def test_what_is_returned_without_its_prompt_follows_it(cache: bool) -> None:
    model, ids = made("Llama"), given(2, 7)
    whole = model.generate

    def new_ids_alone(ids: Tensor, **settings: Any) -> Any:
        return whole(ids, **settings)[:, ids.shape[1] :]

    model.generate = new_ids_alone
    with torch.no_grad(), watch(model) as watched:
        new = model.generate(ids, max_new_tokens=4, min_new_tokens=4, use_cache=cache)
    read = torch.cat((ids, new), 1)[:, :-1].tolist()
    assert [trace.target_ids.tolist() for trace in watched.traces] == read
    assert watched.certificate.missed == ()


@pytest.mark.parametrize("family", WINDOWS)
def test_steps_that_were_given_a_mask_of_padding_are_not_accused(family: str) -> None:
    """One pass over the same tokens is not given the mask, and differs."""
    model, ids = made(family, "eager"), given(2, 7)
    open_keys = torch.ones_like(ids)
    open_keys[1, :2] = 0
    with torch.no_grad(), watch(model) as watched:
        model.generate(ids, attention_mask=open_keys, do_sample=False, max_new_tokens=5)
    assert not any(one.severity == "fault" for one in watched.certificate.findings)
    assert "were not compared" in str(watched.certificate)
