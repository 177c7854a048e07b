"""Changes of watched passes, against a forward by hand, to the bit where they stop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.changes_by_hand import (
    EFFECTS,
    OTHER,
    PATCHES,
    HandModel,
    fed,
    largest,
    named,
    scratch,
    texts,
    torch_nn,
)
from tests.system.watching import difficult_models as models
from tests.system.watching.faulty_models import built
from visformer.core.models import SourceTokens
from visformer.errors import InputError
from visformer.values.intervention import parse

CLOSE = 5e-6
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")


class OfTorch(nn.Module):
    """torch.nn's own Transformer between tables and a projection."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.place = nn.Embedding(24, 16), nn.Embedding(20, 16)
        self.inner = nn.Transformer(16, 4, 2, 2, 32, **options)
        self.head, self.first = nn.Linear(16, 24), options.get("batch_first", False)
        with torch.no_grad():
            for parameter in self.inner.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(2)
                else:
                    parameter.add_(torch.randn_like(parameter) * 0.2)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        sides = []
        for ids in (source, target):
            x = self.embed(ids) + self.place.weight[: ids.shape[1]]
            sides.append(x if self.first else x.transpose(0, 1))
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        made: Tensor = self.head(self.inner(*sides, tgt_mask=mask))
        return made if self.first else made.transpose(0, 1)


@cache
def watched(name: str) -> tuple[Any, HandModel]:
    if name == "scratch":
        own: Any = built("healthy")
        hand = scratch(own)
    else:
        own = OfTorch(
            batch_first=name == "batch first", norm_first=name != "batch first"
        )
        own = own.eval()
        hand = torch_nn(own)
    return visformer.wrap(own.eval(), bos=2, eos=1, pad=0), hand


@pytest.mark.parametrize("text", [*EFFECTS, *PATCHES])
@pytest.mark.parametrize("name", ["scratch", "batch first", "sequence first"])
def test_a_run_is_what_the_change_says(name: str, text: str) -> None:
    model, hand = watched(name)
    assert text in texts(model)
    assert largest(model, hand, text) < CLOSE


# ---- heads in any form: as if their columns of the output projection were zero -------


class Reading(nn.Module):
    """One of the difficult modules between a table and a projection."""

    def __init__(self, part: type[nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embed, self.part = nn.Embedding(24, models.WIDTH), part()
        self.head = nn.Linear(models.WIDTH, 24)

    def forward(self, ids: Tensor) -> Tensor:
        x = 2 * self.embed(ids)
        return self.head(x + self.part(x))  # type: ignore[no-any-return]


def reading(part: type[nn.Module]) -> Any:
    return visformer.wrap(Reading(part).eval(), bos=2, eos=1)


IDS = [5, 9, 3, 12, 7]
ONE_BY_ONE = [
    *(models.OddLetters, models.HeadLoop, models.HeadModules, models.Alibi),
    *(models.Rotary, models.Windowed, models.HeadsBeforeBatch, models.SoftCap),
    *(models.ByHand, models.SharedKeys, models.GroupedKeys, models.Sinks),
    *(models.TalkingHeads, models.SharedLayers),
]


def logits(model: Any, change: str = "", ids: Sequence[int] = IDS) -> Tensor:
    made: Tensor = model.watched_pass(SourceTokens([]), ids, parse([change]))[1]
    return made


@pytest.mark.parametrize("part", ONE_BY_ONE, ids=lambda part: part.__name__)
@pytest.mark.parametrize("length", [1, 5])
def test_a_head_is_off_as_if_its_columns_were_zero(
    part: type[nn.Module], length: int
) -> None:
    model = reading(part)
    (kind,) = model.facts.kinds
    ids = IDS[:length]
    places = [f"L{n + 1}H2" for n in range(model.facts.layers(kind))]
    text = f"head {kind} off @ {','.join(places)}"
    model.can(parse([text]), SourceTokens(ids))
    plain, off = logits(model, "", ids), logits(model, text, ids)
    own = getattr(model.model.model.part, "layer", model.model.model.part)
    with torch.no_grad():
        own.o.weight[:, models.SIZE : 2 * models.SIZE] = 0
    assert torch.equal(off, logits(model, "", ids))
    assert not torch.equal(off, plain)


@pytest.mark.parametrize("part", ONE_BY_ONE, ids=lambda part: part.__name__)
def test_a_weight_is_what_the_trace_says(part: type[nn.Module]) -> None:
    model = reading(part)
    (kind,) = model.facts.kinds
    text = f"cell {kind} 4 2 = 0.5 raw @ L1H3; value {kind} 1 off @ L1"
    watched, changed = model.watched_pass(SourceTokens([]), IDS, parse([text]))
    assert watched.certificate.passed
    kept, one = watched.last_run[0].weights[0], reading(part)
    plain, own = one.watched_pass(SourceTokens([]), IDS, parse([""]))
    before = plain.last_run[0].weights[0]
    assert kept[2, 3, 1] == 0.5
    rest = np.ones(kept.shape, bool)
    rest[2, 3, 1] = False
    assert np.array_equal(kept[rest], before[rest])
    # rows that read the first token not at all, and no other weight, stay to the bit
    still = (before[:, :, 0] == 0).all(0)
    still[3] = False
    assert torch.equal(changed[still], own[still]) or model.facts.layers(kind) > 1


def test_float64_stays_float64_where_nothing_changed() -> None:
    own = built("healthy").double()
    model = visformer.wrap(own, bos=2, eos=1, pad=0)
    source, target = SourceTokens([5, 6, 7, 8]), [2, 9, 10, 11]

    kept: list[Tensor] = []
    own.register_forward_hook(lambda _own, _ids, made: kept.append(made[0]))

    def output(change: str) -> Tensor:
        model.watched_pass(source, target, parse([change]))
        return kept[-1]

    plain, changed = output(""), output("cell cross 3 2 off @ L2H1")
    assert plain.dtype == torch.float64
    assert torch.equal(plain[:2], changed[:2])
    assert not torch.equal(plain[2:], changed[2:])
    off = output("head cross off @ L2H2")
    with torch.no_grad():
        own.decoder_layers[1].cross_attn.W_o.weight[:, 4:8] = 0  # type: ignore[index, union-attr]
    assert torch.equal(off, output(""))


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [
        (models.ChunkedQueries, "head {kind} off", "cannot be changed from outside"),
        (models.SoftCap, "cell {kind} 2 1 off", "not a multiple of q·k plus a mask"),
        (models.TalkingHeads, "scale 2", "not a multiple of q·k plus a mask"),
        (models.Rotary, "layer {kind} off", "what enters and leaves the layers"),
        (models.Rotary, "positions none", "neither positions nor the value"),
        (models.Rotary, "multiply", "neither positions nor the value"),
        (models.Rotary, "head cross off", "no attention of the kind"),
        (models.Rotary, "head {kind} off @ L2", "the model has 1 such layer"),
        (models.Rotary, 'embedding target 1 = "99"', "must be a whole number"),
    ],
)
def test_what_cannot_be_made_is_said(
    part: type[nn.Module], change: str, words: str
) -> None:
    model = reading(part)
    text = change.format(kind=model.facts.kinds[0])
    with pytest.raises(InputError, match=words) as caught:
        visformer.Decoding(model, IDS, intervention=text).step()
    assert len(str(caught.value)) <= 200


class BiasAndMask(models.Attending):
    """A bias by distance and the causal mask are added as one."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        at = torch.arange(x.shape[1])
        added = (at[None] - at[:, None]) / 3 + torch.full((len(at),) * 2, -1e9).triu(1)
        weights = (q @ k.mT / models.SIZE**0.5 + added).softmax(-1)
        return self.joined(self.keep(weights) @ v)


def test_what_a_mask_conceals_is_not_guessed() -> None:
    model = reading(BiasAndMask)
    assert not torch.equal(logits(model, "cell decoder 3 2 off"), logits(model))
    for change in ("causal off", "cell decoder 2 4 on @ L1H2"):
        with pytest.raises(InputError, match="adds that and its mask at once"):
            logits(model, change)
    apart = reading(models.Alibi)
    watched, _logits = apart.watched_pass(SourceTokens([]), IDS, parse(["causal off"]))
    (one,) = watched.last_run
    own = apart.model.model.part
    x = 2 * apart.model.model.embed(torch.tensor([IDS]))
    q, k, _v = own.projected(x)
    at = torch.arange(5)
    slopes = 2.0 ** -torch.arange(1, 5)[:, None, None]
    scores = q @ k.mT / models.SIZE**0.5 + (at[None] - at[:, None]) * slopes
    np.testing.assert_allclose(one.weights, scores.softmax(-1).detach(), atol=1e-6)


def test_a_pass_that_goes_another_way_is_refused() -> None:
    class Turning(models.Rotary):
        def forward(self, x: Tensor) -> Tensor:
            made = super().forward(x)
            return made if x.shape[1] < 4 else made + super().forward(x)

    model = reading(Turning)
    (kind,) = model.facts.kinds
    assert not torch.equal(
        logits(model, f"head {kind} off", IDS[:3]), logits(model, "", IDS[:3])
    )
    with pytest.raises(InputError, match="cannot be changed from outside"):
        logits(model, f"head {kind} off")


def test_nothing_of_a_change_stays() -> None:
    model, _hand = watched("sequence first")
    before = fed(model)
    for text in ("head cross off", "layer encoder off", 'embedding source 1 = "20"'):
        fed(model, text)
        again = fed(model)
        assert np.array_equal(before.decoder_rows, again.decoder_rows)
        assert np.array_equal(before.logits, again.logits)


def test_a_saved_run_is_read_with_its_changes(tmp_path: Path) -> None:
    model, _hand = watched("batch first")
    clean = fed(model, "", *OTHER)
    change = parse(["head cross from clean @ L2; cell cross 2 1 off @ L1H1"])
    trace = fed(model, change.filled({"clean": clean}))
    trace.save(tmp_path / "a.vis")
    read = visformer.open_trace(tmp_path / "a.vis")
    assert read.intervention == trace.intervention
    for layer in range(2):
        same = read.attention("cross", layer), trace.attention("cross", layer)
        np.testing.assert_allclose(*same, rtol=0, atol=1e-6)
    assert fed(model, read.intervention).logits == pytest.approx(trace.logits)


@pytest.mark.parametrize(("name", "turn"), [("scratch", 0), ("sequence first", 1)])
def test_a_report_proves_each_change(name: str, turn: int) -> None:
    """Each change is made of all models above; of these two by turns."""
    model, _hand = watched(name)
    clean = fed(model, "", *OTHER)
    for text in [*EFFECTS, *PATCHES][turn::2]:
        change = parse([named(text, str)]).filled({"clean": clean})
        decoding = visformer.Decoding(model, [5, 6, 7, 8], limit=5, intervention=change)
        decoding.feed([8, 9, 10, 11, 5])  # one pass; steps would be five
        found = decoding.change_report()
        assert found.moved, text
        assert found.independent == found.equal, text
        assert (found.row_sums < 1e-6) == ("raw" not in text)
