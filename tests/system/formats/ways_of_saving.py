"""Students' ways of saving a model, and what becomes of each file.

``python -m tests.system.formats.ways_of_saving OUT.md`` writes the list.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn

from tests.system.formats.layout_models import MAKERS, SOURCE, TARGET
from tests.system.formats.saved_ways import (
    Pair,
    Settings,
    Vocab,
    Writer,
    adam,
    archived,
    averaged,
    bare,
    beside,
    folder_of,
    half,
    ids,
    kept,
    module,
    npz,
    pickled,
    raw,
    renamed,
    safe,
    scripted,
    sd,
    tarred,
    tokens,
    two_files,
    under,
)
from visformer.errors import VisformerError
from visformer.formats.loading import checkpoint_files, load

OPTIONAL = {"tokenizer", "target_tokenizer", "pairs"}


class Outcome(NamedTuple):
    """What became of a file."""

    what: str  # at once, asked or refused
    questions: int  # of its form, without the optional ones
    needed: int  # of them, those without a default
    words: str  # a refusal, or what was found


LAYOUTS_SAVED: dict[str, Writer] = {
    f"state_dict of the {layout} layout": kept(lambda layout=layout: sd(layout))
    for layout in MAKERS
}
WRAPPED: dict[str, Writer] = {
    "{model, optimizer, epoch}": kept(
        lambda: {"model": sd(), "optimizer": adam(), "epoch": 3}
    ),
    "{model_state_dict, optimizer_state_dict, loss}": kept(
        lambda: {"model_state_dict": sd(), "optimizer_state_dict": adam(), "loss": 0.5}
    ),
    "{state_dict}": kept(lambda: {"state_dict": sd()}),
    "{net}": kept(lambda: {"net": sd(), "best": True}),
    "[state_dict, optimizer]": kept(lambda: [sd(), adam()]),
    "(epoch, state_dict)": kept(lambda: (3, sd())),
    "DataParallel": kept(lambda: under("module.")),
    "torch.compile": kept(lambda: under("_orig_mod.")),
    "DataParallel of torch.compile": kept(lambda: under("module._orig_mod.")),
    "Lightning": kept(
        lambda: {
            "state_dict": under("model."),
            "hyper_parameters": {"n_head": 2},
            "pytorch-lightning_version": "2.4",
        },
        "last.ckpt",
    ),
    "Lightning with an object of settings": kept(
        lambda: {"state_dict": under("model."), "hyper_parameters": Settings()},
        "last.ckpt",
    ),
    "DeepSpeed": kept(lambda: {"module": sd(), "dp_world_size": 1}, "mp_rank_00.pt"),
    "an average beside (EMA)": kept(lambda: {"model": sd(), "ema": sd()}),
    "AveragedModel (SWA)": kept(averaged),
    "a Namespace beside": kept(lambda: {"model": sd(), "args": Namespace(n_head=2)}),
    "a dict of settings beside": kept(
        lambda: {"model": sd(), "config": {"model": {"num_heads": 2}}}
    ),
    "a dataclass of settings beside": kept(
        lambda: {"model": sd(), "config": Settings()}
    ),
    "a lambda beside": kept(
        lambda: {"model": sd(), "device": torch.device("cpu"), "type": torch.float32}
    ),
}
FORMATS: dict[str, Writer] = {
    "safetensors": safe(),
    "safetensors with metadata": safe(metadata={"format": "pt"}),
    "float16": kept(lambda: {k: t.half() for k, t in sd().items()}),
    "bfloat16": kept(lambda: {k: t.bfloat16() for k, t in sd().items()}),
    "float64": kept(lambda: {k: t.double() for k, t in sd().items()}),
    "torch before 1.6": kept(sd, _use_new_zipfile_serialization=False),
    "pickle_protocol=4": kept(sd, pickle_protocol=4),
    "pickle_protocol=5, named .bin": kept(sd, "model.bin", pickle_protocol=5),
    "requires_grad parameters": kept(
        lambda: OrderedDict((k, nn.Parameter(t)) for k, t in sd().items())
    ),
    "pickle.dump(state_dict)": pickled(sd),
    "pickle.dump(arrays of numpy)": pickled(
        lambda: {name: tensor.numpy() for name, tensor in sd().items()}
    ),
    "numpy.savez": npz,
    "TorchScript": scripted,
    "an archive .zip": archived,
    "an archive .tar.gz": tarred,
}
WHOLE: dict[str, Writer] = {
    "torch.save(model)": kept(lambda: module("scratch")),
    "torch.save(model), torch.nn.Transformer inside": kept(lambda: module("torch")),
    "torch.save(model), before 1.6": kept(
        lambda: module("scratch"), _use_new_zipfile_serialization=False
    ),
    "torch.save(model.half())": kept(lambda: module("scratch").half()),
    "torch.save(DataParallel(model))": kept(lambda: nn.DataParallel(module("scratch"))),
    "{model: model, vocab: objects}": kept(
        lambda: {
            "model": module("scratch"),
            "src_vocab": Vocab(tokens(SOURCE)),
            "tgt_vocab": Vocab(tokens(TARGET)),
        }
    ),
    "pickle.dump(model)": pickled(lambda: module("scratch")),
    "pickle.dump(model, protocol=2)": pickled(lambda: module("scratch"), 2),
    "a module in memory": lambda _folder: module("scratch"),
    "a state dict in memory": lambda _folder: sd(),
}
PARTS: dict[str, Writer] = {
    "two files (d2l)": two_files("d2l"),
    "two files (modular)": two_files("modular"),
    "one half alone": lambda folder: two_files("modular")(folder)[0],
    "{encoder, decoder}": kept(
        lambda: {part: half("d2l", part) for part in ("encoder", "decoder")}
    ),
    "{encoder_state_dict, decoder_state_dict}": kept(
        lambda: {f"{p}_state_dict": half("d2l", p) for p in ("encoder", "decoder")}
    ),
    "another name of a projection": kept(lambda: renamed(("W_q", "query_proj"))),
    "other names of the stacks": kept(
        lambda: renamed(("encoder_layers", "enc"), ("decoder_layers", "dec"))
    ),
    "other names of everything": kept(
        lambda: renamed(
            *(("encoder_layers", "enc"), ("decoder_layers", "dec")),
            *(("self_attn", "attn"), ("cross_attn", "enc_attn"), ("W_", "")),
            *(("feed_forward", "mlp"), ("norm", "ln"), ("fc_out", "head")),
            *(("encoder_embedding", "src_emb"), ("decoder_embedding", "tgt_emb")),
        )
    ),
    "a surplus tensor": kept(lambda: {**sd(), "extra.weight": torch.ones(3)}),
    "a missing tensor": kept(
        lambda: {k: t for k, t in sd().items() if k != "fc_out.bias"}
    ),
    "inside a larger program": kept(lambda: under("net.transformer.")),
    "hyunwoongko/transformer": kept(
        lambda: renamed(
            *(("mha1.", "self_attention."), ("mha2.", "enc_dec_attention.")),
            *(("mha.", "attention."), (".ln", ".norm"), (".fc.", ".w_concat.")),
            ("ffn.fc", "ffn.linear"),
            layout="modular",
        )
    ),
    "The Annotated Transformer": kept(
        lambda: {"encoder.layers.0.self_attn.linears.0.weight": torch.ones(8, 8)}
    ),
    "fairseq": kept(
        lambda: {
            "model": {"encoder.layers.0.self_attn_layer_norm.weight": torch.ones(8)},
            "args": Namespace(arch="transformer"),
        }
    ),
    "torch.nn.Transformer(bias=False)": kept(lambda: bare().state_dict()),
    "torch's encoder and decoder, learned positions": kept(lambda: Pair().state_dict()),
    "the same, tied output": kept(lambda: Pair(tied=True).state_dict()),
    "the same, saved whole": kept(Pair),
    "only an optimizer": kept(lambda: {"optimizer": adam()}),
}
AROUND: dict[str, Writer] = {
    "config.json beside": beside("config.json", json.dumps({"num_heads": 2})),
    "config.yaml beside": beside("config.yaml", "num_heads: 2\n"),
    "dicts of tokens in the file": kept(
        lambda: {"model": sd(), "src_vocab": ids(SOURCE), "tgt_vocab": ids(TARGET)}
    ),
    "word2idx in the file": kept(
        lambda: {
            "model": sd(),
            "src": {"word2idx": ids(SOURCE)},
            "tgt": {"word2idx": ids(TARGET)},
        }
    ),
    "vocab.json beside": beside(
        "src_vocab.json",
        json.dumps(ids(SOURCE)),
        **{"tgt_vocab.json": json.dumps(ids(TARGET))},
    ),
    "vocab.txt beside": beside(
        "src_vocab.txt",
        "\n".join(tokens(SOURCE)),
        **{"tgt_vocab.txt": "\n".join(tokens(TARGET))},
    ),
    "a pickled Vocab beside, of one side": beside(
        "src_vocab.pkl", pickle.dumps(Vocab(tokens(SOURCE)))
    ),
    "a folder with one file": folder_of("model.safetensors"),
    "a folder of a Trainer": folder_of(
        "model.safetensors", "optimizer.pt", "scheduler.pt", "training_args.bin"
    ),
    "a folder with several epochs": folder_of("epoch1.pt", "epoch2.pt"),
    "an ONNX file": raw("model.onnx", b"\x08\x07" + bytes(40)),
    "a GGUF file": raw("model.gguf", b"GGUF" + bytes(40)),
    "a web page": raw("model.pt", b"<!DOCTYPE html><html>404</html>"),
    "a Git LFS pointer": raw("model.pt", b"version https://git-lfs.github.com/spec/v1"),
    "a Hub id": lambda _folder: "Helsinki-NLP/opus-mt-en-fr",
}
WAYS_OF_SAVING: Mapping[str, Writer] = MappingProxyType(
    {**LAYOUTS_SAVED, **WRAPPED, **FORMATS, **WHOLE, **PARTS, **AROUND}
)


def outcome(write: Writer, folder: Path) -> Outcome:
    """Open what a way of saving has written, as a person would."""
    what = write(folder)
    try:
        made = load(what, device="cpu")
        return Outcome("at once", 0, 0, _found(made))
    except VisformerError as error:
        words = str(error)
    if not isinstance(what, str | Path | tuple):
        return Outcome("refused", 0, 0, words)
    path, other = (what[0], what[1]) if isinstance(what, tuple) else (what, None)
    given: list[tuple[str, Any]] = [] if other is None else [("other", str(other))]
    try:
        form = checkpoint_files(str(path), tuple(given)).questionnaire()
        if form is None:
            return Outcome("refused", 0, 0, words)
        asked = [q for q in form.questions if q.name not in OPTIONAL]
        needed = [q for q in asked if q.mandatory and q.default is None]
        given += [(q.name, q.default) for q in asked if q.mandatory and q not in needed]
        if needed:
            return Outcome("asked", len(asked), len(needed), words)
        made = checkpoint_files(str(path), (*given, ("heads", 2))).load(
            torch.device("cpu")
        )
        return Outcome("asked", len(asked), 0, _found(made))
    except VisformerError as error:
        return Outcome("refused", 0, 0, str(error))


def _found(made: Any) -> str:
    kind = made.tokenizer.source.kind
    words = "" if kind == "number" else f", vocabulary of {kind}s"
    return f"{made.layout}, {made.config.heads} heads{words}"


def main() -> None:
    """Write the list as a table."""
    lines = ["| way of saving | outcome | |", "|---|---|---|"]
    counts: dict[str, int] = {}
    for name, write in WAYS_OF_SAVING.items():
        with tempfile.TemporaryDirectory() as folder:
            made = outcome(write, Path(folder))
        counts[made.what] = counts.get(made.what, 0) + 1
        told = made.what
        if made.what == "asked":
            told = f"asked: {made.questions} questions, {made.needed} without a default"
        lines.append(f"| {name} | {told} | {made.words} |")
    total = ", ".join(f"{count} {what}" for what, count in counts.items())
    text = "\n".join([f"{len(WAYS_OF_SAVING)} ways: {total}.", "", *lines, ""])
    Path(sys.argv[1]).write_text(text)


if __name__ == "__main__":
    main()
