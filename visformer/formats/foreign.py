"""Models that Visformer cannot open, recognised by the names of their tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from visformer.errors import CheckpointError
from visformer.file_kinds import DISTRIBUTED, IN_PYTORCH
from visformer.files import exists, short
from visformer.language import N_, _

if TYPE_CHECKING:
    from torch import Tensor

_URL = re.compile(r"(https?|hf):/{1,2}(?:huggingface\.co/|hf\.co/)?(.*)", re.IGNORECASE)
_HUB = re.compile(r"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)")
_WHOLE = "torch.int8", "torch.uint8"
_RECURRENT = N_("a recurrent network")
_ATTENTION = re.compile(r"att", re.IGNORECASE)
_KNOWN: dict[str, tuple[str, ...]] = {  # kind of model -> patterns of required names
    "T5": (r"(en|de)coder\.block\.\d+\.layer\.\d+\.(Self|EncDec)Attention\.",),
    "BERT": (r"\.layer\.\d+\.attention\.self\.query\.",),
    "DistilBERT": (r"layer\.\d+\.attention\.q_lin\.",),
    "GPT": (r"(^|\.)h\.\d+\.(attn|attention|self_attention)\.|gpt_neox\.layers\.",),
    N_("Llama or a relative"): (
        r"^(model\.)?layers\.\d+\.self_attn\.(q_proj|qkv_proj)\.",
    ),
    "Whisper": (r"encoder\.conv2\.", r"encoder\.(blocks|layers)\.\d+\.(self_)?attn\."),
    N_("BART or mBART"): (r"(en|de)coder\.layernorm_embedding\.",),
    N_("NLLB, M2M100 or another relative of Marian"): (
        r"^model\.(en|de)coder\.layer_norm\.",
        r"^model\.decoder\.layers\.\d+\.encoder_attn\.k_proj\.",
    ),
    "OpenNMT": (
        r"make_embedding\.emb_luts\.|\.(self_attn|context_attn)\.linear_keys\.",
    ),
    "fairseq": (
        r"^(en|de)coder\.(version$|embed_positions\._float_tensor$|layers\.\d+\."
        r"(self_attn_layer_norm|encoder_attn_layer_norm|layer_norms|encoder_attn)\.)",
        r"^(en|de)coder\.(layers\.\d+\.\w+\.([kqv]_proj\.|in_proj_|out_proj\.)|version$)",
    ),
    "JoeyNMT": (r"\.(trg_trg_att|src_trg_att|src_src_att)\.[kqv]_layer\.",),
    "The Annotated Transformer": (r"\.self_attn\.linears\.\d\.",),
    N_("a vision Transformer"): (r"patch_embed",),
    _RECURRENT: (r"(^|\.)(weight|bias)_(ih|hh)_l\d",),
}


def foreign(names: Iterable[str]) -> str:
    """Name the kind of model that has these tensors; "" if it is not recognised."""
    every = list(names)
    for what, patterns in _KNOWN.items():
        if what == _RECURRENT and any(map(_ATTENTION.search, every)):
            continue
        if all(any(map(re.compile(one).search, every)) for one in patterns):
            return _(what)
    return ""


_TRANSFORMERS = ("T5", "BERT", "DistilBERT", "GPT", "Llama", "BART", "NLLB")
_ADAPTER = N_(
    "{name} is an adapter without its base model. Load both with peft, call "
    "merge_and_unload(), save the result with save_pretrained and open that folder."
)
_QUANTISED = N_(
    "{name} holds quantised weights, which are not read. Open the unquantised model, "
    "or load it in its own program and call visformer.watch(model)(…)."
)
_ADAPTED = re.compile(r"\.(lora_(A|B|embedding|magnitude)|hada_w|ia3_l|prompt_encoder)")
_PACKED = re.compile(
    r"(^|\.)(zero_point|qweight|qzeros|absmax|quant_map|SCB|weight_scale)$"
)
# files in a folder -> what it is, or the program that wrote it
_FOLDERS: dict[str, str] = {
    "adapter_config.json": _ADAPTER,
    "*.distcp": DISTRIBUTED,
    "_CHECKPOINT_METADATA": "orbax",
    "manifest.ocdbt": "orbax",
    "saved_model.pb": "TensorFlow",
    "*.ckpt*.index": "TensorFlow",
    "tf_model.h5": "TensorFlow",
    "flax_model.msgpack": "Flax",
    "*.onnx": "ONNX",
    "*.gguf": "GGUF",
    "model_index.json": "diffusers",
    "*.mlmodel": "Core ML",
}


def way_in(what: str = "", *, held: bool = False) -> str:
    """Suggest the shortest way to see a model that cannot be opened."""
    if what == _(_RECURRENT):
        return _("None of its tensors is called attention.")
    if held:
        return _("Call visformer.watch(model)(…), or visformer.wrap to type into it.")
    if any(name in what for name in _TRANSFORMERS):
        return _(
            "Open the folder that has its config.json, or load it yourself and call "
            "visformer.watch(model)(…)."
        )
    return _("Load it yourself and call visformer.watch(model)(…) or visformer.wrap.")


def refuse_other_folders(folder: Path) -> None:
    """Raise CheckpointError for a folder written by another program."""
    name = short(folder.resolve().name)
    for pattern, what in _FOLDERS.items():
        if next(folder.glob(pattern), None) is not None:
            known = what in (_ADAPTER, DISTRIBUTED)
            words = what if known else IN_PYTORCH
            raise CheckpointError(words, name=name, program=what)


def refuse_other_tensors(
    tensors: Mapping[str, Tensor], name: str, *, held: bool
) -> None:
    """Raise CheckpointError for tensors of a model that cannot be opened."""
    if any(map(_ADAPTED.search, tensors)):
        raise CheckpointError(_ADAPTER, name=name)
    whole = any(t.dim() > 1 and str(t.dtype) in _WHOLE for t in tensors.values())
    if whole or any(map(_PACKED.search, tensors)):
        raise CheckpointError(_QUANTISED, name=name)
    if what := foreign(tensors):
        told = _(
            "{name} has the tensor names of {model}, which is not read. {way}",
            name=name,
            model=what,
            way=way_in(what, held=held),
        )
        raise CheckpointError(told.strip())


def remote_words(path: str) -> str:
    """Say how to download what does not exist here, if it is a URL or a name a/b.

    Returns "" for anything that looks like a local path. Nothing is downloaded.
    """
    url = _URL.match(path)
    ours = url is not None and re.search(r"//?(huggingface|hf)\.co/|^hf:", path)
    hub = _HUB.fullmatch(path) if url is None else _HUB.match(url[2]) if ours else None
    if hub is not None and (url is not None or not exists(Path(hub[1]))):
        return _(
            "“{id}” does not exist. If it is on the Hugging Face Hub, download it with "
            "“hf download {id} --local-dir {name}”.",
            id=short(f"{hub[1]}/{hub[2]}", 40),
            name=short(hub[2], 20),
        )
    if url is None:
        return ""
    return _(
        "“{url}” is an address, and nothing is downloaded here. Download it, then open "
        "the file or folder.",
        url=short(path),
    )
