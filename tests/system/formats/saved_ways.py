"""Writers of files, each as a student's program would save its model."""

from __future__ import annotations

import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tests.system.formats import layout_models as models
from tests.system.formats.layout_models import MAKERS, SOURCE, TARGET, WIDTH, state

Opened = Any  # a path, two paths, or what is in memory
Writer = Callable[[Path], Opened]


class Vocab:
    """A student's own vocabulary."""

    def __init__(self, tokens: list[str]) -> None:
        self.itos = tokens
        self.stoi = {token: id for id, token in enumerate(tokens)}


@dataclass
class Settings:
    """A student's own settings."""

    num_heads: int = 2
    dropout: float = 0.1


class Pair(nn.Module):
    """A program around torch's encoder and decoder, with learned positions."""

    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        sizes = {"dim_feedforward": 12, "batch_first": True}
        self.src_emb = nn.Embedding(SOURCE, WIDTH)
        self.tgt_emb = nn.Embedding(TARGET, WIDTH)
        self.src_pos = nn.Embedding(20, WIDTH)
        self.tgt_pos = nn.Embedding(20, WIDTH)
        with warnings.catch_warnings(action="ignore"):
            encoder = nn.TransformerEncoderLayer(WIDTH, 2, **sizes)  # type: ignore
            decoder = nn.TransformerDecoderLayer(WIDTH, 2, **sizes)  # type: ignore
            self.encoder = nn.TransformerEncoder(encoder, 2)
            self.decoder = nn.TransformerDecoder(decoder, 2)
        self.fc_out = nn.Linear(WIDTH, TARGET)
        if tied:
            self.fc_out.weight = self.tgt_emb.weight


def module(layout: str) -> nn.Module:
    made = MAKERS[layout]()
    made.load_state_dict(state(MAKERS[layout]))
    return made


def tokens(size: int) -> list[str]:
    return ["<pad>", "<sos>", "<eos>", "<unk>", *(f"w{i}" for i in range(4, size))]


def ids(size: int) -> dict[str, int]:
    return {token: id for id, token in enumerate(tokens(size))}


def kept(value: Any, name: str = "model.pt", **options: Any) -> Writer:
    """Save a value, or what a function makes of a state dict."""

    def write(folder: Path) -> Path:
        made = value() if callable(value) else value
        torch.save(made, folder / name, **options)
        return folder / name

    return write


def sd(layout: str = "scratch") -> dict[str, Tensor]:
    return state(MAKERS[layout])


def under(prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in sd().items()}


def renamed(*changes: tuple[str, str], layout: str = "scratch") -> dict[str, Tensor]:
    made = {}
    for name, tensor in sd(layout).items():
        for old, new in changes:
            name = name.replace(old, new)
        made[name] = tensor
    return made


def adam() -> dict[str, Any]:
    parameters = [nn.Parameter(torch.ones(8))]
    return torch.optim.Adam(parameters).state_dict()


def half(layout: str, part: str) -> dict[str, Tensor]:
    start = f"{part}."
    inside = {k: t for k, t in sd(layout).items() if k.startswith(start)}
    return {k.removeprefix(start): t for k, t in inside.items()}


def two_files(layout: str) -> Writer:
    def write(folder: Path) -> tuple[Path, Path]:
        for part in ("encoder", "decoder"):
            torch.save(half(layout, part), folder / f"{part}.pt")
        return folder / "encoder.pt", folder / "decoder.pt"

    return write


def beside(name: str, data: str | bytes, **more: str) -> Writer:
    """Save a state dict, and another file in its folder."""

    def write(folder: Path) -> Path:
        torch.save(sd(), folder / "model.pt")
        for other, text in {name: data, **more}.items():
            data_ = text.encode() if isinstance(text, str) else text
            (folder / other).write_bytes(data_)
        return folder / "model.pt"

    return write


def raw(name: str, data: bytes) -> Writer:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return write


def safe(**options: Any) -> Writer:
    def write(folder: Path) -> Path:
        save_file(sd(), folder / "model.safetensors", **options)
        return folder / "model.safetensors"

    return write


def folder_of(*names: str) -> Writer:
    def write(folder: Path) -> Path:
        inside = folder / "run"
        inside.mkdir()
        for name in names:
            if name.endswith(".safetensors"):
                save_file(sd(), inside / name)
            elif name.startswith(("optimizer", "scheduler", "training_args", "rng")):
                torch.save({"optimizer": adam()}, inside / name)
            else:
                torch.save(sd(), inside / name)
        return inside

    return write


def pickled(value: Callable[[], Any], protocol: int | None = None) -> Writer:
    def write(folder: Path) -> Path:
        (folder / "model.pkl").write_bytes(pickle.dumps(value(), protocol))
        return folder / "model.pkl"

    return write


def scripted(folder: Path) -> Path:
    with warnings.catch_warnings(action="ignore"):
        torch.jit.script(nn.Linear(2, 2)).save(str(folder / "model.pt"))
    return folder / "model.pt"


def archived(folder: Path) -> Path:
    torch.save(sd(), folder / "model.pt")
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "model.pt", "model.pt")
    return folder / "a.zip"


def tarred(folder: Path) -> Path:
    torch.save(sd(), folder / "model.pt")
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        archive.add(folder / "model.pt", "model.pt")
    return folder / "a.tar.gz"


def npz(folder: Path) -> Path:
    arrays = {name: tensor.numpy() for name, tensor in sd().items()}
    np.savez(folder / "model.npz", **arrays)  # type: ignore[arg-type]
    return folder / "model.npz"


def averaged() -> dict[str, Tensor]:
    return {"n_averaged": torch.tensor(4), **under("module.")}


def bare() -> nn.Module:
    with warnings.catch_warnings(action="ignore"):
        inner = nn.Transformer(WIDTH, 2, 2, 2, 12, batch_first=True, bias=False)
    return models.tree(
        src=nn.Embedding(SOURCE, WIDTH),
        tgt=nn.Embedding(TARGET, WIDTH),
        transformer=inner,
        out=nn.Linear(WIDTH, TARGET, bias=False),
    )
