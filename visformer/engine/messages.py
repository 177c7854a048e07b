"""What the window and the engine process say to each other: plain frozen values.

The window sends the ``Request`` ones, the engine answers with the rest. Every request
carries a number, the newest wins, and answers carry it back. ``Parameters`` and
``Lens`` are asked aside, numbered apart: they disturb no decode, and none them.
"""

from __future__ import annotations

from dataclasses import dataclass

from visformer.values.arrays import Floats, Ids
from visformer.values.facts import ModelFacts
from visformer.values.finding import Finding
from visformer.values.intervention import UNTOUCHED, Intervention
from visformer.values.layer_weights import LayerParameters, Stack
from visformer.values.lens import LensRow
from visformer.values.questions import Asking, Form, Told
from visformer.values.recording import Row
from visformer.values.step import Origin
from visformer.values.strategy import GREEDY, Strategy
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Open the checkpoint at ``path`` on a device ("": the best there is)."""

    number: int
    path: str
    device: str = ""
    told: Told = ()
    ask: Asking = "never"  # whether to answer with questions instead of opening


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """Decode ``source``: make the choices of ``prefix``, then go on to the end.

    With ``reference`` that text is fed teacher-forced instead, and nothing is decoded.
    """

    number: int
    source: str
    prefix: tuple[tuple[int, Origin], ...] = ()
    reference: str = ""
    strategy: Strategy = GREEDY
    limit: int | None = None  # target tokens; None: 2 S + 50, at most the positions
    intervention: Intervention = UNTOUCHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Translate several sentences, then run them together, padded."""

    number: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Run ``source`` as it is and in another order, both with the same target."""

    number: int
    source: str
    target: tuple[int, ...]  # ids that the decoder consumes
    intervention: Intervention = UNTOUCHED
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Tell the weights of one layer of the open model."""

    number: int  # counted apart from the other requests
    stack: Stack
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lens:
    """Tell what each decoder layer of the open model would have predicted of N rows.

    The rows themselves come along: they may be of any run of the model.
    """

    number: int  # counted apart, as those of ``Parameters``
    hidden: Floats  # [N, L + 1, D], the rows' residual stream
    chosen: Ids  # [N], the token that each row's step chose
    temperature: float  # what sampling divides the logits by


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opened:
    """The checkpoint is open and ready."""

    number: int
    path: str
    model: ModelFacts
    positions: Floats  # [max_positions, D]
    devices: tuple[str, ...]  # what can be chosen on this computer
    findings: tuple[Finding, ...]  # what is unusual or wrong with the checkpoint
    assumed: tuple[str, ...] = ()  # what its file did not tell and nobody else did
    numbers: int = 0  # ids that are typed as numbers, 0 to n - 1; 0: it reads text


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The checkpoint can be opened once these questions are answered."""

    number: int
    path: str
    form: Form


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Started:
    """A decode has its encoder side; decoder rows follow."""

    number: int
    start: Trace | None  # T = 0; None: the source is that of the last decode
    limit: int  # rows at most
    kept: int  # rows of the last decode that stand; the rest is dropped


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stepped:
    """One more decoder row."""

    number: int
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passed:
    """A step that changed the rows before it: the whole of it, a Trace of its own."""

    number: int
    trace: Trace
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The decode is over: end of sentence, limit, or end of the reference."""

    number: int
    step_ms: float | None  # median milliseconds of a decoded step; None: there was none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchDone:
    """The rows of a batch, pads included."""

    number: int
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shuffled:
    """Both orders, the end-of-sentence token last in both."""

    number: int
    order: tuple[int, ...]  # where each token of the shuffled source stood
    plain: Trace
    shuffled: Trace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParametersDone:
    """The weights of one layer."""

    number: int
    parameters: LayerParameters | None  # None: the open model has no such layer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LensDone:
    """The rows of a ``Lens``."""

    number: int
    rows: tuple[LensRow, ...]  # N of them; none: they are not of the open model


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request cannot be carried out; one sentence says why and what to do."""

    number: int
    reason: str


Aside = Parameters | Lens
Request = Open | Decode | Batch | Shuffle | Aside
Answer = (
    Asked
    | Opened
    | Started
    | Stepped
    | Passed
    | Finished
    | BatchDone
    | Shuffled
    | ParametersDone
    | LensDone
    | Refused
)
