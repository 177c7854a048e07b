"""A process's own memory and its limit, and its end with its parent."""

import contextlib
import ctypes
import os
import signal
import sys

if sys.platform != "win32":
    import resource

_PR_SET_PDEATHSIG = 1
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of malloc.h
OWN_PAGES = 1 << 17  # bytes from which an array has pages of its own
TRIMMED = 1 << 23  # bytes that may stay free at the heap's end
SHARE = 0.75  # of the computer's memory


def resident() -> int:
    """Return the bytes of memory that this process has; 0 where that is unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as sizes:
            return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def return_what_is_freed(*, at_once: bool = False) -> None:
    """Let what is freed go back to the system; call it before threads start.

    glibc keeps a heap for each thread, of which ``return_memory`` reaches all but the
    ends, and moves the size from which an array has pages of its own up to 32 MB. In a
    window, runs arrive on one thread and are freed on another: after some hundred
    sentences most of what the process held was free, in pieces. ``at_once`` keeps that
    size low, which costs time where large arrays come and go.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # of another C library
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_ARENA_MAX, 1)
            if at_once:
                mallopt(_MMAP_THRESHOLD, OWN_PAGES)
                mallopt(_TRIM_THRESHOLD, TRIMMED)


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
