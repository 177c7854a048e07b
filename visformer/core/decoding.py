"""Decoding: one sentence decoded token by token, forwards and backwards."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import torch
from torch import Tensor

from visformer.analysis.change_report import change_report, change_reports
from visformer.arguments import one_of, place, whole_number, wrong_type
from visformer.core.attribution import KnownRun, attributed
from visformer.core.corpus_mean import with_means
from visformer.core.models import Model, ModelRun, Reached, WorkDone, bundled, opened
from visformer.core.modified import as_intervention
from visformer.core.next_tokens import NextTokens
from visformer.core.passes import run
from visformer.core.pauses import pause
from visformer.core.rows import check_ids, common_start
from visformer.core.sampling import as_strategy, choose
from visformer.core.search import exhausted, search_run
from visformer.core.threads import few_threads
from visformer.errors import InputError
from visformer.language import _
from visformer.values.beam_search import BeamSearch
from visformer.values.changes.weight_changes import HeadScale
from visformer.values.facts import Kind
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.measured import (
    ATTRIBUTIONS,
    Attribution,
    AttributionName,
    AttributionPlace,
    ChangeReport,
)
from visformer.values.not_finite import not_finite_words
from visformer.values.step import Choice, Draw, Origin, Step, Strategy, StrategyName
from visformer.values.trace import Trace

log = logging.getLogger(__name__)
Pairs = Sequence[Choice | tuple[int, Origin]]  # where it is not known how one was drawn
_ELSEWHERE = {  # what other programs call by such a keyword, and what to call here
    **dict.fromkeys(("beam", "beams", "num_beams"), "visformer.translate(…, beam=4)"),
    **dict.fromkeys(("reference", "target"), "decoding.feed(…)"),
    **dict.fromkeys(("max_length", "max_tokens"), "limit=…"),
    **dict.fromkeys(
        ("do_sample", "temperature", "top_k", "top_p"),
        "strategy=visformer.Strategy(…)",
    ),
}


def as_choices(given: object) -> list[Choice]:
    """Return choices, also from pairs; TypeError or InputError for anything else."""
    try:
        pairs: Any = given if isinstance(given, list | tuple) else [given]
        made = [Choice(whole_number("id", id), *rest) for id, *rest in pairs]
        if not all(isinstance(one.drawn, Draw | None) for one in made):
            raise TypeError
    except (TypeError, ValueError):
        allowed = _("pairs of a token id and who chose it")
        raise wrong_type("choices", given, allowed) from None
    for choice in made:
        one_of("origin", choice.origin, get_args(Origin))
    return made


class Decoding:
    """The decoding of one sentence by a model, whoever runs it.

    ``trace`` is always the part up to the current step; later steps are kept, so that
    ``step`` after ``back`` computes and samples nothing. The model may be edited and
    hooked between sentences, but not within one: call ``restart`` then. Of a model that
    is watched, the Trace that ``step`` returns is made when it is first used, by a pass
    over all tokens so far.
    """

    limit: int  # the largest number of choices
    search: BeamSearch | None  # what last chose tokens by beams

    def __new__(cls, *_given: Any, **settings: Any) -> Decoding:
        for name in settings.keys() & _ELSEWHERE:
            call = _ELSEWHERE[name]
            raise TypeError(
                _("Decoding takes no “{name}”. Use {call}.", name=name, call=call)
            )
        return super().__new__(cls)

    def __init__(
        self,
        checkpoint: Model | str | Path,
        source: str | Sequence[int] | None = None,
        *,
        strategy: Strategy | StrategyName | None = None,
        limit: int | None = None,
        max_new_tokens: int | None = None,
        intervention: Intervention | str | None = None,
    ) -> None:
        """Begin with ``source``, or a prompt where there is no encoder.

        A text alone is the source of the bundled English-French model. ``limit``, or
        ``max_new_tokens``, is the largest number of target tokens (default: 2 S + 50 or
        the checkpoint's own rule; never more than the model's positions). Generation
        rules restrict what steps choose, but the probabilities stay the model's own. An
        ``intervention`` that changes masks makes every step a full pass, as do hooks on
        the decoder and replaced modules in it. Raises InputError for no source, unknown
        ids, a limit below 1, or a change that does not fit or is out of reach.
        """
        if source is None and isinstance(checkpoint, str) and _is_text(checkpoint):
            self.checkpoint, source = bundled(), checkpoint
        else:
            self.checkpoint = opened(checkpoint)
        change = as_intervention(intervention)
        self.intervention = exhausted(with_means(self.checkpoint, change, run))
        self.strategy = as_strategy(strategy)
        self._lock = threading.RLock()
        given: Any = source  # None is refused as any other source that is none
        self.restart(given, limit=_limit(limit, max_new_tokens))

    def __repr__(self) -> str:
        """Name the sentence, the step and what was decoded."""
        return f"<Decoding at step {self._position}: {self.trace!r}>"

    def _repr_mimebundle_(self, **_given: object) -> dict[str, str]:
        """Show the run up to the current step in a notebook, as a Trace does."""
        return {**self.trace._repr_mimebundle_(), "text/plain": repr(self)}

    def restart(self, source: str | Sequence[int], *, limit: int | None = None) -> None:
        """Start again with another sentence, which is encoded when it is needed."""
        model = self.checkpoint
        self._source = read = model.vocabulary.read(source)
        if limit is not None:
            limit = whole_number("limit", limit, least=1)
        model.can(self.intervention, read)
        self._read = read
        self._run: ModelRun = model.begin(read, self.intervention, limit)
        self.limit = self._run.limit
        # a prompt's tokens but the first are choices, too: the reference's
        self._prompt = [Choice(id, "reference") for id in self._run.given[1:]]
        self._made: list[Choice] = []
        self._position = 0  # how many of them the current step has
        self._reached: Reached | None = None
        self._steps: list[Step] = []  # of the reached rows, a prompt's included
        self._broken: set[int] = set()  # numbers of choices whose last step is NaN
        self._fed = self._warned = False
        self.search = None

    def change_report(self, step: int = -1) -> ChangeReport:
        """Tell what the change does to a step, or to the current one.

        Steps count from 0, or from the end where they are negative. It is what
        ``visformer.change_report`` returns for two passes over the tokens of this run,
        without the change and with it. Raises InputError before a step.
        """
        if not self.rows:
            raise InputError("Nothing was decoded.")
        step = place("step", step, self.rows)
        original, changed = self._both(self._until(self._made, step), self._fed)
        return change_report(original.trace, changed.trace, step)

    def change_reports(
        self, choices: Sequence[Choice], step: int, *, fed: bool = False
    ) -> dict[int, ChangeReport]:
        """Tell what the change does to each step of a run that made these choices.

        To ``step`` alone, from 0, where later tokens change its rows: that is told of a
        shorter run. They are ``fed`` as a reference is.
        """
        short = self._until(choices, step)
        reaches_back = self.intervention.reaches_back
        original, changed = self._both(short if reaches_back else choices, fed)
        steps = range(original.rows)
        if min(original.kept, changed.kept) < len(steps):
            if step + 1 < len(steps):
                original, changed = self._both(short, fed)
            steps = range(step, step + 1)
        found = {}
        reports = change_reports(original.trace, changed.trace, steps)
        for at, report in zip(steps, reports, strict=True):
            pause()
            found[at] = report
        return found

    def _until(self, choices: Sequence[Choice], step: int) -> Sequence[Choice]:
        """Return the choices up to a step; a prompt's are none."""
        return choices[: max(0, step + 1 - len(self._prompt))]

    def _both(self, choices: Sequence[Choice], fed: bool) -> list[Decoding]:
        """Return runs of these choices, without the change and with it."""
        own = NO_CHANGES
        if self.intervention.whole:  # to the bit: a factor of 1 makes it a pass as well
            own = Intervention(HeadScale(self.checkpoint.facts.kinds[0], 1.0))
        made = []
        for change in (own, self.intervention):
            one = Decoding(self.checkpoint, self._source.ids, limit=self.limit)
            one._run = one.checkpoint.begin(self._source, change, self.limit)
            one._follow(choices, fed=fed)
            made.append(one)
        return made

    def searching(self) -> Iterator[WorkDone]:
        """Search what follows the current step, if beams choose it, and say how far."""
        if self.strategy.name != "beam" or self.ended or self._planned is not None:
            return
        self.search = yield from self.searched(self.chosen, self.strategy.beams)

    def searched(
        self, chosen: Sequence[int], beams: int
    ) -> Generator[WorkDone, None, BeamSearch]:
        """Search what follows these ids of choices, whatever the current step is.

        Raises InputError if they end the sentence or reach the limit.
        """
        ends = self.checkpoint.ends
        if len(chosen) >= self.limit or (chosen and chosen[-1] in ends):
            raise InputError("Nothing follows the tokens that were chosen already.")
        return (yield from search_run(self._run, beams, ends, chosen))

    @property
    def _planned(self) -> int | None:
        """The id with which the best hypothesis goes on with the current choices."""
        found = self.search
        if found is None or found.beams != self.strategy.beams:
            return None
        made, plan = [*self._run.given, *self.chosen], [*found.given, *found.best]
        ahead = plan[len(made) :] if plan[: len(made)] == made else []
        return next(iter(ahead), None)

    @property
    def start(self) -> Trace:
        """The Trace before any decoder row."""
        return self._run.start

    def release(self) -> None:
        """Let go of what the source's rows take; reading them encodes it again."""
        self._run.release()

    @property
    def trace(self) -> Trace:
        """Everything up to the current step."""
        trace = self._trace()
        len(trace)  # it is made here
        return trace

    @property
    def rows(self) -> int:
        """How many decoder rows the current step has, those of a prompt included."""
        return len(self._prompt) + self._position

    @property
    def kept(self) -> int:
        """How many rows of the current step no later token changes."""
        return 0 if self._reached is None else min(self._reached.kept, self.rows)

    @property
    def chosen(self) -> list[int]:
        """The ids that are chosen up to the current step."""
        return [choice.id for choice in self._made[: self._position]]

    @property
    def text(self) -> str:
        """The translation up to the current step."""
        return self.trace.text

    @property
    def ended(self) -> bool:
        """Whether the current step ended the sentence or reached the limit.

        A step whose probabilities are NaN ends it: no later choice means anything.
        """
        at = self._position
        ended = at > 0 and self._made[at - 1].id in self.checkpoint.ends
        return ended or at in self._broken or at >= self.limit

    def step(self, count: int = 1) -> Trace:
        """Go ``count`` tokens forward, but not past the end or the limit.

        Several threads may step one decoding: they take turns.
        """
        with self._lock:
            self.advance(count)
            return self._trace()

    def advance(self, count: int = 1) -> None:
        """Do what ``step`` does, without making a Trace of it."""
        for _step in range(whole_number("count", count)):
            if self.ended:
                break
            if self._position == len(self._made):
                self._reach([*self._made, None])
            self._position += 1

    def back(self, count: int = 1) -> Trace:
        """Go ``count`` tokens back; later steps are kept for ``step``."""
        with self._lock:
            self._position = max(0, self._position - whole_number("count", count))
            return self._trace()

    def finish(self) -> Trace:
        """Decode to the end of the sentence or the limit."""
        with self._lock:
            self.advance(self.limit)
            return self.trace

    def force(self, token: str | int) -> Trace:
        """Replace the current step's choice by ``token``; drop all later steps.

        Before the first step the token becomes the first choice. Text must be exactly
        one token; raises InputError otherwise.
        """
        id = self.checkpoint.vocabulary.one(token)
        kept = max(0, self._position - 1)
        return self.follow([*self._made[:kept], Choice(id, "forced")])

    def feed(self, reference: str | Sequence[int]) -> Trace:
        """Teacher forcing: make ``reference`` the choices of all steps, in one pass.

        A text ends with the end-of-sentence token. The candidates of each step show
        what the model would have chosen. Raises InputError if it is longer than the
        limit. Positions advance here even in models where they restart at each step.
        """
        return self._follow(self.reference(reference), fed=True)

    def reference(self, reference: str | Sequence[int]) -> list[Choice]:
        """Return the choices of a reference; a text includes the end of sentence."""
        ids = self.checkpoint.vocabulary.reference(reference)
        return [Choice(id, "reference") for id in ids]

    def follow(self, choices: Pairs) -> Trace:
        """Make exactly these choices, reusing computed rows that agree with them.

        Raises InputError for ids outside the vocabulary or beyond the limit.
        """
        return self._follow(as_choices(choices), fed=False)

    def common(self, choices: Pairs, *, fed: bool = False) -> int:
        """Return how many computed steps agree with ``choices`` from the start.

        What was fed may have other positions than what is not.
        """
        if fed != self._fed:
            return 0
        old, new = ([one[:2] for one in each] for each in (self._made, choices))
        return common_start(old, new)

    def after_prompt(self, choices: Sequence[Choice]) -> list[Choice]:
        """Return the choices of a Trace's steps without those of a prompt."""
        prompt = [choice.id for choice in self._prompt]
        given = [choice.id for choice in choices[: len(prompt)]] == prompt
        return [*choices[len(prompt) :]] if given else [*choices]

    def attribution(
        self, how: AttributionName, kind: Kind = "cross", layer: int = -1
    ) -> Attribution:
        """Measure what the tokens of a kind of attention do to the rows so far.

        "zeroing": how far a layer's output turns without a key's values, and "norms":
        the length of what a key's values add through W_O, rows sum to 1; "gradient":
        gradient x input of the log p of each row's choice, signed, in nats. Values are
        float32 [Q, K]. Of cross-attention there is also the source's share of each
        choice, [T]. Raises InputError where the model cannot tell.
        """
        trace = self.trace
        how = cast("AttributionName", one_of("how", how, ATTRIBUTIONS))
        kind = cast("Kind", one_of("kind", kind, trace.kinds))
        at = AttributionPlace(how, kind, place("layer", layer, trace.layers(kind)))
        work = attributed(self.checkpoint, self.known, at, shared=kind == "cross")
        return exhausted(work)

    @property
    def known(self) -> KnownRun:
        """The run up to the current step, by what it read and chose."""
        chosen = [*self._prompt, *self._made[: self._position]]
        target = [*self._run.given[:1], *(choice.id for choice in chosen[:-1])]
        return KnownRun(
            self._read,
            target,
            [choice.id for choice in chosen],
            self.intervention,
            self._fed,
            len(self._prompt),
        )

    def _follow(self, choices: Sequence[Choice], *, fed: bool) -> Trace:
        if len(choices) > self.limit:
            raise InputError(
                "There are {n:,} target tokens, but at most {most:,} are allowed.",
                n=len(choices),
                most=self.limit,
            )
        if choices:
            check_ids([c.id for c in choices], self.checkpoint.vocabulary.size)
        common = self.common(choices, fed=fed)
        self._fed, self._position = fed, len(choices)
        if not self.rows:
            self._made, self._steps, self._reached = [], [], None
        elif common < max(len(choices), len(self._made)):
            self._reach(choices, common)
        return self.trace

    def _trace(self) -> Trace:
        """Return the Trace of the current step; of a watched model, one to be made."""
        if not self.rows:
            return self._run.start
        longer = self.kept == self.rows <= len(self._steps)
        if self._reached is None or not (longer or self.rows == len(self._steps)):
            made = self._made  # later choices stay
            self._reach(made[: self._position])
            self._made = made
        assert self._reached is not None
        return self._reached.trace(self._steps, self.rows)

    def _reach(
        self, choices: Sequence[Choice | None], common: int | None = None
    ) -> None:
        """Compute the rows of these choices, and describe them.

        A None is chosen by the model. The first ``common`` choices are those of before.
        """
        made = [choice for choice in choices if choice]
        known = [*self._prompt, *made]
        if common is not None:
            del self._steps[len(self._prompt) + common :]
        consumed = [*self._run.given, *(choice.id for choice in made)]
        consumed = consumed[: max(len(choices), 1) + len(self._prompt)]
        reached, following = self._run.to(
            consumed, since=min(len(self._steps), len(consumed)), fed=self._fed
        )
        self._reached, logits = reached, following.logits  # [n, V]
        with torch.inference_mode(), few_threads(logits.numel()):
            if len(choices) > len(made):
                known.append(self._chosen(logits[-1], consumed))
            self._describe(following, len(consumed) - len(logits), known)
        self._made = known[len(self._prompt) :]

    def _describe(self, rows: NextTokens, first: int, known: list[Choice]) -> None:
        """Make the steps of the rows from ``first`` on."""
        vocabulary, prompt = self.checkpoint.vocabulary, len(self._prompt)

        def token(id: int) -> str:
            return vocabulary.pieces([id])[0]

        ids = [choice.id for choice in known[prompt:]]
        del self._steps[first:]
        for at, choice in enumerate(known[first:], first):
            text = vocabulary.text(ids[: max(at + 1 - prompt, 0)])
            step = rows.step(at - first, choice, text, token)
            self._steps.append(step)
            broken = math.isnan(step.probability) and at >= prompt
            (self._broken.add if broken else self._broken.discard)(at + 1 - prompt)
        if self._broken and not self._warned:
            self._warned = True
            assert self._reached is not None
            trace = self._reached.trace(self._steps, len(self._steps))
            log.warning("%s", not_finite_words(trace))

    def _chosen(self, logits: Tensor, consumed: list[int]) -> Choice:
        """Choose the next token from logits [V], or as the best of some beams did."""
        for _progress in self.searching():
            pass
        if self.strategy.name == "beam" and self._planned is not None:
            return Choice(self._planned, "beam")
        rules, given = self._run.rules, len(self._run.given)
        step = len(consumed) - given
        free = choose(logits, self.strategy, step, in_turn=rules.in_turn)
        if not rules.restricts:
            return free
        ids = torch.tensor([consumed], device=logits.device)
        last = torch.tensor([step + 1 == self.limit], device=logits.device)
        ends = self.checkpoint.ends
        scores = rules.restrict(logits[None].clone(), ids, last, ends, given=given)[0]
        bound = choose(scores, self.strategy, step, in_turn=rules.in_turn)
        return bound.under_rules(free)


def _is_text(given: object) -> bool:
    """Whether what is given alone is a text, and not the path of a checkpoint."""
    if not isinstance(given, str) or os.path.exists(given):
        return False
    return " " in given.strip() or not (set(given) & set("/\\") or Path(given).suffix)


def _limit(limit: int | None, max_new_tokens: int | None) -> int | None:
    if limit is not None and max_new_tokens is not None:
        raise InputError(
            "limit and max_new_tokens mean the same here. Give one of them."
        )
    return max_new_tokens if limit is None else limit
