"""Messages between the window and the engine process: plain frozen values.

To add a question: a ``Request`` here, who answers it in ``process.HANDLERS``, and what
the answer does to the State in ``session.receive``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from visformer.values.arrays import Floats, Ids
from visformer.values.facts import ModelFacts, SentenceSide, StackName
from visformer.values.finding import Finding
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.measured import (
    AttributionPlace,
)
from visformer.values.questions import Overrides, Questionnaire, WhenToAsk
from visformer.values.recording import Row
from visformer.values.step import GREEDY, Choice, Strategy
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What the window asks for. The newest one supersedes those before it."""


@dataclass(frozen=True, slots=True, eq=False)
class SideRequest(Request):
    """A request that is answered during a decode, and supersedes nothing."""


class Numbered(NamedTuple):
    """A request as it goes through the pipe."""

    number: int
    request: Request


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Answer:
    """What the engine says; the number is that of the request."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Open(Request):
    """Open the checkpoint at ``path`` on a device ("": the best there is)."""

    path: str
    device: str = ""
    overrides: Overrides = ()
    ask: WhenToAsk = "never"  # whether to answer with questions instead of opening


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode(Request):
    """Decode ``source``: make the choices of ``prefix``, then go on to the end.

    With ``reference`` that text is fed teacher-forced instead, and nothing is decoded.
    """

    source: str
    prefix: tuple[Choice, ...] = ()
    reference: str = ""
    strategy: Strategy = GREEDY
    limit: int | None = None  # target tokens; None: 2 S + 50, at most the positions
    intervention: Intervention = NO_CHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Request):
    """Translate several sentences, then run them together, padded."""

    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle(Request):
    """Run ``source`` as it is and in another order, both with the same target."""

    source: str
    target: tuple[int, ...]  # ids that the decoder consumes
    intervention: Intervention = NO_CHANGES
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBeams(Request):
    """Search what follows the choices of ``prefix`` by so many beams."""

    source: str
    prefix: tuple[Choice, ...] = ()
    beams: int
    limit: int | None = None
    intervention: Intervention = NO_CHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRun(Request):
    """A question about a run that was made, by what it read and chose."""

    source: str | tuple[int, ...]
    # of each row: what the decoder consumes, and the token that it chose
    ids: tuple[tuple[int, ...], tuple[int, ...]]
    given: int  # how many of these tokens are a prompt's
    fed: bool  # teacher-forced
    intervention: Intervention = NO_CHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute(OfRun):
    """Measure what tokens do to a run."""

    place: AttributionPlace
    shared: bool  # with the share of the source


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOff(OfRun):
    """Measure what each head, layer and source token does to a run."""

    other: str | tuple[int, ...] = ""  # a source that streams are taken from; "": none


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOffOverPairs(Request):
    """Measure what each head does to the references of a file of pairs."""

    path: str
    intervention: Intervention = NO_CHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun(OfRun):
    """Look for what is wrong, by the table of checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeries(Request):
    """Run a sentence by every checkpoint of a folder, or read its recorded runs."""

    folder: str
    source: str = ""
    reference: str = ""  # what each is fed


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPairs(Request):
    """Scan the pairs of a file by the open model."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureHeads(Request):
    """Measure what each head does over a file of pairs."""

    path: str
    intervention: Intervention = NO_CHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters(SideRequest):
    """Return the weights of one layer of the open model."""

    stack: StackName
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lens(SideRequest):
    """Return what each decoder layer of the open model would predict for N rows.

    The rows are part of the request: they may be of any run of the model.
    """

    hidden: Floats  # [N, L + 1, D], the rows' residual stream
    chosen: Ids  # [N], the token that each row's step chose
    temperature: float  # what sampling divides the logits by


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllTokens(SideRequest):
    """Return the probability of every token that one row of a run might predict.

    The row is part of the request: it may be of any run of the model.
    """

    stream: Floats  # [D], what leaves the last decoder layer; [0] where none is kept
    # what a model that is watched runs again
    source: tuple[int, ...]
    target: tuple[int, ...]  # ids that the decoder consumes
    intervention: Intervention
    row: int  # of that pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(SideRequest):
    """Compare the steps of a changed run with the original, on the same tokens."""

    source: tuple[int, ...]
    chosen: tuple[Choice, ...]  # by all rows
    step: int  # from 0; the only one told of where later tokens change its rows
    fed: bool  # teacher-forced
    intervention: Intervention


@dataclass(frozen=True, slots=True, kw_only=True)
class FindTokens(SideRequest):
    """Return the target tokens that a text names."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest(SideRequest):
    """Return the tokens whose embeddings are nearest to a token's."""

    side: SentenceSide
    asked: int | str  # its id, or a text that names it


@dataclass(frozen=True, slots=True)
class Stop(Request):
    """End the decode after its current step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Answer):
    """The process has started: it takes requests from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unable(Answer):
    """The process cannot start and ends."""

    reason: str  # a few words


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Answer):
    """A ``Stop`` was read: nothing is computed any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(Answer):
    """Something for the window's log: an unexpected error and its stack."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opened(Answer):
    """The checkpoint is open and ready."""

    path: str
    model: ModelFacts
    positions: Floats  # [max_positions, D]
    devices: tuple[str, ...]  # what can be chosen on this computer
    findings: tuple[Finding, ...]  # what is unusual or wrong with the checkpoint
    assumed: tuple[str, ...] = ()  # what neither its file nor the user stated
    numbers: int = 0  # ids that are typed as numbers, 0 to n - 1; 0: it reads text
    guessed_heads: int = 0  # if their number is only the usual one
    asks: bool = False  # whether its file leaves questions that can be answered again
    smoothing: float | None = None  # label smoothing in training, if its card says so
    dropout: tuple[float, ...] = ()  # rates in training, as its files name them


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Answer):
    """The checkpoint can be opened once these questions are answered."""

    path: str
    form: Questionnaire


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Started(Answer):
    """The encoder side of a decode is ready; decoder rows follow."""

    start: Trace | None  # T = 0; None: the source is that of the last decode
    limit: int  # rows at most
    kept: int  # rows of the last decode that stay valid; the rest is dropped


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stepped(Answer):
    """One more decoder row."""

    row: Row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passed(Answer):
    """A whole Trace: of a watched model, or of a step that changed rows before it."""

    trace: Trace
    limit: int
    kept: int = 0  # rows that no later token changes; all, if it holds earlier steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Answer):
    """How far long work has come."""

    done: int
    of: int
    part: str  # what is counted, as words on screen; "": the source, encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProgressed(Answer):
    """How far an opening is; from the process: that it begins to read."""

    seconds: int = 0  # since it was asked for
    read: int = 0  # bytes of ``size``
    size: int = 0  # bytes of its files of weights; 0 where that is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Answer):
    """The decode is over: end of sentence, limit, or end of the reference."""

    step_ms: float | None  # median milliseconds of a decoded step; None: there was none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Portion(Answer):
    """Some of what a request asks for; more follows."""

    value: Any  # which one of what class: ``session.receive.ANSWERED``


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Done(Portion):
    """What a request asks for, or the last of it; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Answer):
    """A request could not be carried out; one sentence says why and what to do."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The working process ended and another one took over; nothing shown was lost."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """The engine has not answered for long; without a reason: it answers again."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The open model is lost: its file can no longer be opened, or has changed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """No process could be started; the next request tries again."""

    reason: str


Event = Answer | Replaced | Silent | Closed | Down
