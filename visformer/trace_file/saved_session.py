"""A session: several runs in one file, with what was looked at and noted."""

from dataclasses import dataclass

from visformer.trace_file.stored_facts import RunSelection
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SavedRun:
    """One run of a session; what modified it is ``trace.intervention``.

    ``parent`` is the number of the run that it came from; None for none. It counts the
    runs of its session from 0.
    """

    trace: Trace
    name: str = ""
    note: str = ""
    selection: RunSelection | None = None  # None: it was never shown
    parent: int | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SavedSession:
    """The runs of a file, in the order in which they were saved; there is one at least.

    ``missing`` says in one sentence what a cut or damaged file no longer holds.
    """

    runs: tuple[SavedRun, ...]
    at: int = 0  # of the run that was shown
    baseline: int | None = None  # of the run that others were compared with
    version: tuple[int, int] = (4, 0)  # of the file: major, minor
    work: bytes = b""  # what a window needs to go on; b"" where none saved it
    missing: str = ""

    @property
    def shown(self) -> SavedRun:
        """The run that was shown when the session was saved."""
        return self.runs[self.at]

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The Trace of each run."""
        return tuple(run.trace for run in self.runs)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each run; empty where it has none."""
        return tuple(run.name for run in self.runs)
