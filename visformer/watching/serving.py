"""Answers the requests of a window on a wrapped model, in its own program."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from visformer.core.all_tokens import named
from visformer.engine.messages import (
    AllTokens,
    AllTokensDone,
    Answer,
    Decode,
    FindTokens,
    Finished,
    Lens,
    LensDone,
    Numbered,
    Open,
    Opened,
    Parameters,
    ParametersDone,
    Passed,
    Refused,
    Stop,
    Stopped,
    TokensFound,
)
from visformer.errors import VisformerError
from visformer.language import _
from visformer.values.intervention import NO_CHANGES
from visformer.watching.wrapped import WrappedModel
from visformer.watching.wrapped_decoding import WrappedDecoding

GONE = (EOFError, OSError)  # the window has been closed
MOST_WORDS = 120  # characters of an error of the model's
MOST_PASSES = 128  # tokens at most: every step is a whole pass


def serve_wrapped(wrapped: WrappedModel, connection: Connection) -> None:
    """Answer until the window is closed; what the model raises is shown there."""
    server = _WrappedServer(wrapped, connection)
    try:
        while True:
            server.answer(server.newest())
    except GONE:
        return


class _WrappedServer:
    def __init__(self, wrapped: WrappedModel, connection: Connection) -> None:
        self._wrapped, self._connection = wrapped, connection
        self._waiting: list[Numbered] = []
        self._decoding: WrappedDecoding | None = None
        self._inputs: tuple[Any, ...] = ()
        self._vocabulary = 0

    def newest(self) -> Numbered:
        """Wait for a request; of several decodes take the last."""
        self._receive()
        if not self._waiting:
            self._waiting.append(self._connection.recv())
            self._receive()
        first = self._waiting.pop(0)
        later = [one for one in self._waiting if _supersedes(one)]
        return self.newest() if _supersedes(first) and later else first

    def _receive(self) -> None:
        while self._connection.poll():
            self._waiting.append(self._connection.recv())

    def _interrupted(self) -> bool:
        self._receive()
        return any(_supersedes(one) for one in self._waiting)

    def answer(self, numbered: Numbered) -> None:
        """Carry out a request; errors are answered, not raised."""
        number, request = numbered
        try:
            if isinstance(request, Open):
                self._send(self._opened(number, request.path))
            elif isinstance(request, Decode):
                self._decode(number, request)
            elif isinstance(request, Stop):
                self._send(Stopped(number=number))
            elif isinstance(request, Parameters):  # they are the model's own affair
                self._send(ParametersDone(number=number, parameters=None))
            elif isinstance(request, Lens):
                rows = self._wrapped.lens(
                    request.hidden, request.chosen, temperature=request.temperature
                )
                self._send(LensDone(number=number, rows=rows))
            elif isinstance(request, AllTokens):
                asked = request.source, request.target, request.intervention
                whole = self._wrapped.distribution(*asked, request.row)
                self._send(AllTokensDone(number=number, distribution=whole))
            elif isinstance(request, FindTokens):
                pieces = self._wrapped.pieces(range(self._vocabulary))
                found = named(request.text, pieces)
                self._send(TokensFound(number=number, text=request.text, tokens=found))
            else:
                words = _("A model that runs in a program of your own cannot do this.")
                self._send(Refused(number=number, reason=words))
        except VisformerError as error:
            self._send(Refused(number=number, reason=str(error)))
        except GONE:
            raise
        except Exception as error:  # of the user's own model
            self._decoding = None
            first = f"{type(error).__name__}: {error}".partition("\n")[0][:MOST_WORDS]
            words = _("Your model raised {error}.", error=first)
            self._send(Refused(number=number, reason=words))

    def _send(self, answer: Answer) -> None:
        self._connection.send(answer)

    def _opened(self, number: int, path: str) -> Opened:
        """Say what the model is: by what it does with its first token."""
        wrapped = self._wrapped
        begun = wrapped.begin_decoding([wrapped.bos, wrapped.bos], limit=1)
        trace = begun.step()
        model, certificate = trace.model, begun.watched.certificate
        self._vocabulary = begun.vocabulary
        return Opened(
            number=number,
            path=path,
            model=model,
            positions=np.zeros((0, 0), np.float32),
            devices=(model.device,),
            findings=certificate.findings,
            assumed=certificate.missed,
            numbers=0 if wrapped.reads_text else self._vocabulary,
        )

    def _decode(self, number: int, request: Decode) -> None:
        decoding = self._prepared(request)
        choices = decoding.after_prompt(request.prefix)
        if request.reference:
            choices = decoding.reference(request.reference)
        decoding.follow(choices)
        for length in range(len(choices) + 1):
            if length and self._interrupted():
                break
            decoding.follow(choices[:length])
            self._send_pass(number, decoding)
        while not (request.reference or decoding.ended or self._interrupted()):
            decoding.step()
            self._send_pass(number, decoding)
        self._send(Finished(number=number, step_ms=None))

    def _prepared(self, request: Decode) -> WrappedDecoding:
        if request.intervention != NO_CHANGES:
            raise VisformerError(
                _("A model served from your program cannot be changed here.")
            )
        inputs = request.source, request.limit
        if self._decoding is None or self._inputs != inputs:
            limit = min(request.limit or MOST_PASSES, MOST_PASSES)
            self._decoding = self._wrapped.begin_decoding(request.source, limit=limit)
            self._inputs = inputs
        self._decoding.strategy = request.strategy
        return self._decoding

    def _send_pass(self, number: int, decoding: WrappedDecoding) -> None:
        self._send(Passed(number=number, trace=decoding.trace, limit=decoding.limit))


def _supersedes(numbered: Numbered) -> bool:
    return isinstance(numbered.request, Decode | Stop)
