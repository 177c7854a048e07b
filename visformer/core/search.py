"""Beam search over a batch of sentences; its steps are kept, Traces are not made."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from visformer.core.generation import Generation
from visformer.core.incremental import DecoderRows
from visformer.core.loaded import Loaded
from visformer.core.mask_rules import RULES, encoder_mask, padded, real_tokens
from visformer.core.model import work
from visformer.core.models import BeamRows, ModelRun, Vocabulary, WorkDone
from visformer.core.sampling import best_first
from visformer.core.threads import few_threads, unhooked
from visformer.language import _
from visformer.values.beam_search import BeamSearch, EndedBeam, score
from visformer.values.config import ModelConfig

BATCH_TOKENS = 8192  # source tokens decoded at once, times the number of beams
ENCODED = 1024  # source tokens encoded at once: they stay in the processor's cache
Result = TypeVar("Result")


class SentenceSearch:
    """One sentence's steps and finished hypotheses, and whether its search has ended.

    The rules of ``early_stopping`` are those of transformers: True stops as soon as
    ``beams`` have finished; False stops when the best unfinished one, if it ended now,
    would not beat the worst of the best finished ones; "never" is like False, but
    assumes that the best one continues to the limit if the length penalty favours long
    ones.
    """

    def __init__(self, beams: int, limit: int, rules: Generation) -> None:
        self._beams, self.limit, self._rules = beams, limit, rules
        self._steps: list[tuple[np.ndarray[Any, Any], ...]] = []
        self._finished: list[EndedBeam] = []
        self._best: list[float] = []  # scores of the best finished ones, best first

    def add(self, step: int, beam: int, id: int, logprob: float) -> None:
        """Keep a hypothesis that ended, unless nothing can lead to it."""
        if logprob > -math.inf:
            reached = score(logprob, step + 1, self._rules.length_penalty)
            self._finished.append(EndedBeam(step, beam, id, logprob, reached))
            self._best = sorted([*self._best, reached], reverse=True)[: self._beams]

    def go_on(self, best: float, *kept: np.ndarray[Any, Any]) -> bool:
        """Keep a step; ``best`` is the best unfinished sum. False: it was the last."""
        self._steps.append(kept)
        stopping, penalty = self._rules.early_stopping, self._rules.length_penalty
        length = len(self._steps)
        if stopping == "never" and penalty > 0:
            length = self.limit
        full = len(self._best) == self._beams
        hopeless = full and score(best, length, penalty) <= self._best[-1]
        # a single beam is greedy search; if all are -inf (or NaN), nothing continues
        early = full and (stopping is True or self._beams == 1)
        return not (early or hopeless) and best > -math.inf

    def search(
        self, given: tuple[int, ...], prompt: int, ends: tuple[int, ...]
    ) -> BeamSearch:
        """Return all of it."""
        ids, parents, sums = map(np.stack, zip(*self._steps, strict=True))
        return BeamSearch(
            beams=self._beams,
            given=given,
            prompt=prompt,
            ids=ids.astype(np.int32),
            parents=parents.astype(np.int32),
            sums=sums,
            finished=tuple(self._finished),
            length_penalty=self._rules.length_penalty,
            early_stopping=self._rules.early_stopping,
            limit=self.limit,
            ends=ends,
        )


def search(
    checkpoint: Loaded,
    sources: Sequence[Sequence[int]],
    *,
    beam: int,
    scored: bool = True,
) -> list[BeamSearch]:
    """Search the target of each source.

    At most 2 S + 50 tokens are generated, or as many as the checkpoint's own rules
    allow, and never more than the model's positions. Greedy search that is not
    ``scored`` works out no probabilities: all sums are 0, or NaN.
    """
    scored = scored or beam > 1
    threads = torch.get_num_threads() if _runs_beside(checkpoint) else 1
    batches = _batches(checkpoint.config, sources, beam, threads)

    def searched(
        batch: Sequence[int], stopped: threading.Event | None = None
    ) -> list[BeamSearch]:
        some = [sources[at] for at in batch]
        return _search(checkpoint, some, beam, stopped, scored=scored)

    if threads > 1 < len(batches):
        made = _beside(searched, batches, threads)
    else:
        made = []
        for batch in batches:
            longest = len(sources[batch[-1]])
            tokens = longest + checkpoint.most_tokens(longest)
            with few_threads(work(checkpoint.model, tokens, len(batch) * beam)):
                made.append(searched(batch))
    found = {
        index: one
        for batch, every in zip(batches, made, strict=True)
        for index, one in zip(batch, every, strict=True)
    }
    return [found[index] for index in range(len(sources))]


def _runs_beside(checkpoint: Loaded) -> bool:
    """Whether two threads may run the model at once."""
    plain = checkpoint.device.type == "cpu" and checkpoint.packed is not None
    return plain and unhooked(checkpoint.model)


def _beside(
    searched: Callable[[Sequence[int], threading.Event], list[BeamSearch]],
    batches: Sequence[Sequence[int]],
    threads: int,
) -> list[list[BeamSearch]]:
    """Search several batches at once, each on one thread: torch's own gain little."""
    stopped = threading.Event()
    with few_threads(), ThreadPoolExecutor(threads) as pool:
        try:
            stops = itertools.repeat(stopped)
            longest_first = [*pool.map(searched, reversed(batches), stops)]
        except BaseException:
            stopped.set()  # the pool waits for its threads
            raise
    return longest_first[::-1]


def _batches(
    config: ModelConfig, sources: Sequence[Sequence[int]], beam: int, threads: int = 1
) -> list[list[int]]:
    """Group sources of similar length: their indices. All threads get some."""
    most = BATCH_TOKENS // max(2, beam)  # more would gain nothing without beams
    if threads > 1:
        share = sum(map(len, sources)) // (2 * threads)
        most = min(most, max(most // 4, share))
    batches: list[list[int]] = []
    for index in sorted(range(len(sources)), key=lambda i: len(sources[i])):
        size = len(sources[index])  # the longest so far
        full = not batches or size * (len(batches[-1]) + 1) > most
        if full or not _together(config, sources[batches[-1][0]], sources[index]):
            batches.append([])
        batches[-1].append(index)
    return batches


def _together(config: ModelConfig, first: Sequence[int], other: Sequence[int]) -> bool:
    """Whether both sentences give the same result in one batch as alone."""
    hidden = RULES[config.mask_rule].source_keys  # otherwise padding would be read
    return config.position_axis != "batch" and (hidden or len(first) == len(other))


@torch.inference_mode()
def _search(
    checkpoint: Loaded,
    sources: Sequence[Sequence[int]],
    beams: int,
    stopped: threading.Event | None = None,
    *,
    scored: bool,
) -> list[BeamSearch]:
    config, model, device = checkpoint.config, checkpoint.model, checkpoint.device
    pad, start = checkpoint.tokenizer.source_pad, checkpoint.tokenizer.bos
    ids = padded(sources, pad).to(device)  # [B, S]
    lengths = torch.tensor([len(s) for s in sources], device=device)  # [B]
    real = real_tokens(config.mask_rule, ids, pad, lengths)  # [B, S]
    mask, some = encoder_mask(config.mask_rule, real), max(1, ENCODED // ids.shape[1])
    parts = zip(ids.split(some), mask.split(some), strict=True)
    memory = torch.cat([model.encode(*part).output for part in parts])  # [B, S, D]
    limits = [checkpoint.most_tokens(len(s)) for s in sources]
    rows = DecoderRows(checkpoint, memory, real, max(limits), beams=beams)
    rules, ends = checkpoint.generation, checkpoint.ends
    given = torch.full((len(sources), 1), start)
    steps = searching(rows, given, limits, rules, ends, beams=beams, scored=scored)
    return exhausted(steps, stopped)


def exhausted(
    work: Generator[object, None, Result], stopped: threading.Event | None = None
) -> Result:
    """Do all of some work, and return its result; CancelledError if it is stopped."""
    while stopped is None or not stopped.is_set():
        try:
            next(work)
        except StopIteration as end:
            made: Result = end.value
            return made
    raise CancelledError


def search_run(
    run: ModelRun, beams: int, ends: tuple[int, ...], begun: Sequence[int] = ()
) -> Generator[WorkDone, None, BeamSearch]:
    """Search what follows the first choices of a run, of which its limit has room."""
    with few_threads():
        rows = run.beam_rows(beams)
    given, most = torch.tensor([[*run.given, *begun]]), run.limit - len(begun)
    prompt = len(run.given)
    steps = searching(rows, given, [most], run.rules, ends, beams=beams, prompt=prompt)
    for step in itertools.count(1):
        try:
            with few_threads():
                next(steps)
        except StopIteration as end:
            found: BeamSearch = end.value[0]
            break
        yield WorkDone(step, most, _("steps at most"))
    return found


@torch.inference_mode()
def searching(
    rows: BeamRows,
    given: Tensor,
    limits: Sequence[int],
    rules: Generation,
    ends: tuple[int, ...],
    *,
    beams: int,
    prompt: int = 1,
    scored: bool = True,
) -> Generator[None, None, list[BeamSearch]]:
    """Extend ``given`` [B, t] step by step, until all sentences have ended.

    Each has a limit of its own; of ``given``, ``prompt`` tokens were not generated.
    """
    consumed = given.repeat_interleave(beams, 0)  # [N, t]
    logits = rows.next(consumed)  # [N, V]
    consumed = consumed.to(device := logits.device)
    sentences = [SentenceSearch(beams, limit, rules) for limit in limits]
    going, left = sentences, torch.tensor(limits, device=device)  # [B]
    ending = torch.tensor(ends, device=device)
    sums = torch.full((len(given), beams), -math.inf, device=device)  # [B, beam]
    sums[:, 0] = 0.0  # all beams start the same: only one may branch
    for step in itertools.count():
        last = left == step + 1  # [B]
        top, parents, tokens = _candidates(
            logits, consumed, last, sums, rules, ends, prompt, scored=scored
        )  # [B, C] each
        stops = torch.isin(tokens, ending) | last[:, None]
        _collect(going, step, beams, stops, parents, tokens, top)
        order = stops.long().argsort(dim=-1, stable=True)  # what goes on comes first
        parents, tokens = parents.gather(1, order), tokens.gather(1, order)
        sums = top.masked_fill(stops, -math.inf).gather(1, order)[:, :beams]
        stops[:, beams:] = False  # these have not finished: they are dropped
        reached = top.masked_fill(stops, -math.inf).gather(1, order)
        reached[:, :beams] = sums
        kept = [x.numpy(force=True) for x in (tokens, parents, reached)]
        stay = [
            at
            for at, one in enumerate(going)
            if one.go_on(float(kept[2][at, 0]), *(x[at] for x in kept))
        ]
        if not stay:
            break
        first = beams * torch.arange(len(going), device=device)[:, None]  # its row
        before, tokens = first + parents[:, :beams], tokens[:, :beams]
        some = None
        if len(stay) < len(going):  # what has ended leaves the batch
            stay = _without_gaps(stay)
            some, going = torch.tensor(stay, device=device), [going[at] for at in stay]
            before, tokens, sums, left = (x[some] for x in (before, tokens, sums, left))
        before = before.flatten()  # [N]
        consumed = torch.cat([consumed[before], tokens.reshape(-1, 1)], 1)
        rows.keep(before, some)
        yield
        logits = rows.next(consumed)
    return [
        one.search(tuple(row), prompt, ends)
        for one, row in zip(sentences, given.tolist(), strict=True)
    ]


def _without_gaps(stay: list[int]) -> list[int]:
    """Order what stays so that few rows move: the last ones take the gaps."""
    kept, last = set(stay), reversed(stay)
    return [at if at in kept else next(last) for at in range(len(stay))]


def _candidates(
    logits: Tensor,
    consumed: Tensor,
    last: Tensor,
    sums: Tensor,
    rules: Generation,
    ends: tuple[int, ...],
    prompt: int,
    *,
    scored: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return sums, beams before and ids of the best extensions: [B, C], best first.

    Greedy search is by logits, as transformers' is; several beams are searched by the
    logarithms that the rules have changed.
    """
    count, beams = sums.shape
    # enough for all beams to continue, even if they end in every way
    most = beams * max(2, 1 + len(ends)) if scored else 1
    own = logits.log_softmax(-1) if scored else logits  # [N, V]
    scores = logits
    if rules.restricts:
        free = logits.clone() if beams == 1 else own
        at_last = last.repeat_interleave(beams)
        scores = rules.restrict(free, consumed, at_last, ends, given=prompt)
        if beams > 1:
            own = scores = scores.log_softmax(-1) if rules.renormalise else scores
    best, tokens = best_first(scores, most)  # [N, C] each
    if not scored:
        return best - best, tokens * 0, tokens  # NaN of what is not finite
    logprobs = own.gather(1, tokens).masked_fill_(best == -math.inf, -math.inf)
    total = (sums.reshape(-1, 1) + logprobs).view(count, -1)  # [B, beam C]
    if beams == 1:  # by their scores, which the rules may order otherwise than log p
        return total, tokens * 0, tokens
    top, flat = best_first(total, most)
    each = best.shape[1]
    return top, flat // each, tokens.reshape(count, -1).gather(1, flat)


def _collect(
    going: Sequence[SentenceSearch],
    step: int,
    beams: int,
    stops: Tensor,
    parents: Tensor,
    tokens: Tensor,
    top: Tensor,
) -> None:
    """Move hypotheses that have ended to the finished ones.

    Only the best ``beams`` count: the others are spares in case these all end.
    """
    for at, column in stops[:, :beams].nonzero().tolist():
        beam, id = parents[at, column], tokens[at, column]
        going[at].add(step, int(beam), int(id), float(top[at, column]))


def named(found: BeamSearch, vocabulary: Vocabulary) -> BeamSearch:
    """Return a search with its tokens, and the whole texts of what has finished."""
    ended = {one.id for one in found.finished}
    ids = [*{found.given[-1], *found.ids.flatten().tolist(), *ended}]
    begun = found.given[found.prompt :]
    lines = ([*begun, *found.line_of(one).ids] for one in found.finished)
    return replace(
        found,
        pieces=dict(zip(ids, vocabulary.pieces(ids), strict=True)),
        texts=tuple(map(vocabulary.text, lines)),
    )
