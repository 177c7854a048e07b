"""Pool: the engine's processes, a spare one and those that are ending among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from visformer.engine.messages import Answer
from visformer.engine.starter import Starter
from visformer.engine.worker import Worker


class Pool:
    """Starts processes, keeps a spare one, ends those that are no longer wanted."""

    def __init__(
        self, receive: Callable[[Worker, Answer | None], None], crashes: str
    ) -> None:
        """Arguments as those of ``Worker``."""
        self._receive, self._crashes = receive, crashes
        self._starter = Starter()
        self._ended: list[Worker] = []
        self.spare: Worker | None = None

    def take(self) -> Worker:
        """Return the spare process, or start one."""
        worker, self.spare = self.spare or self._start(), None
        return worker

    def keep_spare(self) -> None:
        """Start a spare process where there is none."""
        if self.spare is None:
            self.spare = self._start(spare=True)

    def _start(self, *, spare: bool = False) -> Worker:
        return Worker(self._receive, self._starter, self._crashes, spare=spare)

    def discard(self, worker: Worker) -> None:
        """End a process without waiting for it; ``close`` waits."""
        worker.process.kill()
        self._ended = [old for old in self._ended if old.process.is_alive()] + [worker]

    def close(self, workers: Iterable[Worker]) -> None:
        """End these processes and all others, and wait for them."""
        spares = () if self.spare is None else (self.spare,)
        for worker in {*workers, *spares, *self._ended}:
            worker.end()
        self._starter.close()
