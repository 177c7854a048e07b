"""What is mutated: a sound file or folder for every reader, and how it is used."""

from __future__ import annotations

import io
import pickle
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save

from tests.fuzz import mutations
from tests.fuzz.mutations import Mutation
from tests.system.formats.folders import PIECES, SPECIAL, pieces, write_letters
from tests.system.formats.hugging_face.families import own_tokenizer, write_folder
from tests.system.formats.layout_models import MAKERS, state
from tests.system.formats.test_marian import add_tokenizer, random_model
from tests.tiny_models import tiny_model
from tests.traces import make_trace
from visformer.formats.layouts.native import TokenizerFiles, write_native

BLIND = (mutations.bytes_changed, mutations.cut)


class Case(NamedTuple):
    """One file that is mutated, alone or among the others of its folder."""

    make: Callable[[Path], Path]  # writes it all, returns what is opened
    spoilt: str  # the file that is mutated: "" for what is opened itself
    mutation: Mutation  # that knows the format
    use: str  # a name of ``tests.fuzz.worker.USES``


def _native(path: Path) -> Path:
    return write_letters(path / "native")


def _pieces(path: Path) -> Path:
    folder = path / "pieces"
    model = tiny_model(source_vocabulary=PIECES, target_vocabulary=PIECES)
    name = "tokenizer.model"
    files = TokenizerFiles("sentencepiece", name, name, {name: pieces()})
    write_native(folder, model, name="pieces", special=SPECIAL, tokenizer=files)
    return folder


def _marian(path: Path) -> Path:
    folder = path / "marian"
    random_model().save_pretrained(folder)
    add_tokenizer(folder)
    return folder


def _folder(family: str, path: Path) -> Path:
    """Write a folder of transformers, with all that a newer one has."""
    folder = write_folder(path / "folder", family)
    own_tokenizer(folder).save_pretrained(folder)
    return folder


def _pieced(path: Path) -> Path:
    """Write a folder whose tokenizer is a sentencepiece model alone."""
    return write_folder(path / "folder", "T5")


def _pickled(path: Path) -> Path:
    """Write a folder of transformers whose weights are a pickle."""
    folder = write_folder(path / "folder", "GPT-2")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def _tutorial(layout: str, way: str, path: Path) -> Path:
    tensors = state(MAKERS[layout])
    file = path / f"{layout}.{'safetensors' if way == 'safetensors' else 'pt'}"
    if way == "safetensors":
        file.write_bytes(save(tensors))
    else:
        value = {"model": tensors, "epoch": 3, "config": {"num_heads": 2}}
        torch.save(value, file, _use_new_zipfile_serialization=way == "zip")
    return file


def _whole(layout: str, way: str, path: Path) -> Path:
    """Save a model whole, with a canary that any call of the system would touch."""
    model = MAKERS[layout]()
    model.load_state_dict(state(MAKERS[layout]))
    model.half()
    file = path / f"{layout}.pt"
    value = {"model": model, "words": {"<pad>": 0, "a": 1}, "epoch": 3}
    if way == "plain":
        file.write_bytes(pickle.dumps(value, 2))
    else:
        torch.save(value, file, _use_new_zipfile_serialization=way == "zip")
    return file


def _arrays(path: Path) -> Path:
    """Save NumPy's arrays with plain pickle."""
    tensors = {name: t.half().numpy() for name, t in state(MAKERS["scratch"]).items()}
    file = path / "arrays.pkl"
    words = np.array(["<pad>", "<s>", "a"])
    file.write_bytes(pickle.dumps({"model": tensors, "words": words, "n": words[0]}, 4))
    return file


def _pairs(path: Path) -> Path:
    file = path / "pairs.tsv"
    file.write_text("".join(f"one {i}\tun {i}\tmore\n" for i in range(50)))
    return file


def _trace(path: Path) -> Path:
    file = path / "run.vis"
    make_trace(source=4, target=3, layers=2).save(file)
    return file


_JSON, _TENSORS = mutations.json_changed, mutations.safetensors_changed
_PROTOCOL = mutations.protocol_buffer_changed
_TUTORIAL: dict[str, Case] = {
    f"{layout} {way}": Case(partial(_tutorial, layout, way), "", mutation, "state dict")
    for layout in ("handout", "d2l", "scratch", "torch")
    for way, mutation in (
        ("zip", mutations.archive_changed),
        ("legacy", mutations.bytes_changed),
        ("safetensors", _TENSORS),
    )
}
_BART = partial(_folder, "BART")
_FOLDERS: dict[str, Case] = {
    f"folder {what}": Case(make, file, mutation, "folder")
    for what, make, file, mutation in (
        ("config", _BART, "config.json", _JSON),
        ("generation", _BART, "generation_config.json", _JSON),
        ("tokenizer", _BART, "tokenizer.json", _JSON),
        ("settings", _BART, "tokenizer_config.json", _JSON),
        ("weights", _BART, "model.safetensors", _TENSORS),
        ("pickle", _pickled, "pytorch_model.bin", mutations.archive_changed),
        ("pieces", _pieced, "spiece.model", _PROTOCOL),
        ("prompt", partial(_folder, "Llama"), "config.json", _JSON),
        ("masks", partial(_folder, "BERT"), "config.json", _JSON),
    )
    if find_spec("transformers") is not None
}
_CHECKPOINTS: dict[str, Case] = {
    name: Case(make, file, mutation, "checkpoint")
    for name, make, file, mutation in (
        ("native config", _native, "config.json", _JSON),
        ("native weights", _native, "model.safetensors", _TENSORS),
        ("native vocabulary", _native, "vocab.json", _JSON),
        ("native pieces", _pieces, "tokenizer.model", _PROTOCOL),
        ("marian config", _marian, "config.json", _JSON),
        ("marian generation", _marian, "generation_config.json", _JSON),
        ("marian weights", _marian, "model.safetensors", _TENSORS),
        ("marian vocabulary", _marian, "vocab.json", _JSON),
        ("marian pieces", _marian, "source.spm", _PROTOCOL),
    )
}
CASES: Mapping[str, Case] = {
    **_CHECKPOINTS,
    **_TUTORIAL,
    **_FOLDERS,
    **{
        f"whole {layout} {way}": Case(
            partial(_whole, layout, way), "", mutation, "state dict"
        )
        for layout in ("scratch", "torch")
        for way, mutation in (
            ("zip", mutations.archive_changed),
            ("legacy", mutations.legacy_changed),
            ("plain", mutations.pickle_changed),
        )
    },
    "arrays": Case(_arrays, "", mutations.pickle_changed, "state dict"),
    "pairs": Case(_pairs, "", mutations.lines_changed, "pairs"),
    "trace": Case(_trace, "", mutations.bytes_changed, "trace"),
}


class Maker:
    """Writes mutants of a case, each a copy of its sound files with one spoilt."""

    def __init__(self, name: str, folder: Path) -> None:
        self.case = CASES[name]
        sound = folder / "sound"
        sound.mkdir(parents=True)
        opened = self.case.make(sound)
        self._opened, self._sound = opened.relative_to(sound), sound
        spoilt = opened / self.case.spoilt if self.case.spoilt else opened
        self._spoilt = spoilt.relative_to(sound)
        self._data = spoilt.read_bytes()
        self._folder = folder

    def write(self, seed: str) -> Path:
        """Write the mutant of a seed; return the path to open."""
        draw = Random(seed)
        knowing = draw.random() < 0.7
        mutation = self.case.mutation if knowing else draw.choice(BLIND)
        target = self._folder / "mutant"
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(self._sound, target)
        (target / self._spoilt).write_bytes(mutation(self._data, draw))
        return target / self._opened

    def sound(self) -> Path:
        """Return the path of the sound files."""
        return self._sound / self._opened


def printed(value: object) -> str:
    """Return an odd value for a terminal."""
    out = io.StringIO()
    print(value, file=out, end="")
    return out.getvalue().encode("ascii", "backslashreplace").decode()
