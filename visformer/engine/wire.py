"""Wire: an end of a pipe, for messages with large arrays."""

from __future__ import annotations

import pickle
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

LARGE = 1 << 16  # bytes from which on an array goes beside its message
PIECE = 1 << 20  # bytes of it at a time: a connection copies what it receives


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
            for first in range(0, raw.nbytes, PIECE):
                self._connection.send_bytes(raw[first : first + PIECE])

    def recv(self) -> Any:
        """Wait for a message; EOFError or OSError if there will be none."""
        body, sizes = self._connection.recv()
        beside = [np.empty(size, np.uint8).data for size in sizes]
        for raw in beside:
            done = 0
            while done < raw.nbytes:
                done += self._connection.recv_bytes_into(raw[done:])
        return pickle.loads(body, buffers=beside)

    def poll(self, timeout: float = 0.0) -> bool:
        """Whether a message is there, after at most so many seconds."""
        return self._connection.poll(timeout)

    def close(self) -> None:
        """Close this end."""
        self._connection.close()
