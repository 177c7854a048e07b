"""Reading a file does nothing besides: heard from the interpreter itself."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.fuzz.__main__ import Worker
from tests.fuzz.worker import ROOTS
from tests.system.formats.folders import write_letters

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
