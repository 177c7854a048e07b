"""A short run of the fuzz, the proof that it notices what it must, and more files."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import mutations, worker
from tests.fuzz.__main__ import Worker, trials
from tests.fuzz.cases import CASES, Maker
from tests.fuzz.worker import ROOTS
from tests.system.formats.folders import write_letters
from tests.system.formats.hostile import entry
from tests.tiny_models import tiny_model
from tests.traces import make_trace
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
    header = b'{"a":' + str(entry([4], 4)).replace("'", '"').encode() + b"}"
    data = len(header).to_bytes(8, "little") + header + bytes(16)
    made = [mutations.safetensors_changed(data, Random(n)) for n in range(40)]
    fits = [int.from_bytes(m[:8], "little") + 24 == len(m) for m in made]
    assert 30 <= sum(fits) < 40


def test_a_mutant_is_the_same_whatever_was_made_before() -> None:
    """What is put into a document is no part of the next one."""
    data = b'{"a": {"b": [1, 2]}, "c": [[3]], "d": "e"}'
    first = mutations.json_changed(data, Random("7"))
    for seed in range(2000):
        mutations.json_changed(data, Random(seed))
    assert mutations.json_changed(data, Random("7")) == first


# ---- what reading a file does besides: heard from the interpreter itself -------------


HEARD = """
import os, socket, subprocess, sys
from pathlib import Path
from tests.fuzz.worker import Audit

inside = Path(sys.argv[1])
audit = Audit()
ACTS = (
    lambda path: open(inside.parent / "outside"),
    lambda path: open(inside.parent / "inside but not"),
    lambda path: open(path / ".." / "outside"),
    lambda path: (path / "made").write_bytes(b""),
    lambda path: os.open(path / "made", os.O_CREAT | os.O_RDWR),
    lambda path: socket.socket(),
    lambda path: socket.getaddrinfo("localhost", 80),
    lambda path: subprocess.run(["true"]),
    lambda path: os.system("true"),
    lambda path: exec(compile("1", "model.pt", "exec")),
    lambda path: os.symlink("a", path / "b"),
)
print([audit.faults(act, inside)["outcome"] for act in ACTS])
print(audit.faults(lambda path: open(path / "file").close(), inside))
"""


def test_what_has_no_business_with_a_file_is_heard(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "file").touch()
    for outside in ("outside", "inside but not"):
        (tmp_path / outside).touch()
    done = subprocess.run(
        [sys.executable, "-c", HEARD, str(inside)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((*ROOTS, *sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    heard, allowed = done.stdout.splitlines()
    assert heard == str(["fault"] * 11)
    assert allowed == str({"outcome": "used", "words": ""})


STEMS = ("secret", "secret.json", "", ".", "..", "nul", "con.txt", "x" * 200, "n\0ul")
WAYS = (
    "../",
    "..\\",
    "/etc/",
    "C:",
    "C:\\",
    "\\\\server\\share\\",
    "./../",
    "~/",
    "a/",
)
NAMES = [way + stem for way, stem in itertools.product(WAYS, STEMS)]
NAMES += ["./vocab.json", "../native/vocab.json"]  # back inside, but no plain names
KEYS = ("source", "target")


def test_names_in_a_config_open_nothing_outside_its_folder(tmp_path: Path) -> None:
    folder = write_letters(tmp_path / "native")
    (tmp_path / "secret").write_text('{"<unk>": 0}')
    (tmp_path / "secret.json").write_text('{"<unk>": 0}')
    worker, config = Worker(), folder / "config.json"
    sound = json.loads(config.read_text())
    try:
        assert worker.use("native", folder) == ("used", "")
        for key, name in itertools.product(KEYS, NAMES):
            changed = {**sound, "tokenizer": {**sound["tokenizer"], key: name}}
            config.write_text(json.dumps(changed))
            outcome, words = worker.use("native", folder)
            assert (outcome, words[:12]) == ("refused", "config.json:"), (key, name)
        for name in ("model.safetensors", "vocab.json"):
            config.write_text(json.dumps(sound))
            moved = (folder / name).rename(tmp_path / "moved")
            (folder / name).symlink_to(moved)
            assert worker.use("native", folder)[0] == "refused", name
            (folder / name).unlink()
            moved.rename(folder / name)
        assert worker.use("native", folder) == ("used", "")
    finally:
        worker.end()


# ---- files that are replaced, cut and deleted while they are read --------------------


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
