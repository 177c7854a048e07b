"""A short run of the fuzz, and the proof that it notices what it must."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz import mutations, worker
from tests.fuzz.__main__ import Worker, trials
from tests.fuzz.cases import CASES, Maker
from visformer.errors import InputError


@pytest.fixture(scope="module")
def processes() -> object:
    made = Worker()
    yield made
    made.end()


@pytest.mark.parametrize("name", CASES)
def test_mutants_are_used_or_refused(name: str, processes: Worker) -> None:
    count = 4 if name.startswith("folder ") else 12  # transformers is slow to open one
    outcomes = list(trials(name, count, 0, processes))
    assert [t for t in outcomes if t.outcome not in ("used", "refused")] == []
    assert len(outcomes) == count
    assert not Path(mutations.CANARY).exists()
    assert any(t.outcome == "refused" for t in outcomes)


def test_a_seed_makes_the_same_mutant_again(tmp_path: Path) -> None:
    maker = Maker("native config", tmp_path)
    first = (maker.write("a") / "config.json").read_bytes()
    other = (maker.write("b") / "config.json").read_bytes()
    assert (maker.write("a") / "config.json").read_bytes() == first != other


class Careless(InputError):
    """A sentence that is not cut, as errors of ours are when they are made."""

    def __init__(self, words: str) -> None:
        super().__init__("")
        self.args = (words,)


def fails(error: BaseException) -> object:
    def use(path: Path) -> None:
        raise error

    return use


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InputError("x.vis is damaged: save it again."), "refused"),
        (Careless("x" * 201), "fault"),
        (Careless("two\nlines"), "fault"),
        (KeyError("x"), "fault"),
        (MemoryError(), "fault"),
    ],
)
def test_outcomes(error: BaseException, outcome: str) -> None:
    assert worker.outcome(fails(error), Path())["outcome"] == outcome  # type: ignore[arg-type]


def test_a_death_and_a_hang_are_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processes: Worker
) -> None:
    """The worker is another process: it is stopped, then killed."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n", "utf-8")
    assert processes.use("pairs", pairs)[0] == "used"
    assert processes._process is not None
    os.kill(processes._process.pid, 19)  # SIGSTOP
    monkeypatch.setattr("tests.fuzz.__main__.PATIENCE", 0.2)
    assert processes.use("pairs", pairs) == ("hung", "0.2 s")
    monkeypatch.undo()
    assert processes.use("pairs", pairs)[0] == "used"
    processes._process.kill()
    processes._process.wait()
    assert processes.use("pairs", pairs)[0] == "died"


def test_a_changed_header_has_its_right_length() -> None:
    from random import Random

    from tests.system.formats.hostile import entry

    header = b'{"a":' + str(entry([4], 4)).replace("'", '"').encode() + b"}"
    data = len(header).to_bytes(8, "little") + header + bytes(16)
    made = [mutations.safetensors_changed(data, Random(n)) for n in range(40)]
    fits = [int.from_bytes(m[:8], "little") + 24 == len(m) for m in made]
    assert 30 <= sum(fits) < 40


def test_a_mutant_is_the_same_whatever_was_made_before() -> None:
    """What is put into a document is no part of the next one."""
    from random import Random

    data = b'{"a": {"b": [1, 2]}, "c": [[3]], "d": "e"}'
    first = mutations.json_changed(data, Random("7"))
    for seed in range(2000):
        mutations.json_changed(data, Random(seed))
    assert mutations.json_changed(data, Random("7")) == first
