"""Families of transformers with random weights, against ``output_attentions``."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

import visformer
from tests.system.watching.comparing import CLOSE, apart, assert_watched
from tests.system.watching.small_models import uneven
from visformer.watching.watcher import watch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")
V, LAYERS, HEADS = 50, 2, 4
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
BART = {
    **{"d_model": 32, "encoder_layers": LAYERS, "decoder_layers": LAYERS},
    **{"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": V},
    **SPECIAL,
    "decoder_start_token_id": 2,
}
LLAMA = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS},
    **{"num_attention_heads": HEADS, "vocab_size": V, "max_position_embeddings": 64},
    **SPECIAL,
}
T5 = {
    **{"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": LAYERS, "num_heads": HEADS},
    **{"vocab_size": V, "pad_token_id": 1, "decoder_start_token_id": 1},
}
GPT2 = {"n_embd": 32, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": V, **SPECIAL}
BLOOM = {
    "hidden_size": 32,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "vocab_size": V,
    **SPECIAL,
}
WHISPER = {
    **BART,
    **{"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 20},
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
DISTILBERT = {"dim": 32, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 48}
VIT = {**LLAMA, "image_size": 16, "patch_size": 4}
DEBERTA = {**LLAMA, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
GEMMA = {"head_dim": 8, "sliding_window": 4, "num_key_value_heads": 2, **LLAMA}
FAMILIES: dict[str, dict[str, Any]] = {
    "T5": T5,
    "Bart": BART,
    "Marian": BART,
    "M2M100": BART,
    "Pegasus": BART,
    "Whisper": WHISPER,
    "GPT2": GPT2,
    "Bert": LLAMA,
    "Llama": {**LLAMA, "num_key_value_heads": 2},
    "Gemma2": GEMMA,
    "Bloom": BLOOM,
    "DebertaV2": DEBERTA,
    "Falcon": LLAMA,
    "Mistral": {**LLAMA, "num_key_value_heads": 2, "sliding_window": 4},
    "DistilBert": {**DISTILBERT, "vocab_size": V},
    "Albert": {**LLAMA, "embedding_size": 16},
    "GPTNeoX": LLAMA,
    "Qwen3": {**GEMMA},
    "ViT": VIT,
}
NO_FUSED = ("Gemma2", "Bloom", "DebertaV2")


def made(family: str, suffix: str = "Model", implementation: str = "eager") -> Any:
    torch.manual_seed(4)
    config = getattr(transformers, family + "Config")(**FAMILIES[family])
    kind = getattr(transformers, family + suffix)
    return uneven(kind._from_config(config, attn_implementation=implementation).eval())


def given(family: str, model: Any) -> dict[str, Any]:
    ids, mask = torch.randint(3, V, (2, 7)), torch.ones(2, 7, dtype=torch.long)
    mask[1, -2:] = 0
    ids[1, -2:] = 1
    inputs = {"input_ids": ids, "attention_mask": mask}
    if family == "Whisper":
        inputs = {"input_features": torch.randn(2, 8, 20)}
    if family == "ViT":
        inputs = {"pixel_values": torch.randn(2, 3, 16, 16)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, V, (2, 5))
    return inputs


def own_attentions(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return what transformers itself gives, by kind; "" where it has one."""
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    if not model.config.is_encoder_decoder:
        return {"": output.attentions}
    return {
        "encoder": output.encoder_attentions,
        "decoder": output.decoder_attentions,
        "cross": output.cross_attentions,
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_what_output_attentions_gives(family: str) -> None:
    model = made(family)
    inputs = given(family, model)
    own = own_attentions(model, inputs)
    kinds = ["encoder"] * LAYERS + ["decoder", "cross"] * LAYERS
    if not model.config.is_encoder_decoder:
        one_way = family in ("Bert", "DebertaV2", "DistilBert", "Albert", "ViT")
        kinds = (["encoder"] if one_way else ["decoder"]) * LAYERS
    in_order = [
        own[kind if kind in own else ""][kinds[:at].count(kind)]
        for at, kind in enumerate(kinds)
    ]
    title = f"transformers {family}"
    watched = assert_watched(title, model, (), kinds, in_order, inputs)
    assert [finding.id for finding in watched.certificate.findings] == []


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in NO_FUSED])
def test_fused_attention_is_the_same(family: str) -> None:
    eager, fused = made(family), made(family, implementation="sdpa")
    fused.load_state_dict(eager.state_dict())
    inputs = given(family, eager)
    own = own_attentions(eager, inputs)
    with torch.no_grad():
        watched = watch(fused)(**inputs)
    assert watched.certificate.passed
    counts: dict[str, int] = {}
    for one in watched.attentions:
        at = counts.setdefault(one.kind, 0)
        counts[one.kind] += 1
        theirs = own[one.kind if one.kind in own else ""][at]
        assert apart(one.weights, theirs) <= 10 * CLOSE
    assert sum(counts.values()) == sum(map(len, own.values()))


@pytest.mark.parametrize(
    ("family", "suffix"),
    [
        ("Marian", "MTModel"),
        ("T5", "ForConditionalGeneration"),
        ("Llama", "ForCausalLM"),
    ],
)
def test_generation_with_a_cache_is_one_trace(family: str, suffix: str) -> None:
    model = made(family, suffix, "sdpa")
    ids = torch.randint(3, V, (1, 6))
    with watch(model) as watched:
        made_ids = model.generate(ids, max_new_tokens=5, min_new_tokens=5, num_beams=1)
    (trace,) = watched.traces
    consumed = made_ids[0, :-1].tolist()
    assert trace.target_ids.tolist() == consumed
    if family != "Llama":
        assert trace.source_ids.tolist() == ids[0].tolist()
    inputs = {"input_ids": ids, "decoder_input_ids": made_ids[:, :-1]}
    if family == "Llama":
        inputs = {"input_ids": made_ids[:, :-1]}
    with torch.no_grad():
        whole = watch(model)(**inputs).traces[0]
    for kind in whole.kinds:
        for layer in range(LAYERS):
            ours, theirs = (t.attention(kind, layer) for t in (trace, whole))
            assert apart(ours, theirs) <= CLOSE


def test_one_softmax_over_both_sides_keeps_its_border() -> None:
    side = {"head_dim": 8, "num_key_value_heads": 2, **LLAMA}
    image = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    image |= {"num_attention_heads": 2, "image_size": 16, "patch_size": 8}
    config = transformers.T5Gemma2Config(
        encoder={"text_config": side, "vision_config": image}, decoder=side
    )
    model = transformers.T5Gemma2Model(config).eval()
    ids, target = torch.randint(3, V, (2, 7)), torch.randint(3, V, (2, 5))
    watched = watch(model)(input_ids=ids, decoder_input_ids=target)
    kinds = ["encoder"] * LAYERS + ["merged"] * LAYERS
    assert [one.kind for one in watched.attentions] == kinds
    assert [one.border for one in watched.attentions[LAYERS:]] == [5] * LAYERS
    assert watched.certificate.passed


def test_a_mixture_of_experts_has_attention_beside_its_router() -> None:
    config = transformers.MixtralConfig(
        **LLAMA, num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2
    )
    model = transformers.MixtralModel(config).eval()
    watched = watch(model)(torch.randint(3, V, (2, 7)))
    assert [one.kind for one in watched.attentions] == ["decoder"] * LAYERS
    assert any("a softmax over 3 choices" in s for s in watched.certificate.missed)


def test_a_state_space_model_has_no_matrix() -> None:
    config = transformers.MambaConfig(
        hidden_size=32, num_hidden_layers=2, vocab_size=V, state_size=4
    )
    watched = watch(transformers.MambaModel(config).eval())(torch.randint(3, V, (2, 7)))
    assert watched.attentions == []
    assert any("no attention matrix here" in s for s in watched.certificate.missed)


def test_windows_in_chunks_are_named_and_not_shown() -> None:
    """Longformer lays the scores of its windows into a buffer: they are lost there."""
    config = transformers.LongformerConfig(**LLAMA, attention_window=4)
    model = transformers.LongformerModel(config).eval()
    watched = watch(model)(torch.randint(3, V, (2, 8)))
    assert watched.attentions == []
    assert watched.traces == []
    assert not watched.certificate.passed
    first = watched.certificate.missed[0]
    assert "encoder.layer.0.attention.self" in first
    assert "its scores are no known function of queries and keys" in first


@pytest.mark.parametrize("name", ["T5", "Bart", "GPT2", "Llama"])
def test_a_module_is_wrapped_as_it_is(name: str) -> None:
    """Ids are given by name: the second of most is no target, but a mask."""
    torch.manual_seed(0)
    alone = name in ("GPT2", "Llama")
    kind = f"{name}LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    kind = kind if alone else f"{name}ForConditionalGeneration"
    config = getattr(transformers, f"{name}Config")(**FAMILIES[name])
    model = getattr(transformers, kind)(config).eval()
    source = [5, 6, 7]
    decoding = visformer.Decoding(
        visformer.wrap(model, bos=3, eos=2), source, max_new_tokens=4
    )
    trace = decoding.finish()
    with torch.no_grad():
        ids = torch.tensor([trace.target_ids.tolist()])
        given = [ids] if alone else [torch.tensor([source]), None, ids]
        own = model(*given)
    torch.testing.assert_close(torch.tensor(trace.logits), own.logits[0])
    assert trace.kinds == (("decoder",) if alone else ("encoder", "decoder", "cross"))
    assert [step.id for step in trace.steps if step.origin == "model"] == (
        own.logits[0, -4:].argmax(-1).tolist()
    )
