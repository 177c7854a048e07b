"""Opening: a checkpoint that is being opened, and whether its process does anything."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from visformer.engine.messages import Open, OpenProgressed
from visformer.engine.worker import Worker

STILL_SECONDS = 60.0  # in which a process that does nothing is given up
MOST_SECONDS = 1.0  # between two looks that count: the computer may have slept


class Usage(NamedTuple):
    """What a process has used so far."""

    ticks: int  # of the processor's time
    asked: int  # bytes that it asked the system for
    read: int  # bytes that were read from a disk for it


def usage_of(process: int) -> Usage | None:
    """Return what a process has used; None where the system does not tell."""
    folder = Path("/proc", str(process))
    try:
        times = (folder / "stat").read_text("latin-1").rpartition(")")[2].split()
        lines = (folder / "io").read_text("latin-1").splitlines()
    except OSError:
        return None
    counts = dict(line.split(": ") for line in lines)
    ticks = int(times[11]) + int(times[12])
    return Usage(ticks, int(counts["rchar"]), int(counts["read_bytes"]))


class Opening:
    """A checkpoint that is being opened, and how far its process is."""

    def __init__(self, worker: Worker, number: int, request: Open, now: float) -> None:
        """``now`` is when it begins, in seconds."""
        self.worker, self.number, self.request = worker, number, request
        self._began = self._looked = now
        self._still = 0.0  # seconds in which the process did nothing
        self._usage: Usage | None = None
        self._before = 0  # bytes that it had asked for before it began to read
        self._size = self._told = 0

    @property
    def stands_still(self) -> bool:
        """Whether the process has done nothing for so long that it is given up."""
        return self._still >= STILL_SECONDS

    def reads(self, size: int) -> None:
        """Note that the process begins to read files of so many bytes, 0 if unknown."""
        usage = usage_of(self.worker.process.pid)
        self._size, self._before = (0, 0) if usage is None else (size, usage.asked)

    def look(self, now: float) -> OpenProgressed | None:
        """Look what the process does; return how far it is, once a second."""
        before, self._usage = self._usage, usage_of(self.worker.process.pid)
        passed, self._looked = min(MOST_SECONDS, now - self._looked), now
        moved = self._usage is None or self._usage != before
        self._still = 0.0 if moved else self._still + passed
        seconds = int(now - self._began)
        if seconds <= self._told:
            return None
        self._told = seconds
        asked = self._usage.asked - self._before if self._usage and self._size else 0
        return OpenProgressed(
            number=self.number,
            seconds=seconds,
            read=min(asked, self._size),
            size=self._size,
        )
