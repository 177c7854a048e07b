"""A long pass is computed in blocks, and may be looked at and ended between them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.models import tiny_checkpoint
from visformer.core import parts
from visformer.core.decoding import Decoding
from visformer.core.parts import FeedForward
from visformer.core.pauses import InterruptedPass, looked_at, pause, telling

TEXT = "abcdefgh"
SHARES = list[float | None]


@pytest.mark.parametrize("queries", [1, 2, 5])
def test_blocks_of_queries_give_the_same_numbers(
    queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Decoding(tiny_checkpoint(), TEXT).feed(TEXT)
    monkeypatch.setattr(parts, "WEIGHTS_BLOCK", queries * 2 * (len(TEXT) + 1))
    made = Decoding(tiny_checkpoint(), TEXT).feed(TEXT)
    for name in ("encoder_rows", "memory_rows", "decoder_rows"):
        one, other = getattr(made, name), getattr(whole, name)
        np.testing.assert_allclose(one, other, atol=1e-5, err_msg=name)


def test_blocks_of_rows_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, x = FeedForward(d_model=4, inner=8), torch.rand(2, 7, 4)
    whole = feed(x)
    monkeypatch.setattr(parts, "ROWS_BLOCK", 3)
    torch.testing.assert_close(feed(x), whole)


def test_an_encoding_is_ended_at_a_pause_and_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "WEIGHTS_BLOCK", 1)
    decoding, seen = Decoding(tiny_checkpoint(), TEXT), SHARES()

    def look(share: float | None) -> None:
        seen.append(share)
        if len(seen) == 3:
            raise InterruptedPass

    with pytest.raises(InterruptedPass), looked_at(look):
        decoding.step()
    assert seen == pytest.approx([at / 9 / 2 for at in (1, 2, 3)])
    whole = Decoding(tiny_checkpoint(), TEXT).step()
    assert np.array_equal(decoding.step().decoder_rows, whole.decoder_rows) is True


def test_shares_are_told_of_an_encoding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "WEIGHTS_BLOCK", 1)
    decoding, seen = Decoding(tiny_checkpoint(), TEXT), SHARES()
    with looked_at(seen.append):
        decoding.feed(TEXT)
    told = [share for share in seen if share is not None]
    assert told == sorted(told)
    assert told[-1] == 1
    assert seen[-1] is None  # the decoder's blocks
    with looked_at(seen.append), telling():
        pause(0.5)
        pause()
    assert seen[-2:] == [0.5, None]
    pause(0.5)  # nobody looks
    assert seen[-2:] == [0.5, None]
