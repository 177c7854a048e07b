"""Operations that take functions, as flex_attention: done by their parts if we can."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from visformer.errors import stack_words

log = logging.getLogger(__name__)


def done_by_parts(
    mode: TorchDispatchMode, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return what an operation gives, computed so that ``mode`` sees all of it.

    None where there is no such way, or not in this version of torch.
    """
    parts = _parts_of(name)
    if parts is None:
        return None
    try:
        with mode:
            return parts(*args, **kwargs)
    except Exception as error:
        log.debug("%s: %s", name, stack_words(error))
        return None


def _parts_of(name: str) -> Callable[..., Any] | None:
    if name != "flex_attention":
        return None
    try:  # what flex_attention itself does on a CPU, with plain operations
        from torch._higher_order_ops.flex_attention import sdpa_dense
    except ImportError:
        return None
    found: Callable[..., Any] = sdpa_dense
    return found
