"""What other calls tell: what differs is named, and what cannot be told is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

from tests.system.watching.faulty_models import built
from tests.system.watching.weighing import IDS, Weighing, causal
from visformer.api import open_trace
from visformer.values.finding import Certificate, Finding
from visformer.watching.watcher import watch

CAUSAL = nn.Transformer.generate_square_subsequent_mask


def certified(model: nn.Module, *args: Any, **options: Any) -> Certificate:
    with torch.no_grad():
        return watch(model.eval(), **options).certify(*args)


def ids(rows: int = 3, length: int = 7, pads: bool = False) -> Tensor:
    torch.manual_seed(6)
    made = torch.randint(3, 20, (rows, length))
    if pads:
        made[1, -2:] = 0
    return made


class Language(nn.Module):
    """A causal model; ``change`` is done to what its layers are given."""

    def __init__(self, layers: int = 2, change: Any = None) -> None:
        super().__init__()
        self.change, self.embed = change, nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(16, 20)

    def forward(self, x: Tensor) -> Tensor:
        y = self.embed(x)
        y = y if self.change is None else self.change(y)
        made: Tensor = self.out(self.body(y, mask=CAUSAL(x.shape[1])))
        return made


def test_a_layer_made_in_forward_is_named_with_its_sizes() -> None:
    (finding,) = certified(
        Language(change=lambda y: nn.Linear(16, 16)(y)), ids()
    ).findings
    assert (finding.id, finding.severity) == ("calls-differ", "fault")
    assert finding.where == "Linear.weight [16 x 16]"
    assert "made inside forward" in finding.what


def test_noise_that_is_drawn_is_a_note() -> None:
    noisy = Language(change=lambda y: y + torch.randn_like(y))
    (finding,) = certified(noisy, ids()).findings
    assert (finding.id, finding.severity) == ("calls-differ", "note")


@pytest.mark.parametrize("name", ["body.layers.1.linear1.weight", "embed.weight"])
def test_a_broken_parameter_is_named_and_nothing_else_is_blamed(name: str) -> None:
    model = Language()
    with torch.no_grad():
        model.get_parameter(name)[1, 2] = float("nan")
    (finding,) = certified(model, ids()).findings
    assert (finding.id, finding.where) == ("nan-parameter", name)
    assert finding.what.startswith("1 of its ")


def test_numbers_that_are_none_are_not_blamed_on_a_mask() -> None:
    def broken(y: Tensor) -> Tensor:
        return y / torch.zeros(()) * 0

    (finding,) = certified(Language(change=broken), ids()).findings
    assert finding.id == "rows-not-one"
    assert "is NaN" in finding.what
    assert "ask" not in finding.remedy


def test_fresh_copies_of_a_layer_are_no_finding_and_trained_ones_are_a_note() -> None:
    torch.manual_seed(0)
    model = Language()
    assert certified(model, ids()).findings == ()
    with torch.no_grad():
        for layer in model.body.layers:
            layer.norm1.weight.mul_(1.5)
    (finding,) = certified(model, ids()).findings
    assert (finding.id, finding.severity) == ("equal-layers", "note")
    assert finding.where == "body.layers.1"
    assert "those of “body.layers.0”" in finding.what


def test_a_dead_head_of_torch_is_read_from_its_weights() -> None:
    model = Language(layers=1)
    with torch.no_grad():
        model.body.layers[0].self_attn.out_proj.weight[:, 8:] = 0
    (finding,) = certified(model, ids()).findings
    assert (finding.id, finding.severity) == ("dead-head", "note")
    name = "body.layers.0.self_attn.out_proj.weight"
    assert (
        finding.what == f"Columns of “{name}” are 0, so head 2 adds nothing (1 of 2)."
    )


@pytest.mark.parametrize("biased", [False, True])
def test_a_head_without_queries_is_dead_unless_a_bias_tells_keys_apart(
    biased: bool,
) -> None:
    bias = torch.arange(6) / 3 if biased else torch.zeros(6)
    model = Weighing(lambda scores: causal(scores + bias))
    with torch.no_grad():
        for part in model.layers.parameters():
            part[:8] = 0
    findings = watch(model.eval())(IDS).certificate.findings
    assert [one.id for one in findings] == ([] if biased else ["dead-head"])


class Towers(nn.Module):
    """Compares each text with each picture, [B, B]."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.patches = nn.Embedding(20, 8), nn.Linear(12, 8)
        self.text, self.image = (
            nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2)
        )

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        x = self.words(input_ids)
        text = self.text(x, x, x, attn_mask=CAUSAL(x.shape[1]))[0][:, -1]
        y = self.patches(pixel_values.reshape(len(pixel_values), -1, 12))
        made: Tensor = text @ self.image(y, y, y)[0].mean(1).T
        return made


@pytest.mark.parametrize("rows", [2, 3])
def test_what_is_compared_over_the_batch_is_accused_of_nothing(rows: int) -> None:
    certificate = certified(Towers(), ids(rows, 6), torch.randn(rows, 3, 8, 8))
    assert certificate.findings == ()
    assert "inf" not in str(certificate)


def test_two_sides_that_do_not_meet_are_no_decoder() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            one, other = (
                self.attention(x, x, x)[0].mean(1) for x in map(self.embed, (a, b))
            )
            y: Tensor = one @ other.T
            return y

    assert certified(Pair(), ids(), ids(3, 5)).findings == ()


def test_rows_that_depend_on_the_batch_are_named() -> None:
    class Rolled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Language()

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.inner(x)
            return y + y.roll(1, 0)

    (finding,) = certified(Rolled(), ids()).findings
    assert finding.id == "batch-row-differs"
    assert finding.where == "batch"


def test_a_length_that_a_model_cannot_take_tells_nothing() -> None:
    class Short(Language):
        def forward(self, x: Tensor) -> Tensor:
            table = torch.full((129, 1), float("nan"))
            table[:10] = 0
            return super().forward(x) + table[: x.shape[1]]

    certificate = certified(Short(), ids())
    assert certificate.findings == ()
    assert "Length 12: the output is not finite" in "\n".join(certificate.checks)
    assert "Length 129: 2" not in "\n".join(certificate.checks)


def test_longer_sentences_are_made_without_padding() -> None:
    made = ids(3, 7, pads=True)
    made[:, 0] = 0  # begins with what it is padded with
    certificate = certified(built("healthy"), made, made[:, :6], pad=0)
    assert certificate.findings == ()
    assert "Length 12: 6 attentions" in "\n".join(certificate.checks)


def test_no_advice_on_inputs_where_there_is_no_attention() -> None:
    certificate = certified(nn.Linear(4, 4), torch.randn(3, 4))
    assert not certificate.ok
    assert "tokens" not in str(certificate)


@pytest.mark.parametrize("fault", [False, True])
def test_a_cache_of_transformers_is_compared_with_a_full_pass(fault: bool) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=20,
        initializer_range=0.5,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    if fault:  # the positions of a step begin again
        inner = model.model.rotary_emb.forward
        model.model.rotary_emb.forward = lambda x, position_ids: inner(
            x, position_ids - position_ids[:, :1]
        )
    certificate = certified(model, ids())
    assert "The last token with the cache of the others" in "\n".join(
        certificate.checks
    )
    found = [(one.id, one.where) for one in certificate.findings]
    assert found == ([("cached-steps-differ", "output")] if fault else [])


def test_a_model_whose_beginning_is_its_padding_has_no_finding() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=2, vocab_size=20, n_positions=64, eos_token_id=2
    )
    torch.manual_seed(0)
    certificate = certified(transformers.GPT2LMHeadModel(config), ids(2, 8), pad=2)
    assert certificate.findings == ()
    assert certificate.ok


def test_a_file_keeps_what_is_only_a_note(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Language()
    with torch.no_grad():
        for layer in model.body.layers:
            layer.norm1.weight.mul_(1.5)
        (trace, *_others) = watch(model.eval())(ids()).traces
    trace.save(tmp_path / "note.vis")
    kept = open_trace(tmp_path / "note.vis").certificate
    assert kept is not None
    assert kept.ok
    assert [one.severity for one in kept.findings] == ["note"]
    plain = {"id": "a", "where": "b", "what": "c", "remedy": "d"}  # an older file's
    assert msgspec.convert(plain, Finding).severity == "fault"
