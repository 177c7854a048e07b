"""Messages with large arrays arrive as they were sent."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import numpy as np
import pytest

from visformer.engine import wire
from visformer.engine.wire import Wire


def sent(message: object) -> Any:
    """Send a message from a thread: a pipe holds little."""
    near, far = map(Wire, multiprocessing.Pipe())
    thread = threading.Thread(target=near.send, args=(message,))
    thread.start()
    got = far.recv()
    thread.join()
    assert not far.poll()
    near.close()
    far.close()
    return got


@pytest.mark.parametrize("shape", [(0,), (3,), (70_000,), (300, 1000), (1 << 19, 3)])
def test_arrays_of_all_sizes_arrive(shape: tuple[int, ...]) -> None:
    one = np.random.default_rng(0).random(shape, np.float32)
    flipped, alike = one[::-1], np.broadcast_to(np.arange(3) > 1, (40_000, 3))
    name, *arrays = sent(("name", one, flipped, alike))
    assert name == "name"
    for made, given in zip(arrays, (one, flipped, alike), strict=True):
        assert made.dtype == given.dtype
        assert np.array_equal(made, given) is True


def test_one_array_sent_twice_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LARGE", 8)
    one = np.arange(10)
    first, second = sent([one, one])
    assert first is second


def test_nobody_at_the_other_end() -> None:
    near, far = map(Wire, multiprocessing.Pipe())
    far.close()
    with pytest.raises(BrokenPipeError):
        near.send(np.zeros(1 << 20))
    with pytest.raises((EOFError, OSError)):
        near.recv()
    near.close()
