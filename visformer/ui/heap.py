"""The C library's heap: what the window frees goes back to the system.

glibc keeps a heap for each thread, and moves the size from which an array has pages of
its own up to 32 MB. Runs arrive on one thread and are freed on another: after some
hundred sentences most of what the process held was free, in pieces.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of malloc.h
OWN_PAGES = 1 << 17  # bytes from which an array has pages of its own
TRIMMED = 1 << 23  # bytes that may stay free at the heap's end


def return_what_is_freed() -> None:
    """Set it up for this process, before its threads start; glibc alone has it."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, OWN_PAGES)
        mallopt(_TRIM_THRESHOLD, TRIMMED)
