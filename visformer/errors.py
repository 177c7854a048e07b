"""The errors that reach a user, each one plain sentence that says what to do."""

import contextlib
import re
import traceback
from collections.abc import Iterator

from visformer.language import _

MOST_CHARACTERS = 200  # of a sentence that is shown
_SENTENCE = re.compile(r"[.!?] (?=[A-Z“])")
_LONG_WORD = re.compile(r"\S{41,}")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|“[^”]*”")


class VisformerError(Exception):
    """Base of every error whose text is meant for the user.

    The sentence is a template of the catalogue with its ``{fields}``, or a text that
    is already translated. Long values are cut, so that it has at most 200 characters.
    """

    def __init__(self, sentence: str = "", /, **fields: object) -> None:
        super().__init__(brief(sentence and _(sentence, **fields)))


class CheckpointError(VisformerError):
    """A checkpoint cannot be opened: says what is wrong or missing."""


class InputError(VisformerError):
    """Something the user typed, chose or passed cannot be used as it is."""


def is_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out, on the CPU or on a device."""
    words = str(error)
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and ("out of memory" in words or "allocate memory" in words)
    )


@contextlib.contextmanager
def refusing(sentence: str) -> Iterator[None]:
    """Turn whatever an untrusted tokenizer raises into an InputError.

    That includes a panic of a Rust library, which is not an Exception.
    """
    try:
        yield
    except (VisformerError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise InputError(sentence) from error


def brief(sentence: str) -> str:
    """Return a sentence with at most 200 characters: its long values are cut first."""
    if len(sentence) <= MOST_CHARACTERS:
        return sentence
    words = _LONG_WORD.sub(lambda word: f"{word[0][:24]}…{word[0][-12:]}", sentence)
    if len(words) <= MOST_CHARACTERS:
        return words
    ends = [match.end() for match in _SENTENCE.finditer(words)]
    advice = next((words[at:] for at in ends if len(words) - at < 140), words[-77:])
    room = MOST_CHARACTERS - len(advice) - 3
    start = words[: len(words) - len(advice)][:room].rpartition(" ")[0]
    return f"{start} … {advice}"  # what is wrong, and, whole, what to do


def stack_words(error: BaseException) -> str:
    """Return where an unexpected error was raised, for a log.

    What its message quotes is left out: it may be of the user's text.
    """
    stack = "".join(traceback.format_tb(error.__traceback__))
    message = brief(_QUOTED.sub("“…”", str(error)))
    return f"{stack}{type(error).__name__}: {message}"
