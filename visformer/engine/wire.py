"""Wire: an end of a pipe, for messages with large arrays."""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

LARGE = 1 << 16  # bytes from which on an array goes beside its message
PIECE = 1 << 20  # bytes of it at a time, where a connection has to copy them


class Wire:
    """One end of a pipe; both ends need one. Large arrays are not copied to be sent.

    ``Connection`` would make several copies, which take seconds and gigabytes for the
    rows of a long sentence.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: object) -> None:
        """Send anything that can be pickled; OSError if nobody is at the other end."""
        beside: list[memoryview] = []

        def stays(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= LARGE:
                beside.append(raw)
            return raw.nbytes < LARGE

        body = pickle.dumps(message, 5, buffer_callback=stays)
        self._connection.send((body, [raw.nbytes for raw in beside]))
        for raw in beside:
            self._put(raw)

    def recv(self) -> Any:
        """Wait for a message; EOFError or OSError if there will be none."""
        body, sizes = self._connection.recv()
        beside = [np.empty(size, np.uint8).data for size in sizes]
        for raw in beside:
            self._fill(raw)
        return pickle.loads(body, buffers=beside)

    def _put(self, raw: memoryview) -> None:
        while raw:
            if sys.platform == "win32":
                self._connection.send_bytes(raw[:PIECE])
                raw = raw[PIECE:]
            else:
                raw = raw[os.write(self._connection.fileno(), raw) :]

    def _fill(self, raw: memoryview) -> None:
        while raw:
            if sys.platform == "win32":
                done = self._connection.recv_bytes_into(raw)
            else:
                done = os.readv(self._connection.fileno(), [raw])
            if not done:
                raise EOFError
            raw = raw[done:]

    def poll(self, timeout: float = 0.0) -> bool:
        """Whether a message is there, after at most so many seconds."""
        return self._connection.poll(timeout)

    def close(self) -> None:
        """Close this end."""
        self._connection.close()
