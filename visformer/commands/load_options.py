"""The checkpoint that a command opens, and what its file does not say: load's keywords.

Sentences name them as ``values.questions.keyword`` writes them.
"""

import argparse
import json
from collections.abc import Sequence

from visformer import paths
from visformer.errors import InputError
from visformer.language import _
from visformer.values.questions import (
    IGNORE,
    NAMES,
    OTHER,
    PLAIN,
    RENAME,
    TARGET_TOKENIZER,
    Overrides,
    Value,
)

_PAIRS = {"rename": RENAME, "names": NAMES}  # option -> prefix of its overrides


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the options for the model, its device and what its file does not say."""
    parser.add_argument(
        "--checkpoint",
        nargs="+",
        metavar="PATH",
        help=_(
            "checkpoint folder or file, a bundled model's name, or an encoder's and a "
            "decoder's file (default: tatoeba-en-fr)"
        ),
    )
    add_device(parser)
    add_overrides(parser)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option for the device."""
    parser.add_argument(
        "--device", help=_("cpu, cuda or mps (default: the best available)")
    )


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add the keywords of ``load`` for a model that another program has trained."""
    group = parser.add_argument_group(
        _("what the checkpoint of another program may not say")
    )
    group.add_argument(
        "--layout", help=_("layout (default: recognised by the tensors)")
    )
    group.add_argument("--heads", type=int, help=_("number of heads of each attention"))
    group.add_argument("--pad", type=int, help=_("id of the padding token"))
    group.add_argument("--bos", type=int, help=_("id that starts the target"))
    group.add_argument("--eos", type=int, help=_("id that ends a sentence"))
    group.add_argument(
        "--tokenizer",
        nargs="+",
        metavar="FILE",
        help=_("vocabulary or sentencepiece model, or one for each side"),
    )
    _add_names(group)
    group.add_argument(
        "--pairs",
        metavar="FILE",
        help=_(
            "reference pairs (source, tab, target): heads and rules that nothing says "
            "are those under which they are likeliest; “inspect” lists others"
        ),
    )
    group.add_argument(
        "--weights",
        metavar="NAME",
        help=_("which of several sets of weights in the file, such as “ema”"),
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=_(
            "any other setting of the model, such as norm_first=true or max_len=100; "
            "may be repeated"
        ),
    )


def _add_names(group: argparse._ArgumentGroup) -> None:
    """Add what renames tensors, or leaves them out."""
    group.add_argument(
        "--rename",
        nargs=2,
        action="append",
        default=[],
        metavar=("PATTERN", "REPLACEMENT"),
        help=_(
            "give the tensors whose names match a regular expression other names; may "
            "be repeated"
        ),
    )
    group.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="PATTERN",
        help=_("leave out the tensors whose names match; may be repeated"),
    )
    group.add_argument(
        "--names",
        nargs=2,
        action="append",
        default=[],
        metavar=("PART", "TENSOR"),
        help=_(
            "which tensor is the source_embedding, target_embedding, output or "
            "positions; may be repeated"
        ),
    )


def overrides(options: argparse.Namespace) -> Overrides:
    """Return the keywords of ``load`` that were given, and the second file if any."""
    made: dict[str, Value] = {
        name: value for name in PLAIN if (value := getattr(options, name)) is not None
    }
    files = options.tokenizer or []
    if len(files) > 2:
        raise InputError("--tokenizer takes one file, or two: source and target.")
    made |= dict(zip(("tokenizer", TARGET_TOKENIZER), files, strict=False))
    for option, prefix in _PAIRS.items():
        made |= {f"{prefix}{first}": then for first, then in getattr(options, option)}
    made |= {f"{IGNORE}{pattern}": True for pattern in options.ignore}
    made |= dict(map(_setting, options.set))
    given = options.path if hasattr(options, "path") else options.checkpoint
    made |= zip((OTHER,), checkpoint_paths(given)[1:], strict=False)
    return tuple(made.items())


def _setting(text: str) -> tuple[str, Value]:
    """Read NAME=VALUE; InputError if it is none."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals and value):
        raise InputError(
            "--set takes NAME=VALUE, such as norm_first=true, not “{text}”.", text=text
        )
    try:
        read = json.loads(value.lower())
    except (ValueError, RecursionError):
        read = value
    return name, read if isinstance(read, bool | int | float) else value


def checkpoint_paths(given: Sequence[str] | None) -> Sequence[str]:
    """Return where the given checkpoint lies, at least one path: else the default one.

    Raises InputError for more than two.
    """
    if not given:
        return [str(paths.checkpoint())]
    if len(given) > 2:
        raise InputError(
            "Give one checkpoint, or two files: the encoder's and the decoder's."
        )
    return [str(paths.model(one)) for one in given]
