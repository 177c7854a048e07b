"""Messages between the window and the engine process: plain frozen values.

To add a question: a ``Request`` and its ``Answer`` here, who answers it in
``process.HANDLERS``, and what the answer does to the State in ``session.receive``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from visformer.values.arrays import Floats, Ids
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import ModelFacts, SentenceSide, StackName
from visformer.values.finding import CheckResult, Finding
from visformer.values.heads_of_pairs import HeadsOfSome
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.layer_weights import LayerParameters
from visformer.values.measured import (
    Attribution,
    AttributionPlace,
    ChangeReport,
    Importance,
    ImportanceOfPairs,
    NearWords,
    SeriesPoint,
    WholeDistribution,
)
from visformer.values.questions import Overrides, Questionnaire, WhenToAsk
from visformer.values.recording import Row
from visformer.values.scanned import Calibration, ScannedPair
from visformer.values.step import GREEDY, Choice, LensRow, Strategy
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What the window asks for. The newest one supersedes those before it."""

    # whether it is answered during a decode, and supersedes nothing
    is_side_request: ClassVar[bool] = False


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
class Parameters(Request):
    """Return the weights of one layer of the open model."""

    is_side_request: ClassVar[bool] = True

    stack: StackName
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lens(Request):
    """Return what each decoder layer of the open model would predict for N rows.

    The rows are part of the request: they may be of any run of the model.
    """

    is_side_request: ClassVar[bool] = True

    hidden: Floats  # [N, L + 1, D], the rows' residual stream
    chosen: Ids  # [N], the token that each row's step chose
    temperature: float  # what sampling divides the logits by


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllTokens(Request):
    """Return the probability of every token that one row of a run might predict.

    The row is part of the request: it may be of any run of the model.
    """

    is_side_request: ClassVar[bool] = True

    stream: Floats  # [D], what leaves the last decoder layer; [0] where none is kept
    # what a model that is watched runs again
    source: tuple[int, ...]
    target: tuple[int, ...]  # ids that the decoder consumes
    intervention: Intervention
    row: int  # of that pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(Request):
    """Compare the steps of a changed run with the original, on the same tokens."""

    is_side_request: ClassVar[bool] = True

    source: tuple[int, ...]
    chosen: tuple[Choice, ...]  # by all rows
    step: int  # from 0; the only one told of where later tokens change its rows
    fed: bool  # teacher-forced
    intervention: Intervention


@dataclass(frozen=True, slots=True, kw_only=True)
class FindTokens(Request):
    """Return the target tokens that a text names."""

    is_side_request: ClassVar[bool] = True

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest(Request):
    """Return the tokens whose embeddings are nearest to a token's."""

    is_side_request: ClassVar[bool] = True

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
class BatchDone(Answer):
    """The rows of a batch, pads included."""

    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shuffled(Answer):
    """Both orders, with the end-of-sentence token last in both."""

    order: tuple[int, ...]  # where each token of the shuffled source was
    baseline: Trace
    shuffled: Trace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched(Answer):
    """The steps of a search, or of a decode by beams, with their tokens."""

    search: BeamSearch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attributed(Answer):
    """The measure of an ``Attribute``."""

    attribution: Attribution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesRun(Answer):
    """One more point of a ``RunSeries`` and its run, or why one is left out.

    Without either, it was the last one.
    """

    point: SeriesPoint | None = None
    trace: Trace | None = None
    left_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunChecked(Answer):
    """What every check of a ``CheckRun`` says."""

    results: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SwitchedOff(Answer):
    """What a ``SwitchOff`` or a ``SwitchOffOverPairs`` has measured."""

    importance: Importance | ImportanceOfPairs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairsScanned(Answer):
    """Some more pairs of a ``ScanPairs``; the last answer has what is usual alone."""

    pairs: tuple[ScannedPair, ...] = ()
    left_out: tuple[str, ...] = ()  # lines, a sentence for each
    usual: Calibration | None = None
    checked: tuple[str, ...] = ()  # what the checks find, with what is usual


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadsMeasured(Answer):
    """Some more pairs of a ``MeasureHeads``; the last answer has none."""

    part: HeadsOfSome | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParametersDone(Answer):
    """The weights of one layer."""

    parameters: LayerParameters | None  # None: the open model has no such layer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LensDone(Answer):
    """The rows of a ``Lens``."""

    rows: tuple[LensRow, ...]  # N of them; none if they are not of the open model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllTokensDone(Answer):
    """The distribution of an ``AllTokens``."""

    distribution: WholeDistribution | None  # None if the row is not of the open model


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensFound(Answer):
    """Tokens of the target's vocabulary that a text names, the likest first."""

    text: str
    tokens: tuple[tuple[int, str], ...]  # ids and tokens


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EffectDone(Answer):
    """What an ``Effect`` found."""

    # by step, from 0; none if it was interrupted, None: it is another model's run
    reports: dict[int, ChangeReport] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearestDone(Answer):
    """The tokens of a ``Nearest``."""

    near: NearWords | None  # None: the embeddings of the open model are not known


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
