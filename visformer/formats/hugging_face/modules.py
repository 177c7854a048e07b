"""From a config and tensors to a transformers module and its task.

The library is imported when needed, kept quiet, and its errors are explained. Nothing
is downloaded and no code from a folder runs: every call uses ``local_files_only`` and
never ``trust_remote_code``.
"""

import contextlib
import importlib
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from visformer.errors import CheckpointError, VisformerError, is_memory
from visformer.files import listed, short
from visformer.formats.hugging_face.folder_files import CONFIG
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


FolderTask = Literal["seq2seq", "prompt", "masks", "reading"]
_MAPPINGS: dict[FolderTask, str] = {  # task -> transformers' table of classes
    "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "masks": "MODEL_FOR_MASKED_LM_MAPPING",
    "prompt": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "reading": "MODEL_MAPPING",
}
# also for encoders of encoder-decoder models
_ENCODERS: tuple[FolderTask, str] = "reading", "MODEL_FOR_TEXT_ENCODING_MAPPING"
_DECODER = re.compile(r"(\w+\.)?decoder\.(block|layers)\.")
_JUDGES = ("Classification", "QuestionAnswering", "MultipleChoice")  # predict no token
_IDS = "input_ids"
_OWN_WAYS = ("xlnet", "xlm", "flaubert", "reformer")  # generate in ways of their own


class LoadedModule(NamedTuple):
    """A module with the folder's weights."""

    module: nn.Module
    task: FolderTask
    unused: tuple[str, ...]  # tensors of the file that the module does not use


def config_of(config: Mapping[str, Any]) -> Any:
    """Return transformers' own config; CheckpointError for an unknown model type."""
    transformers = library()
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        raise CheckpointError(
            "{file} describes a model of type “{kind}”, which the installed "
            "transformers {version} does not know.",
            file=CONFIG,
            kind=short(str(kind)),
            version=transformers.__version__,
        )
    return transformers.CONFIG_MAPPING[kind].from_dict(dict(config))


def load_module(config: Any, tensors: Mapping[str, Tensor], name: str) -> LoadedModule:
    """Return the float32 module for a config, with these weights.

    ``name`` is that of the weight file. Raises CheckpointError for missing tensors, and
    for a model that neither translates, continues nor reads text.
    """
    missing: list[str] = []
    for task, table, made in _classes(config):
        module, info = made.from_pretrained(
            None,
            config=config,
            state_dict=dict(tensors),
            dtype=torch.float32,
            attn_implementation="eager",
            local_files_only=True,
            output_loading_info=True,
        )
        unused = tuple(sorted(info["unexpected_keys"]))
        lacking = sorted(info["missing_keys"])
        if task == "reading" and getattr(module, "pooler", None) is not None:
            module.pooler = None  # it is not shown, and many files lack it
            lacking = [key for key in lacking if not key.startswith("pooler.")]
        encoder_alone = (task, table) == _ENCODERS
        if not lacking and not (encoder_alone and any(map(_DECODER.match, tensors))):
            return LoadedModule(module.eval(), task, unused)
        missing = missing or lacking
    if not missing:
        raise not_of_text(config)
    raise CheckpointError(
        "{file} lacks tensors that its config asks for: {names}. Download or save it "
        "again.",
        file=short(name),
        names=listed(missing, room=70),
    )


def not_of_text(config: Any) -> CheckpointError:
    """Return the error for a model whose input is not only ids."""
    return CheckpointError(
        "{file} describes a “{kind}”, which ids of tokens alone do not run. Load it "
        "with transformers and call visformer.watch(model)(…) with its inputs.",
        file=CONFIG,
        kind=short(str(config.model_type)),
    )


def _classes(config: Any) -> Iterator[tuple[FolderTask, str, Any]]:
    """Yield a model's possible tasks, the likeliest first, with table and class."""
    wanted = [(task, _MAPPINGS[task]) for task in _tasks(config)]
    for task, table in (*wanted, _ENCODERS):
        mapping = getattr(library(), table)
        if type(config) in mapping:
            found = mapping[type(config)]
            made = found[0] if isinstance(found, tuple) else found
            if made.main_input_name == _IDS:
                yield task, table, made


def _tasks(config: Any) -> Iterator[FolderTask]:
    names = [str(name) for name in getattr(config, "architectures", None) or ()]
    if config.is_encoder_decoder:
        yield "seq2seq"
        return
    causal = any(name.endswith(("CausalLM", "LMHeadModel")) for name in names)
    judges = any(name.endswith(_JUDGES) for name in names)
    if not causal and not judges and not getattr(config, "is_decoder", False):
        yield "masks"
    if not judges and config.model_type not in _OWN_WAYS:
        yield "prompt"
    if not causal or config.model_type in _OWN_WAYS:
        yield "reading"
