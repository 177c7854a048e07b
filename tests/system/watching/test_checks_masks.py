"""Masks: what a row reads wrongly is named, and what only looks so is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from visformer.values.finding import Certificate
from visformer.watching.watcher import watch

INF = float("-inf")
Masking = Callable[[Tensor], Tensor]  # of ids [B, T]: what may be read [B, 1, T, T]


class One(nn.Module):
    """Two layers over one side; masked scores are filled with ``fill``, or two."""

    def __init__(self, may: Masking, fill: float = -1e9, *second: float) -> None:
        super().__init__()
        self.may, self.fills = may, (fill, *(second or (fill,)))
        self.embed, self.out = nn.Embedding(20, 16), nn.Linear(16, 20)
        self.layers = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))

    def forward(self, ids: Tensor, *_masks: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer, fill in zip(self.layers, self.fills, strict=True):
            q, k, v = layer(x).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            scores = (q @ k.mT / 8**0.5).masked_fill(~self.may(ids), fill)
            x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        y: Tensor = self.out(x)
        return y


def causal(ids: Tensor, ahead: int = 0) -> Tensor:
    return torch.ones(ids.shape[1], ids.shape[1]).tril(ahead).bool()[None, None]


def unpadded(ids: Tensor, pad: int = 0) -> Tensor:
    return (ids != pad)[:, None, None] & torch.ones(ids.shape[1], 1).bool()


def padded_ids(side: str = "right") -> Tensor:
    torch.manual_seed(1)
    ids = torch.randint(3, 20, (3, 7))
    ids[1, slice(5, 7) if side == "right" else slice(0, 2)] = 0
    return ids


def certified(model: nn.Module, ids: Tensor, **options: Any) -> Certificate:
    with torch.no_grad():
        return watch(model.eval(), **options).certify(ids)


def test_one_token_ahead_is_said_as_off_by_one_and_alone() -> None:
    ids = padded_ids()
    model = One(lambda x: causal(x, 1) & unpadded(x))
    certificate = certified(model, ids[:, :-1], pad=0, labels=ids[:, 1:])
    (finding,) = certificate.findings
    assert (finding.id, finding.severity) == ("causal-off-by-one", "fault")
    assert finding.where == "encoder layer 1 (forward)"
    assert "row 1 of head 1 reads key 2 (in 2 of 2 attentions)" in finding.what
    assert not certificate.ok


def test_where_the_intent_is_unknown_it_is_a_note_that_says_so() -> None:
    certificate = certified(One(lambda x: causal(x, 1)), padded_ids()[:1])
    (finding,) = certificate.findings
    assert (finding.id, finding.severity) == ("causal-off-by-one", "note")
    assert finding.what.startswith("If this is a decoder, ")
    assert str(finding).startswith("causal-off-by-one (note): ")
    assert certificate.ok


@pytest.mark.parametrize("fill", [-1e9, INF])
def test_an_inverted_padding_mask_is_said_once(fill: float) -> None:
    model = One(lambda x: ~unpadded(x), fill)
    (finding,) = certified(model, padded_ids(), pad=0).findings
    assert finding.id == "mask-inverted"
    assert finding.where == "encoder layer 1 (forward)"
    assert "in batch row 2, the queries may read no keys but" in finding.what


def test_an_inverted_causal_mask_is_said_once() -> None:
    (finding,) = certified(One(lambda x: ~causal(x)), padded_ids()[:1]).findings
    assert finding.id == "mask-inverted"
    assert "batch row 1" in finding.what


@pytest.mark.parametrize(
    ("fill", "said"), [(-1e9, "reads all of them"), (INF, "weights are NaN")]
)
def test_a_row_that_may_read_nothing_has_no_key(fill: float, said: str) -> None:
    (finding,) = certified(One(lambda x: causal(x, -1), fill), padded_ids()).findings
    assert (finding.id, finding.severity) == ("no-key", "fault")
    assert finding.where == "decoder layer 1 (forward)"
    assert "In batch row 1, row 1 of head 1 may read no key" in finding.what
    assert said in finding.what


def test_a_sentence_of_padding_alone_is_a_note() -> None:
    class Fused(One):
        def forward(self, ids: Tensor, *_masks: Tensor) -> Tensor:
            x = self.embed(ids)
            q, k, v = self.layers[0](x).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, self.may(ids))
            made: Tensor = self.out(y.transpose(1, 2).flatten(2))
            return made

    ids = padded_ids()
    ids[2] = 0
    (finding,) = certified(Fused(unpadded), ids, pad=0).findings
    assert (finding.id, finding.severity) == ("no-key", "note")
    assert "In batch row 3, row 1 of head 1 may read no key" in finding.what


def test_padding_that_is_read_is_named_with_its_place() -> None:
    (finding,) = certified(One(lambda x: causal(x, 9)), padded_ids(), pad=0).findings
    assert finding.id == "padding-read"
    assert "in batch row 2, row " in finding.what
    assert finding.what.split("reads key ")[1][0] in "67"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("fill", [-1e9, -1e4])
@pytest.mark.parametrize("pad", [None, 0])
def test_rows_of_padding_may_do_what_they_like(
    side: str, fill: float, pad: int | None
) -> None:
    model = One(lambda x: causal(x) & unpadded(x), fill)
    assert certified(model, padded_ids(side), pad=pad).findings == ()


def test_an_id_that_begins_ends_and_fills_is_no_padding_where_it_begins_or_ends() -> (
    None
):
    ids = torch.randint(3, 20, (2, 8))
    ids[:, 0] = ids[:, -1] = 2
    assert certified(One(causal), ids, pad=2).findings == ()
    everything = One(lambda x: causal(x, 99))
    assert certified(everything, ids, pad=2).findings == ()


def test_an_encoder_is_not_accused_of_having_no_causal_mask() -> None:
    certificate = certified(One(unpadded), padded_ids(), pad=0)
    assert certificate.findings == ()
    assert certificate.ok


def test_a_layer_without_the_mask_of_the_others_is_a_note() -> None:
    calls = [0]

    def every_second(ids: Tensor) -> Tensor:
        calls[0] += 1
        return causal(ids, 0 if calls[0] % 2 else 99)

    class Named(One):
        def __init__(self) -> None:
            super().__init__(every_second)
            for layer in self.layers:
                layer.__class__ = Attending

        def forward(self, ids: Tensor, *_masks: Tensor) -> Tensor:
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x, self.may(ids))
            y: Tensor = self.out(x)
            return y

    class Attending(nn.Linear):
        def forward(self, x: Tensor, may: Tensor) -> Tensor:  # type: ignore[override]
            q, k, v = super().forward(x).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            scores = (q @ k.mT / 8**0.5).masked_fill(~may, -1e9)
            y: Tensor = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            return x + y

    (finding,) = certified(Named(), padded_ids()[:1]).findings
    assert (finding.id, finding.severity) == ("not-causal", "note")
    assert finding.what.startswith("If this is a decoder, its causal mask is missing")
    assert "layers.1" in finding.where


@pytest.mark.parametrize("fills", [(-1e9, -1e5), (-1e5, -1e9), (-1e5, INF)])
def test_of_several_masked_values_the_lowest_is_told(
    fills: tuple[float, float],
) -> None:
    trace = watch(One(causal, *fills))(padded_ids()).traces[0]
    assert trace.model.attention["decoder"].masked_value == min(fills)


class Adding(One):
    """What hides is added to the scores, as BERT's programs do."""

    def forward(self, ids: Tensor, *_masks: Tensor) -> Tensor:
        x = self.embed(ids)[:, None]
        for fill in self.fills:
            added = fill * (~self.may(ids)).float()
            x = x + nn.functional.scaled_dot_product_attention(x, x, x, added)
        y: Tensor = self.out(x[:, 0])
        return y


def test_what_is_added_to_hide_may_be_as_little_as_minus_ten_thousand() -> None:
    trace = watch(Adding(causal, -1e4))(padded_ids()).traces[0]
    assert trace.mask("decoder", 0).tolist() == causal(padded_ids())[0, 0].tolist()
