"""Models that Visformer cannot open, recognised by the names of their tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from visformer.errors import CheckpointError
from visformer.files import exists, short
from visformer.language import N_, _

_URL = re.compile(r"(https?|hf):/{1,2}(?:huggingface\.co/|hf\.co/)?(.*)", re.IGNORECASE)
_HUB = re.compile(r"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)")
_RECURRENT = N_("a recurrent network")
_KNOWN = {  # what it is -> a pattern that matches names only in such files
    "T5": r"(en|de)coder\.block\.\d+\.layer\.\d+\.(Self|EncDec)Attention\.",
    N_("BERT, an encoder without a decoder"): r"\.layer\.\d+\.attention\.self\.query\.",
    N_("DistilBERT, an encoder without a decoder"): r"layer\.\d+\.attention\.q_lin\.",
    N_("GPT, a decoder without an encoder"): (
        r"(^|\.)h\.\d+\.(attn|attention|self_attention)\.|gpt_neox\.layers\."
    ),
    N_("a language model like Llama, a decoder without an encoder"): (
        r"^(model\.)?layers\.\d+\.self_attn\.(q_proj|qkv_proj)\."
    ),
    "Whisper": r"encoder\.conv1\.",
    N_("BART or mBART"): r"(en|de)coder\.layernorm_embedding\.",
    N_(
        "NLLB, M2M100 or another relative of Marian"
    ): r"^model\.(en|de)coder\.layer_norm\.",
    "OpenNMT": r"make_embedding\.emb_luts\.|\.(self_attn|context_attn)\.linear_keys\.",
    "fairseq": (
        r"^(en|de)coder\.(version$|embed_positions\._float_tensor$|layers\.\d+\."
        r"(self_attn_layer_norm|encoder_attn_layer_norm|layer_norms|encoder_attn)\.)"
    ),
    "JoeyNMT": r"\.(trg_trg_att|src_trg_att|src_src_att)\.[kqv]_layer\.",
    "The Annotated Transformer": r"\.self_attn\.linears\.\d\.",
    N_("a vision Transformer"): r"blocks\.\d+\.attn\.qkv\.|patch_embed",
    _RECURRENT: r"\.weight_(ih|hh)_l\d|\.bias_ih_l\d",
}


def foreign(names: Iterable[str]) -> str:
    """Name the kind of model that has these tensors; "" if it is not recognised."""
    every = list(names)
    for what, pattern in _KNOWN.items():
        if any(map(re.compile(pattern).search, every)):
            return _(what)
    return ""


_TRANSFORMERS = ("T5", "BERT", "DistilBERT", "GPT", "Llama", "BART", "NLLB")
_FILES: dict[str, tuple[bytes, int, str]] = {  # what it is -> first bytes, where, how
    "GGUF": (b"GGUF", 0, ".gguf"),
    "ONNX": (b"", 0, ".onnx"),
    "TensorFlow Lite": (b"TFL3", 4, ".tflite"),
    "Keras": (b"\x89HDF", 0, ".h5"),
    "Keras 3": (b"", 0, ".keras"),
    "TensorFlow": (b"", 0, ".pb"),
    "NumPy": (b"", 0, ".npz"),
}


def way_in(what: str) -> str:
    """Say the shortest way to see a model whose files are not read."""
    if what.startswith(_(_RECURRENT)):
        return _("It has no attention to show.")
    if any(name in what for name in _TRANSFORMERS):
        return _("Open the whole folder that transformers wrote, with its config.json.")
    return _("Load it in its own program and give the model to visformer.wrap.")


def refuse_other_programs(start: bytes, name: str) -> None:
    """Raise CheckpointError for the file of a program other than PyTorch.

    ``start`` are its first bytes, ``name`` its name.
    """
    for what, (magic, at, ending) in _FILES.items():
        told = magic and start[at : at + len(magic)] == magic
        if told or (ending and name.lower().endswith(ending)):
            raise CheckpointError(
                _(
                    "{file} is a file of {program}, which is not read. If the model "
                    "exists in PyTorch, load it there and give it to visformer.wrap.",
                    file=name,
                    program=what,
                )
            )


def remote_words(path: str) -> str:
    """Say how to get a model that is named by an address, or as the Hub names it.

    Returns "" for what looks like a path here. Nothing is downloaded.
    """
    url = _URL.match(path)
    ours = url is not None and re.search(r"//?(huggingface|hf)\.co/|^hf:", path)
    hub = _HUB.fullmatch(path) if url is None else _HUB.match(url[2]) if ours else None
    if hub is not None and (url is not None or not exists(Path(hub[1]))):
        return _(
            "“{id}” is on the Hugging Face Hub, and nothing is downloaded here. Run "
            "“hf download {id} --local-dir {name}” and open that folder.",
            id=short(f"{hub[1]}/{hub[2]}"),
            name=short(hub[2], 24),
        )
    if url is None:
        return ""
    return _(
        "“{url}” is an address, and nothing is downloaded here. Download it, then open "
        "the file or folder.",
        url=short(path),
    )


def supported() -> str:
    """Say in one sentence which models Visformer opens."""
    return _(
        "Visformer opens its own folders and those of transformers, and models of "
        "torch.nn.Transformer and the five tutorials."
    )
