"""The fast path of torch.nn, off while watching, and what it would have given."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules import module as of_all_modules
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.hooks import RemovableHandle

from visformer.errors import stack_words
from visformer.values.watched_attention import HALF_TOLERANCE, TOLERANCE
from visformer.watching.captured import COARSE, unit_of, worst
from visformer.watching.module_calls import Hook

log = logging.getLogger(__name__)
# the modules that have a fast path, and how many tensors they are given beside masks
FAST: dict[type[nn.Module], int] = {
    nn.TransformerEncoder: 1,
    nn.TransformerEncoderLayer: 1,
    nn.MultiheadAttention: 3,
}


class FastPath(NamedTuple):
    """What the fast path gives of one call of a module; places are rows of features."""

    module: str  # its path
    zeros: int  # places where it gives zeros, and the plain path other numbers
    broken: int  # places where it gives NaN, and the plain path none
    places: int
    elsewhere: float  # the largest difference at all other places; 0 for rounding

    @classmethod
    def compared(cls, module: str, fast: Tensor, plain: Tensor) -> FastPath:
        """Compare the results of both paths, [..., features]."""
        if fast.shape != plain.shape:
            return cls(module, 0, 0, 0, float("inf"))
        broken = fast.isnan().any(-1) & ~plain.isnan().any(-1)
        zeros = (fast == 0).all(-1) & (plain != 0).any(-1)
        other = ~(broken | zeros)
        apart = worst(fast[other], plain[other])
        rounding = HALF_TOLERANCE if unit_of(plain) > COARSE else TOLERANCE
        apart = apart if apart > rounding else 0.0
        return cls(module, int(zeros.sum()), int(broken.sum()), other.numel(), apart)


@contextmanager
def fast_paths(model: nn.Module) -> Iterator[list[FastPath]]:
    """Follow the modules that have a fast path, and call each once more with it.

    The list fills with what it gives. Modules that are called inside of another are
    left to that one; nothing is called where torch's own switch is off.
    """
    calls = _FastCalls(model)
    with ExitStack() as stack:
        if torch.backends.mha.get_fastpath_enabled():
            for hook in calls.hooks():
                stack.callback(hook.remove)
        yield calls.found


class _FastCalls:
    """The calls of modules that have a fast path."""

    def __init__(self, model: nn.Module) -> None:
        self.found: list[FastPath] = []
        self._names = {
            one: name for name, one in model.named_modules() if _is_fast(one)
        }
        self._running: list[nn.Module] = []

    def hooks(self) -> Iterator[RemovableHandle]:
        """Begin to follow them."""
        for one in self._names:
            yield one.register_forward_pre_hook(Hook(self._enter))
            yield one.register_forward_hook(
                Hook(self._leave), with_kwargs=True, always_call=True
            )

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._running.append(module)

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        while self._running and self._running.pop() is not module:
            pass  # what ended without saying so
        plain = result[0] if isinstance(result, tuple) else result
        if self._running or not isinstance(plain, Tensor) or not _counts(module, plain):
            return
        if not _has_mask(module, args, kwargs) and unit_of(plain) < COARSE:
            return  # both give the same, or nearly so
        try:
            with _as_it_was(module):
                fast = module.forward(*args, **kwargs)
            fast = fast[0] if isinstance(fast, tuple) else fast
            self.found.append(FastPath.compared(self._names[module], fast, plain))
        except Exception as error:  # it does not take them
            log.debug("%s: %s", self._names[module], stack_words(error))


def _is_fast(module: nn.Module) -> bool:
    """Whether a module has a fast path, and is not changed by a subclass."""
    return any(
        isinstance(module, one) and type(module).forward is one.forward for one in FAST
    )


def _counts(module: nn.Module, plain: Tensor) -> bool:
    """Whether it would take the fast path, and nobody would notice another call."""
    inner = [one for one in module.modules() if one is not module]
    everywhere = (
        of_all_modules._global_forward_hooks,
        of_all_modules._global_forward_pre_hooks,
    )
    own = isinstance(module, nn.TransformerEncoderLayer) and _is_hooked(module)
    hooked = any(everywhere) or own or any(map(_is_hooked, inner))
    return not (module.training or plain.requires_grad or hooked)


def _is_hooked(module: nn.Module) -> bool:
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    return any(not isinstance(one, Hook) for one in hooks)


def _has_mask(module: nn.Module, args: Any, kwargs: Any) -> bool:
    given = next(n for one, n in FAST.items() if isinstance(module, one))
    named = [x for name, x in kwargs.items() if "mask" in name]
    return any(isinstance(x, Tensor) for x in (*args[given:], *named))


@contextmanager
def _as_it_was(module: nn.Module) -> Iterator[None]:
    """Let a module run as if nobody watched: no mode, no hook of ours, no warning."""
    with ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for one in module.modules():
            for name in ("_forward_hooks", "_forward_pre_hooks"):
                hooks = one.__dict__[name]
                stack.callback(one.__dict__.__setitem__, name, hooks)
                one.__dict__[name] = type(hooks)()
        torch.backends.mha.set_fastpath_enabled(True)
        stack.callback(torch.backends.mha.set_fastpath_enabled, False)
        yield
