"""A long pass is computed in blocks, and may be looked at and ended between them."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.tiny_models import tiny_checkpoint
from visformer.core import parts, threads
from visformer.core.decoding import Decoding
from visformer.core.parts import FeedForward, attention_weights
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


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Let two threads share blocks of one row; the names of threads that computed."""
    seen: set[int] = set()

    def noted(*given: Any, **more: Any) -> torch.Tensor:
        seen.add(threading.get_ident())
        return attention_weights(*given, **more)

    monkeypatch.setattr(parts, "SHARED", 1)
    monkeypatch.setattr(parts, "WEIGHTS_BLOCK", 1)
    monkeypatch.setattr(parts, "ROWS_BLOCK", 2)
    monkeypatch.setattr(parts, "attention_weights", noted)
    monkeypatch.setattr(threads._Long, "threads", 2)
    return seen


def test_threads_that_share_a_pass_give_the_same_digits(
    shared: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Decoding(tiny_checkpoint(), TEXT).start
    assert threading.get_ident() not in shared
    monkeypatch.setattr(threads._Long, "threads", 1)
    alone = Decoding(tiny_checkpoint(), TEXT).start
    for name in ("encoder_rows", "memory_rows"):
        one, other = getattr(made, name), getattr(alone, name)
        assert np.array_equal(one, other) is True, name


def test_a_shared_pass_is_ended_at_a_pause(shared: set[int]) -> None:
    decoding, looks = Decoding(tiny_checkpoint(), TEXT), itertools.count()

    def look(share: float | None) -> None:
        if next(looks) == 4:
            raise InterruptedPass

    with pytest.raises(InterruptedPass), looked_at(look):
        decoding.step()
    whole = Decoding(tiny_checkpoint(), TEXT).step()
    assert np.array_equal(decoding.step().decoder_rows, whole.decoder_rows) is True


def test_an_error_of_a_thread_is_raised_where_the_pass_was_begun(
    shared: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any, **more: Any) -> torch.Tensor:
        raise MemoryError

    monkeypatch.setattr(parts, "attention_weights", fails)
    with pytest.raises(MemoryError):
        _start = Decoding(tiny_checkpoint(), TEXT).start


def test_who_records_a_pass_sees_all_of_it(shared: set[int]) -> None:
    seen: list[str] = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: object, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    checkpoint = tiny_checkpoint()
    with Seen():  # type: ignore[no-untyped-call]
        _start = Decoding(checkpoint, TEXT).start
    assert shared == {threading.get_ident()}
    assert sum("softmax" in name for name in seen) >= 2 * (len(TEXT) + 1)


def test_hooks_and_dropout_run_in_order_on_the_callers_thread(
    shared: set[int],
) -> None:
    feed, idents = FeedForward(d_model=4, inner=8, dropout=0.5), []
    feed.w1.register_forward_hook(lambda *given: idents.append(threading.get_ident()))
    with torch.no_grad():
        feed.eval()(torch.rand(1, 9, 4))
    assert set(idents) == {threading.get_ident()}
    attention, x = parts.Attention(d_model=4, heads=2, dropout=0.5), torch.rand(1, 9, 4)
    with torch.no_grad():
        attention(x, x, torch.ones(1, 1, 9, dtype=torch.bool))
    assert shared == {threading.get_ident()}


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
