"""State on disk that a kill at any moment leaves whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from visformer.errors import InputError


def partial_path(path: Path) -> Path:
    """Return where a file is written before it takes its name."""
    return path.with_name(path.name + ".part")


def replace_file(path: Path, state: dict[str, Any]) -> None:
    """Write ``state`` so that a kill leaves the old file or the new one."""
    partial = partial_path(path)
    try:
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error


def read_file(path: Path) -> dict[str, Any]:
    """Read a state that ``replace_file`` wrote, to the CPU; InputError if damaged."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # some 13 types come out of torch.load
        raise InputError(
            f"{path} is damaged: delete it to begin anew, or restore a copy."
        ) from error
    if not isinstance(state, dict):
        raise InputError(f"{path} is no training state: choose another folder.")
    return state
