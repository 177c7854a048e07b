"""``visformer scan``: which pairs of a file a model finds unlikely, where, and why."""

from __future__ import annotations

import argparse
import json
import math
import operator
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from visformer.commands.load_options import add_checkpoint, checkpoint_paths, overrides
from visformer.commands.shared import complain, results
from visformer.errors import InputError
from visformer.files import short
from visformer.language import _, ngettext, signed
from visformer.text import visible
from visformer.values.heads_of_pairs import MEAN, HeadsOfPairs, HeadsOfSome
from visformer.values.questions import location_and_keywords
from visformer.values.scanned import (
    KINDS,
    SAMPLES,
    SORTS,
    PairLine,
    ScannedPair,
    paired_difference,
)

if TYPE_CHECKING:
    from visformer.core.models import Model

SHOWN = 20  # pairs, or heads, of a table
NUMBERS = ("fault", "worst", "mean", "coverage", "stuck", "length_ratio", "chrf")
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Condition(NamedTuple):
    """What makes the command fail: one pair for which it is true."""

    text: str
    name: str
    holds: Callable[[float, float], bool]
    limit: float

    @classmethod
    def read(cls, text: str) -> Condition:
        """Read “worst > 8”; InputError for anything else."""
        found = re.fullmatch(r"\s*(\w+)\s*(>=|<=|>|<)\s*(\d+(?:\.\d*)?)\s*", text)
        if found is None or found[1] not in NUMBERS:
            raise InputError(
                "--fail-if takes a condition such as “worst > 8”, not “{text}”: one of "
                "{names}, > or <, and a number.",
                text=text,
                names=", ".join(NUMBERS),
            )
        return cls(text.strip(), found[1], _COMPARED[found[2]], float(found[3]))

    def count(self, pairs: Sequence[ScannedPair]) -> int:
        """Return for how many pairs it is true."""
        numbers = (getattr(pair, self.name) for pair in pairs)
        return sum(one is not None and self.holds(one, self.limit) for one in numbers)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer scan``."""
    parser.add_argument(
        "file",
        help=_(
            "source, tab, reference on each line (.gz too), or sources alone, whose "
            "translations by the model are scanned; - is standard input"
        ),
    )
    add_checkpoint(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help=_("print a line of JSON per pair, sorted, at the end"),
    )
    parser.add_argument(
        "--sort",
        choices=SORTS,
        default="fault",
        help=_(
            "what comes first: fault (the default), which is the largest of the root "
            "mean square of the losses, the loss of the end, and how many tokens "
            "repeat; the worst token; the highest mean; the greatest length for its "
            "source; the least coverage; the most repetition"
        ),
    )
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help=_(
            "exit code 1 if it is true of a pair, such as 'worst > 8'; of {names}; may "
            "be repeated",
            names=", ".join(NUMBERS),
        ),
    )
    _add_comparisons(parser)
    parser.add_argument(
        "--limit", type=int, metavar="N", help=_("scan the first N pairs")
    )
    parser.add_argument(
        "--no-translations",
        action="store_true",
        help=_("translate no sources: several times as fast, without BLEU and chrF"),
    )


def _add_comparisons(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against",
        metavar="PATH",
        help=_(
            "another checkpoint: the pairs on which this one is worse and better than "
            "that come first, and a paired bootstrap tells whether they differ"
        ),
    )
    parser.add_argument(
        "--gold",
        metavar="FILE",
        help=_(
            "alignments of the pairs, i-j (sure) or ipj (possible) on each line: print "
            "which heads of the cross-attention align best, where a word is read "
            "(AWI) and where it is written (AWO)"
        ),
    )


def run(options: argparse.Namespace) -> int:
    """Scan a file; returns 1 where a condition of ``--fail-if`` is true, else 0."""
    conditions = [Condition.read(text) for text in options.fail_if]
    if options.limit is not None and options.limit < 1:
        raise InputError("--limit is {n}, but must be at least 1.", n=options.limit)
    done, others = list[ScannedPair](), dict[int, ScannedPair]()
    first = checkpoint_paths(options.checkpoint)[0]
    sentences, model = _sentences(options), _opened(options, first)
    aligned = _aligned(options, model, sentences) if options.gold else None
    try:
        for some in _scanned(options, model, sentences):
            done += some
        if options.against:
            other = _opened(options, options.against)
            for some in _scanned(options, other, sentences):
                others |= {one.line: one for one in some}
    finally:  # a scan that is stopped prints what is done
        if others:
            done = [one for one in done if one.line in others]
            done.sort(key=lambda one: sum(others[one.line].loss) - sum(one.loss))
        else:
            done.sort(key=lambda one: (SORTS[options.sort](one), one.line))
        if done:
            _print(done, others, as_json=options.json)
        if aligned is not None:
            _print_aligned(aligned, as_json=options.json)
    failed = 0
    for condition in conditions:
        if count := condition.count(done):
            failed = 1
            words = ngettext(
                "“{condition}” is true of {n:,} pair.",
                "“{condition}” is true of {n:,} pairs.",
                count,
                condition=condition.text,
            )
            complain(words)
    return failed


def _print(
    done: Sequence[ScannedPair], others: Mapping[int, ScannedPair], *, as_json: bool
) -> None:
    """Print pairs in this order, with those of another checkpoint beside them."""
    output = results()
    for one in done if as_json else ():
        row = one.to_dict()
        if others:
            row["against"] = others[one.line].to_dict()
        print(json.dumps(row, ensure_ascii=False), file=output)
    if not as_json:
        table = _compared(done, others) if others else _table(done)
        print("\n".join(map(visible, table)), file=output)
    to = sys.stderr if as_json else output
    if to is not None:
        print("\n".join(_summary(done)), file=to)
        if others:
            print(_difference(done, others), file=to)


def _sentences(options: argparse.Namespace) -> list[PairLine]:
    from visformer.core.scanning import read_sentences

    return read_sentences(Path(options.file), complain)[: options.limit]


def _opened(options: argparse.Namespace, at: str) -> Model:
    from visformer.formats.loading import load

    path, given = location_and_keywords(at, overrides(options))
    return load(path, device=options.device, **given)


def _aligned(
    options: argparse.Namespace, model: Model, pairs: Sequence[PairLine]
) -> list[dict[str, Any]]:
    """Return each head's error rates against the gold file, the best first.

    Those of the mean of a layer's heads are among them, with None for the head.
    """
    from visformer.core.corpus_heads import gold_file, heads_of_pairs

    gold = gold_file(Path(options.gold))
    found = HeadsOfPairs(path=options.file, model=model.name)
    for made in heads_of_pairs(model, pairs, [], gold=gold, only_aligned=True):
        if isinstance(made, HeadsOfSome):
            found = found.plus(made)
    for told in found.left_out:
        complain(told)
    rows = []
    for kind in [kind for kind in ("cross", MEAN) if kind in found.sums]:
        rates = [found.mean(name, kind) for name in ("awi", "awo")]
        for layer, head in np.ndindex(rates[0].shape):
            awi, awo = (round(float(each[layer, head]), 4) for each in rates)
            at_head = {"layer": layer, "head": None if kind == MEAN else head}
            if math.isfinite(awi + awo):
                rows.append({**at_head, "awi": awi, "awo": awo})
    if not rows:
        file = Path(options.gold).name
        raise InputError("{file} aligns none of the pairs.", file=short(file))
    return sorted(rows, key=lambda row: min(row["awi"], row["awo"]))


def _print_aligned(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    output = results()
    if as_json:
        print(json.dumps({"alignment": rows}), file=output)
        return
    line = "{:>6} {:>6} {:>6}  {}"
    print(line.format(_("layer"), _("head"), "AWI", "AWO"), file=output)
    for row in rows[:SHOWN]:
        head = _("mean") if row["head"] is None else row["head"] + 1
        numbers = (f"{row[name]:.3f}" for name in ("awi", "awo"))
        print(line.format(row["layer"] + 1, head, *numbers), file=output)


def _scanned(
    options: argparse.Namespace, model: Model, sentences: Sequence[PairLine]
) -> Iterator[list[ScannedPair]]:
    from visformer.core.scanning import Scan

    scan = Scan(
        model, sentences, translations=not options.no_translations, skip=complain
    )
    told = sys.stderr if sys.stderr and sys.stderr.isatty() else None
    count = 0
    try:
        for some in scan:
            if some and not count and scan.usual:
                complain(scan.usual.sentence)
            count += len(some)
            yield some
            if told:
                words = _("{done:,} of {of:,} pairs", done=count, of=len(scan))
                print(f"\r{words}", end="", file=told, flush=True)
    finally:
        if told:
            print(file=told)
    for words in scan.checked:
        complain(words)


def _table(pairs: Sequence[ScannedPair]) -> Iterator[str]:
    """Write the first pairs for people."""
    row = "{:>6} {:>6} {:>6}  {:<16} {}"
    yield row.format(_("line"), _("fault"), _("worst"), _("at"), _("kind"))
    for one in pairs[:SHOWN]:
        numbers = f"{one.fault:.2f}", f"{one.worst:.2f}"
        yield row.format(
            one.line, *numbers, one.tokens[one.worst_token], one.kind_words or "–"
        )
        yield f"       {one.source}"
        yield f"       {one.reference or one.translation}"
    if len(pairs) > SHOWN:
        yield ngettext(
            "… and {n:,} more pair (--json prints all)",
            "… and {n:,} more pairs (--json prints all)",
            len(pairs) - SHOWN,
        )


def _compared(
    pairs: Sequence[ScannedPair], others: Mapping[int, ScannedPair]
) -> Iterator[str]:
    """Write the pairs at both ends of a comparison: the first are worse than before."""
    row = "{:>6} {:>9} {:>9} {:>9}"
    yield row.format(_("line"), _("here"), _("there"), _("more"))
    half = SHOWN // 2
    ends = pairs if len(pairs) <= SHOWN else (*pairs[:half], *pairs[-half:])
    for one in ends:
        sums = sum(one.loss), sum(others[one.line].loss)
        more = signed(f"{sums[0] - sums[1]:+.2f}")
        yield row.format(one.line, *(f"{x:.2f}" for x in sums), more)
        yield f"       {one.source}"
        yield f"       {one.reference or one.translation}"


def _difference(pairs: Sequence[ScannedPair], others: Mapping[int, ScannedPair]) -> str:
    found = paired_difference(pairs, [others[one.line] for one in pairs])
    return ngettext(
        "{n:,} pair: a sentence loses {here:.2f} nats here and {there:.2f} there; 95% "
        "of {samples:,} resamples differ by {low:.2f} to {high:.2f}, p = {p:.3f}",
        "{n:,} pairs: a sentence loses {here:.2f} nats here and {there:.2f} there; 95% "
        "of {samples:,} resamples differ by {low:.2f} to {high:.2f}, p = {p:.3f}",
        found.pairs,
        here=found.losses[0],
        there=found.losses[1],
        samples=SAMPLES,
        low=found.low,
        high=found.high,
        p=found.p,
    )


def _summary(pairs: Sequence[ScannedPair]) -> Iterator[str]:
    """Say how many pairs there are of each kind, and how good the translations are."""
    losses = [loss for one in pairs for loss in one.loss]
    yield ngettext(
        "{n:,} pair, mean loss {loss:.3f} nats a token",
        "{n:,} pairs, mean loss {loss:.3f} nats a token",
        len(pairs),
        loss=sum(losses) / len(losses),
    )
    kinds = Counter(one.kind for one in pairs if one.kind)
    counts = (f"{_(KINDS[kind])}: {n:,}" for kind, n in kinds.most_common())
    yield ", ".join(counts) or _("no fault was found")
    compared = [one for one in pairs if one.translation and one.reference]
    if compared:
        from visformer.training.card import score, summary

        texts, known = zip(
            *((o.translation, [o.reference]) for o in compared), strict=True
        )
        yield summary(score(texts, known))
