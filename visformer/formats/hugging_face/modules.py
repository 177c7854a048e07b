"""From a config and tensors to a module of transformers, and what it is made for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from visformer.errors import CheckpointError
from visformer.files import listed, short
from visformer.formats.hugging_face.folder_files import CONFIG
from visformer.formats.hugging_face.library import library
from visformer.language import _

FolderTask = Literal["seq2seq", "prompt", "masks", "reading"]
_MAPPINGS: dict[FolderTask, str] = {  # how it is used -> the table of classes
    "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "masks": "MODEL_FOR_MASKED_LM_MAPPING",
    "prompt": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "reading": "MODEL_MAPPING",
}


_OWN_WAYS = ("xlnet", "xlm", "flaubert", "reformer")  # to go on, step by step


class LoadedModule(NamedTuple):
    """A module with the folder's weights."""

    module: nn.Module
    task: FolderTask
    unused: tuple[str, ...]  # tensors of the file that the module has no place for


def config_of(config: Mapping[str, Any]) -> Any:
    """Return transformers' own config; CheckpointError for a type it does not know."""
    transformers = library()
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        raise CheckpointError(
            _(
                "{file} describes a model of type “{kind}”, which the installed "
                "transformers {version} does not know.",
                file=CONFIG,
                kind=short(str(kind)),
                version=transformers.__version__,
            )
        )
    return transformers.CONFIG_MAPPING[kind].from_dict(dict(config))


def load_module(config: Any, tensors: Mapping[str, Tensor], name: str) -> LoadedModule:
    """Return the module that a config asks for, with these weights, in float32.

    ``name`` is that of the weights' file. Raises CheckpointError for tensors that are
    missing, and for a model that neither translates, continues nor reads text.
    """
    missing: list[str] = []
    for task in _tasks(config):
        mapping = getattr(library(), _MAPPINGS[task])
        if type(config) not in mapping:
            continue
        made = mapping[type(config)]
        made = made[0] if isinstance(made, tuple) else made
        module, info = made.from_pretrained(
            None,
            config=config,
            state_dict=dict(tensors),
            dtype=torch.float32,
            attn_implementation="eager",
            local_files_only=True,
            output_loading_info=True,
        )
        if not info["missing_keys"]:
            unused = tuple(sorted(info["unexpected_keys"]))
            return LoadedModule(module.eval(), task, unused)
        missing = missing or sorted(info["missing_keys"])
    if not missing:
        raise CheckpointError(
            _(
                "{file} describes a model of type “{kind}”, which neither writes nor "
                "reads text. Load it yourself and give it to visformer.watch.",
                file=CONFIG,
                kind=short(str(config.model_type)),
            )
        )
    raise CheckpointError(
        _(
            "{file} lacks tensors that its config asks for: {names}. Download or "
            "save it again.",
            file=short(name),
            names=listed(missing, room=70),
        )
    )


def _tasks(config: Any) -> Iterator[FolderTask]:
    """Yield what a model may be used for, the likeliest first."""
    if config.is_encoder_decoder:
        yield "seq2seq"
        return
    names = getattr(config, "architectures", None) or ()
    causal = any(str(name).endswith(("CausalLM", "LMHeadModel")) for name in names)
    if not causal and not getattr(config, "is_decoder", False):
        yield "masks"
    if config.model_type not in _OWN_WAYS:
        yield "prompt"
    if not causal or config.model_type in _OWN_WAYS:
        yield "reading"
