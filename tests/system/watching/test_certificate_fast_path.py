"""torch's fast path is off while a model is watched: what it gives is said."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from visformer.values.finding import Certificate
from visformer.watching.watcher import watch
from visformer.words import number

WIDTH = 16
PADDED = torch.tensor([[False] * 4, [False, False, True, True]])
ALL = torch.tensor([[False] * 4, [True] * 4])  # the second row is padding alone
nested = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


class Pooled(nn.Module):
    """An encoder whose rows are averaged, those of padding too."""

    def __init__(self, *, is_nested: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=is_nested)
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y: Tensor = self.encoder(x, src_key_padding_mask=mask)
        return self.out(y.mean(1))  # type: ignore[no-any-return]


def given() -> Tensor:
    return torch.randn(2, 4, WIDTH, generator=torch.Generator().manual_seed(1))


def both_forms(model: nn.Module, *args: Tensor) -> list[Certificate]:
    model.eval()
    with torch.no_grad():
        called = watch(model)(*args)
        with watch(model) as inside:
            model(*args)
    return [called.certificate, inside.certificate]


@nested
def test_zeros_at_padded_places_are_said_and_no_fault() -> None:
    for certificate in both_forms(Pooled(), given(), PADDED):
        assert certificate.ok, str(certificate)
        assert certificate.worst < 1e-6
        assert (certificate.output_difference or 0) == 0
        assert (
            "“encoder”: torch's fast path is off while the model is watched. It gives "
            "zeros at 2 of 8 places." in str(certificate).splitlines()
        )


@nested
def test_the_output_of_an_unwatched_call_is_compared() -> None:
    model, x = Pooled().eval(), given()
    with torch.no_grad():
        own = model(x, PADDED)
        watched = watch(model)(x, PADDED)
    apart = float((own - watched.output).abs().max())
    assert apart > 0.01
    assert f"the output differs by up to {number(apart, 2)}" in str(watched.certificate)


def test_nan_of_the_fast_path_does_not_vanish() -> None:
    model = Pooled(is_nested=False).eval()
    with torch.no_grad():
        assert model(given(), ALL).isnan().any()
    for certificate in both_forms(model, given(), ALL):
        (finding,) = [x for x in certificate.findings if x.id == "fast-path-nan"]
        assert finding.where == "encoder"
        assert "NaN at 4 of 8 places" in finding.what
        assert not certificate.ok


@pytest.mark.parametrize("mask", [None, torch.zeros(2, 4).bool()])
def test_where_it_gives_the_same_nothing_is_said(mask: Tensor | None) -> None:
    model = Pooled(is_nested=False)
    for certificate in both_forms(model, given(), *([] if mask is None else [mask])):
        assert certificate.ok, str(certificate)
        assert "path" not in str(certificate)


def test_where_it_is_not_taken_nothing_is_said() -> None:
    model, x = Pooled().eval(), given()
    with watch(model) as trained:  # gradients are wanted
        model(x, PADDED)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), watch(model) as off:
            model(x, PADDED)
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    model.encoder.layers[0].register_forward_hook(lambda *_: None)
    with torch.no_grad(), watch(model) as hooked:
        model(x, PADDED)
    for watched in (trained, off, hooked):
        assert "path" not in str(watched.certificate)


@nested
def test_nobody_notices_the_other_call() -> None:
    model, x = Pooled().eval(), given()
    fired: list[str] = []
    for name in ("encoder", ""):
        model.get_submodule(name).register_forward_hook(
            lambda *_, name=name: fired.append(name)
        )
    before = torch.get_rng_state()
    with torch.no_grad(), watch(model) as watched:
        model(x, PADDED)
    assert fired == ["encoder", ""]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.backends.mha.get_fastpath_enabled()
    assert len(watched.attentions) == 1
    assert "zeros at 2 of 8" in str(watched.certificate)


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_alone(need_weights: bool) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            kept = {"key_padding_mask": PADDED, "need_weights": need_weights}
            y: Tensor = self.inner(x, x, x, **kept)[0]
            return y

    for certificate in both_forms(Own(), given()):
        assert certificate.ok, str(certificate)
