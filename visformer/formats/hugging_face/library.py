"""Import transformers when needed, keep it quiet and explain its errors.

Nothing is downloaded and no code from a folder runs: every call uses
``local_files_only`` and never ``trust_remote_code``.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from visformer.errors import CheckpointError, VisformerError, is_memory
from visformer.files import short
from visformer.language import N_
from visformer.text import clean

COMMAND = 'pip install "visformer[hf]"'


def library(name: str = "transformers") -> Any:
    """Import a module of the extra; CheckpointError names the command that installs it.

    Warnings during the import are silenced.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        bundled = N_(
            "This folder is opened with the library “{name}”, which the bundle leaves "
            "out. Install Visformer with pip and its extra “hf”, as README says."
        )
        missing = N_(
            "This folder is opened with the library “{name}”, which is not installed. "
            "Run {command}."
        )
        raise CheckpointError(
            bundled if hasattr(sys, "frozen") else missing,
            name=name.partition(".")[0],
            command=COMMAND,
        ) from error


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """Keep transformers quiet, and turn its exceptions into one sentence about a file.

    Its logging level and progress bars are restored afterwards.
    """
    logging = library("transformers.utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (VisformerError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a Rust panic is not an Exception
        if is_memory(error):
            raise
        raise CheckpointError(
            "{name} cannot be opened by transformers: {error}. Download or save it "
            "again.",
            name=name,
            error=_first_words(error),
        ) from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _first_words(error: BaseException) -> str:
    words = " ".join(clean(str(error)).split())
    return short(f"{type(error).__name__}: {words}".rstrip(". :"), 90)
