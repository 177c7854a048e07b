"""The process that opens mutants: bounded in memory, and nothing else is at stake.

Each line in names a use and a path; each line out is a JSON object: ``outcome`` is
``used``, ``refused`` or ``fault``, with the sentence or the foreign exception.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import faulthandler
import importlib
import json
import os
import resource
import sys
import traceback
import typing
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

MEMORY = 6 << 30  # bytes of address space
LONGEST = 200  # characters of a sentence


def use_checkpoint(path: Path, heads: int | None = None) -> None:
    """Open a checkpoint, and decode two tokens of it."""
    import visformer

    checkpoint = visformer.load(path, heads=heads, device="cpu")
    trace = visformer.Decoding(checkpoint, "5 6").step(2)
    trace.attention("cross", 0)


def use_folder(path: Path) -> None:
    """Open a folder of transformers, decode two tokens of it, and translate."""
    import visformer

    checkpoint = visformer.load(path, device="cpu")
    trace = visformer.Decoding(checkpoint, "the cat", limit=3).step(2)
    trace.attention(trace.kinds[0], 0)
    if "decoder" in trace.kinds:
        visformer.translate(["a dog"], checkpoint, beam=2)


def use_pairs(path: Path) -> None:
    """Read pairs and split them."""
    from visformer.files import read_pairs
    from visformer.training.loop import split_pairs

    split_pairs(read_pairs(path), valid=2, test=2, seed=0)


def use_trace(path: Path) -> None:
    """Open a trace and ask for all that it holds."""
    import visformer

    trace = visformer.open_trace(path)
    for kind in trace.kinds:
        for layer in range(trace.layers(kind)):
            trace.attention(kind, layer)
    for step in trace.steps:
        str(step)


USES: Mapping[str, Callable[[Path], None]] = {
    "native": use_checkpoint,  # a folder that is known to be of ours
    "checkpoint": use_checkpoint,
    "state dict": partial(use_checkpoint, heads=2),
    "folder": use_folder,
    "pairs": use_pairs,
    "trace": use_trace,
}


WORLD = (  # what reading a file has no business with
    "ctypes.dlopen",
    "ftplib.",
    "http.",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.putenv",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.symlink",
    "os.system",
    "os.truncate",
    "pty.",
    "shutil.",
    "smtplib.",
    "socket.",
    "subprocess.",
    "urllib.",
    "webbrowser.",
)
ROOTS = tuple(map(os.path.realpath, (sys.prefix, sys.base_prefix, os.getcwd())))
WRITERS = tuple(one.__file__ for one in (collections, dataclasses, typing))
SYSTEM = ("/proc/meminfo", "/proc/self/", "/dev/null", "/sys/")


def _makes_classes() -> bool:
    """Whether Python's own library writes methods, as for a dataclass of a module."""
    return sys._getframe(2).f_code.co_filename in WRITERS


class Audit:
    """Notes what reading a file does besides: foreign opens, code run, the network."""

    def __init__(self) -> None:
        self.folder = ""  # of the file that is read; "" while none is
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, given: tuple[object, ...]) -> None:
        if not self.folder:
            return
        if event.startswith(WORLD):
            self.seen.append(f"{event} {given!r}")
        elif event == "open" and not isinstance(given[0], int):
            self._opened(os.fsdecode(given[0]), *given[1:3])  # type: ignore[arg-type]
        elif event == "exec":
            name = getattr(given[0], "co_filename", "?")
            if not name.startswith((*ROOTS, "<frozen")) and not _makes_classes():
                self.seen.append(f"exec {name}")

    def _opened(self, path: str, _mode: object, flags: object) -> None:
        real = os.path.realpath(path)
        inside = real == self.folder or real.startswith(self.folder + os.sep)
        known = os.path.abspath(path).startswith((*ROOTS, *SYSTEM))
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        if writes or not (inside or known):
            self.seen.append(f"open {path} {flags}")

    def faults(self, use: Callable[[Path], None], path: Path) -> dict[str, str]:
        """Use a file as ``outcome`` does; anything seen is a fault."""
        self.seen.clear()
        self.folder = os.path.realpath(path if path.is_dir() else path.parent)
        try:
            found = outcome(use, path)
        finally:
            self.folder = ""
        if self.seen:
            return {"outcome": "fault", "words": "; ".join(self.seen)[:300]}
        return found


def outcome(use: Callable[[Path], None], path: Path) -> dict[str, str]:
    """Use a file; tell whether that worked, was refused well, or was a fault."""
    from visformer.errors import VisformerError

    try:
        use(path)
    except VisformerError as error:
        words = str(error)
        if len(words) > LONGEST or "\n" in words or not words.strip():
            return {"outcome": "fault", "words": f"no short sentence: {words[:300]!r}"}
        return {"outcome": "refused", "words": words}
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        words = f"{type(error).__name__} at {place}: {str(error)[:200]}"
        return {"outcome": "fault", "words": words}
    return {"outcome": "used", "words": ""}


def start(use: str) -> None:
    """Import what a use needs only now and then, and runs code of its own for."""
    if use in ("trace", "pairs"):
        return
    import torch

    torch.set_num_threads(1)
    names = ["sympy"]
    if use != "native":
        names.append("transformers.models.marian.modeling_marian")
        names.append("visformer.watching.wrapped")
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def main() -> None:
    faulthandler.enable(sys.stderr)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    audit, imported = Audit(), set()
    for line in sys.stdin:
        task = json.loads(line)
        use = USES[task["use"]]
        watched = audit.faults if task["use"] in imported else outcome
        if task["use"] not in imported:  # a first time imports modules: that runs code
            imported.add(task["use"])
            start(task["use"])
        found = watched(use, Path(task["path"]))
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
