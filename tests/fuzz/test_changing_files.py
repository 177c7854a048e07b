"""Files that are replaced, cut and deleted, again and again, while they are read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.__main__ import Worker
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from tests.traces import make_trace

READS = 30  # of each; and 200 of each once, by hand


def trace(folder: Path) -> tuple[Path, Path]:
    path = folder / "a.vis"
    make_trace(source=30, target=30, layers=6).save(path)
    return path, path


def checkpoint(folder: Path) -> tuple[Path, Path]:
    path = write_letters(folder / "native", tiny_model(seed=1, d_model=128, heads=4))
    return path, path / "model.safetensors"


def keep_changing(path: Path, ended: threading.Event) -> None:
    """Replace, cut, empty, delete and restore a file until told to stop."""
    chance, data = Random(2), path.read_bytes()
    whole = path.with_name("whole")

    def put(content: bytes) -> None:
        whole.write_bytes(content)
        os.replace(whole, path)

    acts: tuple[Callable[[], object], ...] = (
        lambda: put(data),
        lambda: put(data),
        lambda: os.truncate(path, chance.randrange(len(data))),
        lambda: path.write_bytes(data),
        lambda: put(data[: chance.randrange(len(data))]),
        path.unlink,
    )
    while not ended.is_set():
        chance.choice(acts)()
        if not path.exists():
            put(data)
    put(data)


@pytest.mark.parametrize(("use", "make"), [("trace", trace), ("native", checkpoint)])
def test_a_file_that_changes_while_it_is_read_is_used_or_refused(
    use: str, make: Callable[[Path], tuple[Path, Path]], tmp_path: Path
) -> None:
    opened, changed = make(tmp_path)
    worker, ended = Worker(), threading.Event()
    other = threading.Thread(target=keep_changing, args=(changed, ended))
    try:
        assert worker.use(use, opened) == ("used", "")
        other.start()
        found = [worker.use(use, opened) for _number in range(READS)]
        ended.set()
        other.join()
        assert [each for each in found if each[0] not in ("used", "refused")] == []
        assert any(outcome == "refused" for outcome, _words in found)
        assert worker.use(use, opened) == ("used", "")
    finally:
        ended.set()
        worker.end()
