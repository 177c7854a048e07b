"""Limits of a process that reads untrusted files, and its end with its parent."""

import contextlib
import ctypes
import os
import signal
import sys

if sys.platform != "win32":
    import resource

_PR_SET_PDEATHSIG = 1
SHARE = 0.75  # of the computer's memory


def resident() -> int:
    """Return the bytes of memory that this process has; 0 where that is unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as sizes:
            return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def return_memory() -> None:
    """Give back what is free: glibc keeps what lies between what is not."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # of another C library
            ctypes.CDLL(None).malloc_trim(0)


def limit_memory() -> None:
    """Let this process have no more than a share of the computer's memory.

    What asks for more is refused, and neither the computer nor other programs stand
    still for it. Linux alone counts so: what is only mapped, of a file or a GPU, is
    left out.
    """
    if sys.platform == "linux":
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = int(SHARE * whole)
        if soft == resource.RLIM_INFINITY or soft > most:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def end_with_parent(parent: int) -> None:
    """Let this process end with its parent, even while it is stopped.

    ``parent`` is the parent's process id. Other systems than Linux have nothing like
    it.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if sys.platform != "win32" and os.getppid() != parent:
        sys.exit(1)  # the parent ended before it could be watched
