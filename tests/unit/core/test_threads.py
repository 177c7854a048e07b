"""Steps and small passes take one thread, whatever the caller has set, and back."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

import visformer
from tests.tiny_models import BOS, tiny_checkpoint
from visformer.core import threads
from visformer.core.passes import run
from visformer.core.search import search
from visformer.core.threads import few_threads

SOURCE = [4, 9, 7, 12, 3]


@pytest.fixture
def blas() -> Iterator[Callable[[], int]]:
    """Set torch and numpy to three threads -> what asks numpy's library."""
    functions = threads._functions()
    if functions is None:
        pytest.skip("numpy's library is none that is known")
    get, put = functions
    before = torch.get_num_threads(), get()
    torch.set_num_threads(3)
    put(3)
    yield get
    torch.set_num_threads(before[0])
    put(before[1])


def acts() -> dict[str, Callable[[], object]]:
    checkpoint = tiny_checkpoint()
    decoding = visformer.Decoding(checkpoint, SOURCE)
    trace = run(checkpoint, [SOURCE], [[BOS, 5]])[0]
    return {
        "begin": lambda: visformer.Decoding(checkpoint, SOURCE).start,
        "step": decoding.step,
        "follow": lambda: decoding.follow([(7, "forced")]),
        "run": lambda: run(checkpoint, [SOURCE], [[BOS, 5]]),
        "search": lambda: search(checkpoint, [SOURCE], beam=2),
        "lens": trace.lens,
        "weights": lambda: trace.attention("cross", 1),
    }


@pytest.mark.parametrize("name", acts())
def test_a_small_call_takes_one_thread_and_puts_the_setting_back(
    name: str, blas: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    softmax = torch.Tensor.softmax

    def watched(*given: object, **more: object) -> torch.Tensor:
        seen.add((torch.get_num_threads(), blas()))
        return softmax(*given, **more)  # type: ignore[arg-type]

    act = acts()[name]
    monkeypatch.setattr(torch.Tensor, "softmax", watched)
    act()
    assert seen == {(1, 1)}
    assert (torch.get_num_threads(), blas()) == (3, 3)


def test_a_large_pass_keeps_the_threads_that_were_chosen(
    blas: Callable[[], int],
) -> None:
    with few_threads(threads.SMALL):
        assert (torch.get_num_threads(), blas()) == (3, 1)
    torch.set_num_threads(1)  # as the engine does: never more
    with few_threads(threads.SMALL):
        assert torch.get_num_threads() == 1


def test_an_error_puts_the_setting_back(blas: Callable[[], int]) -> None:
    with pytest.raises(ZeroDivisionError), few_threads():
        raise ZeroDivisionError
    assert (torch.get_num_threads(), blas()) == (3, 3)


def test_python_threads_that_overlap_put_the_setting_back(
    blas: Callable[[], int],
) -> None:
    inside, go = threading.Event(), threading.Event()

    def other() -> None:
        with few_threads():
            inside.set()
            go.wait(60)

    thread = threading.Thread(target=other)
    with few_threads():
        thread.start()
        assert inside.wait(60)
    assert blas() == 1  # the other is still at it
    go.set()
    thread.join()
    assert blas() == 3


def test_numpys_library_is_found() -> None:
    """In the wheels that pip installs; in a fresh process, as a script would."""
    code = (
        "import numpy as np; from visformer.core import threads; "
        "print(threads._functions() is not None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100
    )
    assert done.stdout == "True\n", done.stderr


def test_threads_that_step_one_decoding_take_turns() -> None:
    expected = visformer.Decoding(tiny_checkpoint(), SOURCE).finish()
    decoding = visformer.Decoding(tiny_checkpoint(), SOURCE)
    errors: list[Exception] = []

    def steps() -> None:
        try:
            for _time in range(20):
                decoding.step()
                decoding.back()
                decoding.step()
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=steps) for _number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert decoding.finish().target == expected.target
