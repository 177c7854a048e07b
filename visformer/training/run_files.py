"""State on disk that stays intact if the process is killed at any moment."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from visformer.errors import InputError
from visformer.files import write_whole
from visformer.language import _


def replace_file(path: Path, state: dict[str, Any]) -> None:
    """Write ``state`` so that a kill leaves the old file or the new one."""
    made = io.BytesIO()  # torch raises errors of its own where a file takes no more
    torch.save(state, made)
    try:
        write_whole(path, made.getbuffer())
    except OSError as error:
        raise InputError(
            _("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
        ) from error


def read_file(path: Path) -> dict[str, Any]:
    """Read a state that ``replace_file`` wrote, to the CPU; InputError if damaged."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises about 13 different types
        raise InputError(
            _(
                "{path} is damaged. Delete it to start again, or restore a copy.",
                path=path,
            )
        ) from error
    if not isinstance(state, dict):
        raise InputError(
            _("{path} is not a training state. Choose another folder.", path=path)
        )
    return state
