"""Scan pairs of sentences: which reference does a model find unlikely, where, and why.

The loss finds a faulty pair; how much attention each source token gets in all tells
what was left out (Guerreiro et al. 2023; coverage as in Wu et al. 2016, section 7).
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from visformer.analysis.attention_summary import glued_tokens
from visformer.arguments import as_path, is_several, wrong_type
from visformer.core.check import checking
from visformer.core.loaded import Loaded
from visformer.core.long_work import announced
from visformer.core.mask_rules import RULES, padded
from visformer.core.model import work
from visformer.core.models import Model, SourceTokens, bundled, opened
from visformer.core.modified import LayeredMasks
from visformer.core.parts import Projections, split_heads, weights_by_blocks
from visformer.core.passes import allowed_masks
from visformer.core.rows import host
from visformer.core.threads import few_threads
from visformer.core.translation import cut_notice
from visformer.errors import InputError
from visformer.files import not_a_pair, pair_lines
from visformer.language import _
from visformer.values.arrays import Floats
from visformer.values.intervention import NO_CHANGES
from visformer.values.pieces import is_punctuation, marks_of, word_groups
from visformer.values.scanned import (
    ENDS_EARLY,
    UNREAD,
    Calibration,
    PairLine,
    ScannedPair,
    Uncovered,
    body_loss,
    kind_of,
    repeats,
)

log = logging.getLogger(__name__)
TOGETHER = 512  # pairs that are sorted by length and translated together
MOST_WORK = 1 << 32  # multiplications by weights in a pass: it is soon stopped
SAMPLE = 48  # pairs in which faults are planted
LEAST = 1e-6  # attention, before its logarithm is taken
Skip = Callable[[str], None]  # told which line is left out, and why


class IdPair(NamedTuple):
    """A pair as ids."""

    source: SourceTokens
    target: list[int]  # what ends it included


class Forced(NamedTuple):
    """What a pass shows of a row."""

    loss: list[float]  # [T], nats
    attention: list[Floats]  # of each layer asked for, mean over the heads, [T, S]


class Scan:
    """Pairs to scan: iterate over it for lists of ``ScannedPair``, as they are done.

    Lists are empty at first, until ``usual`` says what the file's own pairs are like.
    Either all have a reference, or none: then the model's own translations are scanned.
    Pairs that cannot be scanned are told to ``skip``. Raises InputError for a model
    without cross-attention; iterating does where no pair can be scanned.
    """

    usual: Calibration | None = None
    checked: tuple[str, ...] = ()  # what is wrong with the pair of the largest fault

    def __init__(
        self,
        model: Model,
        sentences: Sequence[PairLine],
        *,
        translations: bool = True,
        checks: bool = True,
        skip: Skip = lambda _told: None,
    ) -> None:
        if "cross" not in model.facts.kinds:
            raise InputError(
                "“{name}” has no cross-attention: a scan needs an encoder and a "
                "decoder that reads it.",
                name=model.name,
            )
        self._model, self._skip, self._translates = model, skip, translations
        self._checks = checks
        self._own = all(one.reference is None for one in sentences)
        self._counts: Counter[int] = Counter()  # of the source tokens
        self._known = [*sentences]

    def __len__(self) -> int:
        """Return how many pairs are scanned, as far as that is known."""
        return len(self._known)

    def __iter__(self) -> Iterator[list[ScannedPair]]:
        known: list[PairLine] = []
        for at, one in enumerate(self._known):
            if self._row(one) is not None:
                known.append(one)
            if at % TOGETHER == TOGETHER - 1:
                yield []
        if not known:
            raise InputError("None of the pairs can be scanned.")
        self._known = known
        self.usual = usual = yield from self._calibrated()
        worst: tuple[ScannedPair, IdPair] | None = None
        rest = iter(known)
        while some := [*islice(rest, TOGETHER)]:
            rows = self._rows(some)
            for at_once in batches(self._model, rows):
                taken = [rows[at] for at in at_once]
                done = forced(self._model, taken, [usual.layer])
                texts = self._translations(taken)
                made = []
                for at, seen, text in zip(at_once, done, texts, strict=True):
                    pair = self._scanned(some[at], rows[at], seen, text, usual)
                    if pair is not None:
                        made.append(pair)
                        if worst is None or pair.fault > worst[0].fault:
                            worst = pair, rows[at]
                yield made
        if worst is not None and self._checks:
            yield from self._checking(*worst)

    def _checking(
        self, pair: ScannedPair, row: IdPair
    ) -> Generator[list[ScannedPair], None, None]:
        """Run the table of checks on a pair."""
        given = self._model.begin(row.source, NO_CHANGES, len(row.target)).given
        consumed = [*given, *row.target[:-1]]
        checks = checking(self._model, row.source, NO_CHANGES, consumed)
        results, line = (yield from announced(checks, list[ScannedPair]())), pair.line
        faults = [one for one in results if one.verdict == "fault"]
        self.checked = tuple(
            _(
                "Line {n} fails the check “{check}”: {what}",
                n=line,
                check=one.title,
                what=one.what,
            )
            for one in faults
        ) or (_("No check fails on line {n}, the pair of the largest fault.", n=line),)

    def _row(self, sentence: PairLine) -> IdPair | None:
        """Return a pair as ids, counted; None, and told, where it does not fit."""
        vocabulary = self._model.vocabulary
        try:
            source = vocabulary.read(sentence.source)
            if source.cut_from:
                said = cut_notice(source.cut_from, len(source.ids), source.text)
                raise InputError(said)
            target = []
            if sentence.reference is not None:
                target = vocabulary.reference(sentence.reference)
                most = self._model.begin(source, NO_CHANGES, len(target)).limit
                if len(target) > most:
                    raise InputError(
                        "There are {n:,} target tokens, but at most {most:,} are "
                        "allowed.",
                        n=len(target),
                        most=most,
                    )
        except InputError as error:
            self._leave_out(sentence, str(error))
            return None
        self._counts.update(source.ids)
        return IdPair(source, target)

    def _leave_out(self, sentence: PairLine, why: str) -> None:
        self._skip(_("Line {n} is left out: {why}", n=sentence.line, why=why))

    def _rows(self, sentences: Sequence[PairLine]) -> list[IdPair]:
        """Return pairs as ids; references that are missing are the model's own."""
        vocabulary = self._model.vocabulary
        sources = [vocabulary.read(one.source) for one in sentences]
        if self._own:
            found = self._model.search(sources, 1, scored=False)
            targets = [one.best for one in found]
        else:
            targets = [vocabulary.reference(one.reference or "") for one in sentences]
        return [IdPair(*row) for row in zip(sources, targets, strict=True)]

    def _calibrated(self) -> Generator[list[ScannedPair], None, Calibration]:
        """Plant faults in some pairs, and see how those differ from the pairs."""
        model, count = self._model, min(SAMPLE, len(self._known))
        places = np.linspace(0, len(self._known) - 1, count).astype(int)
        rows = self._rows([self._known[at] for at in places])
        targets = [row.target for row in rows]
        others = [*targets[count // 2 :], *targets[: count // 2]]
        halves = [halved(target, model.ends) for target in targets]
        layers = range(model.facts.layers("cross"))
        sound = yield from self._tried(rows, targets, layers)
        usual = [loss for loss in self._bodies(sound) if math.isfinite(loss)]
        if not usual:
            raise InputError(
                "The losses of these pairs are not finite (NaN or infinity). Ask "
                "“visformer inspect --check” what is wrong with the model."
            )
        wrong = yield from self._tried(rows, others, ())
        short = yield from self._tried(rows, halves, layers)
        tells = [
            auroc(*(_coverages(of, at, model.ends) for of in (sound, short)))
            for at in layers
        ]
        layer = max(layers, key=tells.__getitem__)
        return Calibration(
            layer=layer,
            layers=len(layers),
            auroc=tells[layer],
            pairs=count,
            loss=float(np.quantile(usual, 0.25)),
            wrong_loss=float(np.median(self._bodies(wrong))),
            ratio=float(np.median([len(r.target) / len(r.source.ids) for r in rows])),
        )

    def _bodies(self, tried: Sequence[tuple[IdPair, Forced]]) -> list[float]:
        ends = self._model.ends
        return [body_loss(one.loss, row.target[-1] in ends) for row, one in tried]

    def _tried(
        self,
        rows: Sequence[IdPair],
        targets: Sequence[list[int]],
        layers: Sequence[int],
    ) -> Generator[list[ScannedPair], None, list[tuple[IdPair, Forced]]]:
        """Return sources with other targets, and what passes show of them."""
        rows = [IdPair(row.source, ids) for row, ids in zip(rows, targets, strict=True)]
        tried: list[tuple[IdPair, Forced]] = []
        for at in batches(self._model, rows):
            some = [rows[i] for i in at]
            tried += zip(some, forced(self._model, some, layers), strict=True)
            yield []
        return tried

    def _translations(self, rows: Sequence[IdPair]) -> list[str]:
        """Return the translation of each source; "" where none is asked for."""
        text = self._model.vocabulary.text
        if self._own:
            return [text(row.target) for row in rows]
        if not self._translates:
            return [""] * len(rows)
        sources = [row.source for row in rows]
        found = self._model.search(sources, 1, scored=False)
        return [text(made.best) for made in found]

    def _scanned(
        self,
        sentence: PairLine,
        row: IdPair,
        found: Forced,
        translation: str,
        usual: Calibration,
    ) -> ScannedPair | None:
        loss, (attention,) = found.loss, found.attention
        if not np.isfinite(loss).all():
            why = _("The loss of its tokens is not finite (NaN or infinity).")
            self._leave_out(sentence, why)
            return None
        model, (source, target) = self._model, row
        ends, reference = target[-1] in model.ends, sentence.reference or ""
        read = incoming(row, attention, model.ends)
        early = ends and loss[-1] > ENDS_EARLY
        stuck = max(0, repeats(target) - repeats(source.ids))
        squares = sum(one * one for one in loss) / len(loss)
        pair = ScannedPair(
            line=sentence.line,
            source=sentence.source,
            reference=reference,
            tokens=tuple(model.vocabulary.pieces(target)),
            loss=tuple(loss),
            fault=max(math.sqrt(squares), loss[-1] if ends else 0.0, stuck),
            mean=sum(loss) / len(loss),
            worst=max(loss),
            worst_token=max(range(len(loss)), key=loss.__getitem__),
            coverage=covered(read),
            uncovered=uncovered(model, source, read, at_least_one=early),
            stuck=stuck,
            length_ratio=len(target) / len(source.ids),
            rarest=min(self._counts[id] for id in source.ids),
            translation=translation,
            chrf=chrf(translation, reference) if reference and translation else None,
            kind=None,
        )
        return replace(pair, kind=kind_of(pair, usual, ends))


# ---- passes --------------------------------------------------------------------------


def batches(model: Model, rows: Sequence[IdPair]) -> list[list[int]]:
    """Group rows by length, as indices: a pass has so many target tokens at most."""
    most, groups = 0, list[list[int]]()
    if isinstance(model, Loaded) and _pads(model):
        most = MOST_WORK // max(1, model.facts.parameters)
    sizes = [max(len(row.target), len(row.source.ids)) for row in rows]
    for at in sorted(range(len(rows)), key=sizes.__getitem__):
        if not groups or sizes[at] * (len(groups[-1]) + 1) > most:
            groups.append([])
        groups[-1].append(at)
    return groups


def _pads(model: Loaded) -> bool:
    """Whether a row of a batch is what it is alone."""
    config = model.config
    return config.position_axis != "batch" and RULES[config.mask_rule].source_keys


def forced(model: Model, rows: Sequence[IdPair], layers: Sequence[int]) -> list[Forced]:
    """Feed each reference (teacher forcing): losses, and cross-attention of layers.

    Rows of a native model are one padded pass; another model reads one at a time.
    """
    if isinstance(model, Loaded):
        return _native(model, rows, layers)
    return [_alone(model, row, layers) for row in rows]


@torch.inference_mode()
def _native(
    model: Loaded, rows: Sequence[IdPair], layers: Sequence[int]
) -> list[Forced]:
    tokenizer, rule = model.tokenizer, RULES[model.config.mask_rule]
    fed = [[tokenizer.bos, *row.target[:-1]] for row in rows]
    sides = (
        padded([row.source.ids for row in rows], tokenizer.source_pad),
        padded(fed, tokenizer.pad),
        padded([row.target for row in rows], 0),
    )
    source, target, wanted = (ids.to(model.device) for ids in sides)
    lengths = [len(row.source.ids) for row in rows] if rule.by_length else None
    allowed = allowed_masks(model, source, target, lengths, {}, NO_CHANGES)
    size = max(source.shape[1], target.shape[1])
    with few_threads(work(model.model, size, len(rows))):
        memory = model.model.encode(source, allowed.encoder).output  # [B, S, D]
        made = model.model.decode(target, memory, allowed.decoder, allowed.cross)
        logits = model.model.output(made.output).flatten(0, 1)  # [B T, V]
        loss = cross_entropy(logits.float(), wanted.flatten(), reduction="none")
        losses = loss.view(wanted.shape).tolist()
        attention = [_weights(model, made.cross[at], allowed, at) for at in layers]
    return [
        Forced(losses[b][:t], [one[b, :t, :s] for one in attention])
        for b, (s, t) in enumerate((len(r.source.ids), len(r.target)) for r in rows)
    ]


def _weights(
    model: Loaded, projections: Projections, allowed: LayeredMasks, layer: int
) -> Floats:
    """Return a layer's weights, the mean over its heads: [B, T, S]."""
    config, mask = model.config, allowed.cross
    mask = mask if isinstance(mask, Tensor) else mask[layer]
    q, k = (split_heads(x, config.heads) for x in projections[:2])  # [B, H, ., d]
    blocks = weights_by_blocks(q, k, mask, config.masked_value)
    return host(torch.cat([block.mean(1) for block in blocks], 1))


def _alone(model: Model, row: IdPair, layers: Sequence[int]) -> Forced:
    run = model.begin(row.source, NO_CHANGES, len(row.target))
    consumed, length = [*run.given, *row.target[:-1]], len(row.target)
    reached, following = run.to(consumed, fed=True)
    logits = following.logits[-length:]  # [T, V]
    loss = cross_entropy(logits, torch.tensor(row.target), reduction="none")
    trace = reached.trace((), len(consumed))
    kept = [trace.attention("cross", at).mean(0)[-length:] for at in layers]
    return Forced(loss.tolist(), kept)


# ---- planted faults ------------------------------------------------------------------


def halved(target: list[int], ends: tuple[int, ...]) -> list[int]:
    """Return a target without the second half of what precedes its end."""
    end = [id for id in target[-1:] if id in ends]
    words = target[: len(target) - len(end)]
    return [*words[: max(1, len(words) // 2)], *end]


def _coverages(
    tried: Sequence[tuple[IdPair, Forced]], layer: int, ends: tuple[int, ...]
) -> list[float]:
    return [covered(incoming(r, f.attention[layer], ends)) for r, f in tried]


def auroc(sound: Sequence[float], faulty: Sequence[float]) -> float:
    """Return how often a faulty one is below a sound one; ties count half."""
    below, above = np.array(faulty)[:, None], np.array(sound)  # [F, 1], [S]
    # of a padded batch and of a row alone the same number differs by rounding
    ties = np.isclose(below, above, rtol=1e-5, atol=0)
    return float(np.where(ties, 0.5, below < above).mean())


# ---- what the source tokens get ------------------------------------------------------


def incoming(row: IdPair, attention: Floats, ends: tuple[int, ...]) -> dict[int, float]:
    """Return the attention that each source token of the text gets, by its index.

    That of the row that ends the sentence does not count.
    """
    rows = attention[: max(1, len(attention) - (row.target[-1] in ends))]
    got, source = rows.sum(0, dtype=np.float64).tolist(), row.source  # [S]
    told = [start < end for start, end in source.spans]
    told = told or [id not in ends for id in source.ids]
    return {at: got[at] for at, counts in enumerate(told) if counts}


def covered(read: dict[int, float]) -> float:
    """Return the geometric mean of what the tokens get, at most 1 each."""
    logs = [math.log(min(1.0, max(LEAST, one))) for one in read.values()]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def chrf(translation: str, reference: str) -> float | None:
    """Return sacrebleu's chrF of a translation, 0 to 100; None where that is not."""
    try:
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return None
    return float(CHRF().sentence_score(translation, [reference]).score)


def uncovered(
    model: Model, source: SourceTokens, read: dict[int, float], *, at_least_one: bool
) -> tuple[Uncovered, ...]:
    """Return the words that get little attention, neighbours joined."""
    spans = source.spans or [one.span() for one in re.finditer(r"\S+", source.text)]
    if len(spans) != len(source.ids):
        return ()  # nobody knows where the tokens stand in the text
    tokens = source.tokens or tuple(model.vocabulary.pieces(source.ids))
    marks = marks_of(tokens)
    special = [at for at in range(len(tokens)) if at not in read]
    glued = glued_tokens(tokens, spans, source.text)
    words = {
        group: sum(read[at] for at in group)
        for group in word_groups(tokens, special, glued)
        if all(at in read for at in group)
        and not all(is_punctuation(tokens[at], marks) for at in group)
    }
    most = max(UNREAD, min(words.values(), default=0)) if at_least_one else UNREAD
    found: list[tuple[int, int]] = []
    for group in (group for group, got in words.items() if got <= most):
        start, end = spans[group[0]][0], spans[group[-1]][1]
        if found and not source.text[found[-1][1] : start].strip():
            start = found.pop()[0]
        found.append((start, end))
    return tuple(Uncovered(*at, source.text[slice(*at)].strip()) for at in found)


# ---- files and lists -----------------------------------------------------------------


def read_sentences(path: Path, skip: Skip) -> list[PairLine]:
    """Read a file of pairs, or of sources alone; “-” is standard input.

    Lines that are none are told to ``skip``. Raises InputError for what is no file, and
    where no line can be used.
    """
    found = []
    for line, pair in pair_lines(path):
        if isinstance(pair, InputError):
            skip(str(pair))
        else:
            found.append(PairLine(line, pair.source, pair.target or None))
    known = [one for one in found if one.reference is not None]
    for one in found if known else ():
        if one.reference is None:
            skip(str(not_a_pair(one.line, path.name)))
    if not found:
        raise InputError("{file} has no pair that can be read.", file=path.name)
    return known or found


def scan(
    checkpoint: Model | str | Path | None,
    pairs: str | Path | Iterable[tuple[str, str]] | Iterable[str],
    *,
    translations: bool = True,
) -> list[ScannedPair]:
    """Scan pairs of a source and its reference: which does a model find unlikely.

    Returns them in order. ``pairs`` are those, or the path of a file that the command
    ``visformer scan`` reads; sources alone have the model's own translations as
    references. Without a checkpoint (None), by the bundled English-French model.
    Without ``translations`` no source is translated, which is several times as fast. A
    pair that cannot be scanned is left out, with a warning in the log. Raises
    InputError where none can be, for a model without cross-attention, and where the
    model's numbers are not finite.
    """
    model = bundled() if checkpoint is None else opened(checkpoint)
    if isinstance(pairs, str | Path):
        sentences = read_sentences(as_path("pairs", pairs), log.warning)
    else:
        sentences = _sentences(pairs)
    made = Scan(
        model, sentences, translations=translations, checks=False, skip=log.warning
    )
    return sorted((one for some in made for one in some), key=lambda one: one.line)


def _sentences(pairs: Iterable[Any]) -> list[PairLine]:
    """Return pairs, or sources, as lines from 1; TypeError for anything else."""
    allowed = _("a path, pairs of texts, or texts")
    given = [*pairs] if is_several(pairs) else []
    alone = all(isinstance(one, str) for one in given)
    for one in given:
        texts = one if isinstance(one, tuple | list) else ()
        if not alone and [type(text) for text in texts] != [str, str]:
            raise wrong_type("pairs", one, allowed)
    if not given:
        raise wrong_type("pairs", pairs, allowed)
    return [
        PairLine(line, *((one, None) if alone else one))
        for line, one in enumerate(given, 1)
    ]
