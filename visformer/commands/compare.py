"""``visformer compare``: how two checkpoints, or two recorded runs, differ."""

import argparse
import json
import math
from collections.abc import Iterator

from visformer.analysis.run_comparison import RunComparison
from visformer.api import compare
from visformer.commands.inspect import strict
from visformer.commands.load_options import add_device
from visformer.commands.shared import check_text, results
from visformer.language import _
from visformer.pictures.comparison import comparison_words
from visformer.text import visible
from visformer.words import KIND_NAMES, decimals, layer_words


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer compare``."""
    what = _("checkpoint folder or file, or a recorded run (*.vis)")
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("b", metavar="B", help=what)
    parser.add_argument("--text", help=_("the sentence that the checkpoints translate"))
    parser.add_argument(
        "--reference",
        help=_(
            "a translation whose log p is compared token by token (default: what A "
            "wrote)"
        ),
    )
    parser.add_argument(
        "--by",
        choices=("characters", "position"),
        default="characters",
        help=_(
            "how source tokens are aligned where they differ (default: %(default)s)"
        ),
    )
    add_device(parser)
    parser.add_argument("--json", action="store_true", help=_("print JSON"))


def run(options: argparse.Namespace) -> int:
    """Print how they differ; returns 0 where they are equal, else 1."""
    output = results()
    if options.text is not None:
        check_text(options.text)
    found = compare(
        options.a,
        options.b,
        text=options.text,
        reference=options.reference or None,
        by=options.by,
        device=options.device,
    )
    if options.json:
        plain = strict(found.plain())
        print(json.dumps(plain, ensure_ascii=False, indent=2), file=output)
    else:
        print("\n".join(_lines(found)), file=output)
    return 0 if found.equal else 1


def _lines(found: RunComparison) -> Iterator[str]:
    for name, text in zip(found.names, found.texts, strict=True):
        yield f"{visible(name)}: {visible(text)}"
    yield from ("", *comparison_words(found))
    if found.reference:
        yield from ("", _("reference, log p in nats:"))
    for token in found.reference:
        one, other = (_log_p(value) for value in token.log_p)
        yield f"{one:>9} {other:>9}  {visible(' '.join(token.tokens))}"
    for kind, grid in found.divergences.items():
        kinds = _(KIND_NAMES[kind])
        yield from ("", _("{kind} attention, bits by layer and head:", kind=kinds))
        for layer, heads in enumerate(grid.tolist()):
            numbers = " ".join(f"{decimals(one, 4):>7}" for one in heads)
            yield f"  {layer_words(layer)}: {numbers}"


def _log_p(value: float) -> str:
    return _("unknown") if math.isnan(value) else decimals(value, 3)
