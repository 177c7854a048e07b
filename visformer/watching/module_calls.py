"""ModuleCalls: which module's forward is running."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

Given = tuple[tuple[Any, ...], dict[str, Any]]
COMPILED = "_orig_mod."  # what torch.compile puts before a path


class ModuleCall(NamedTuple):
    """One call of one module."""

    path: str  # dotted, in the model; "" for the model itself
    number: int  # counts all calls
    parent: int  # the number of the call that it was made in; 0 for none
    outermost: int  # the number of the call at the top


class Hook:
    """A hook that does nothing in a copy: a model may be saved while it is watched."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *given: Any) -> Any:
        return self._call(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # takes anything, gives None


Began = Callable[[nn.Module, ModuleCall, tuple[Any, ...], dict[str, Any]], Given | None]
Ended = Callable[[ModuleCall, Any], None]


class ModuleCalls:
    """The stack of calls.

    ``began`` is told of those that no other module made, and may return other arguments
    for one; ``ended`` of all, and is given what each returned.

    It has hooks on each module while it runs, since those on all modules at once are
    not told the keywords, and make a compiled model warn.
    """

    def __init__(self, model: nn.Module, began: Began, ended: Ended) -> None:
        self._modules = {
            module: name.replace(COMPILED, "").removesuffix("_orig_mod")
            for name, module in model.named_modules()
        }
        self._began, self._ended = began, ended
        self._stack: list[tuple[nn.Module, ModuleCall]] = []
        self._handles: list[RemovableHandle] = []
        self.count = 0  # of calls so far
        self._hooked: set[nn.Module] = set()
        self._thread = threading.get_ident()  # others may call the model meanwhile

    @property
    def modules(self) -> Iterable[nn.Module]:
        """All modules of the model."""
        return self._modules

    @property
    def current(self) -> ModuleCall:
        """The innermost call that runs."""
        return self._stack[-1][1] if self._stack else ModuleCall("", 0, 0, 0)

    def start(self) -> None:
        """Begin to follow."""
        for module in self._modules:
            try:
                before = module.register_forward_pre_hook(
                    Hook(self._enter), prepend=True, with_kwargs=True
                )
            except RuntimeError:  # a scripted module takes no hooks
                continue
            self._hooked.add(module)
            after = module.register_forward_hook(Hook(self._leave), always_call=True)
            self._handles += [before, after]

    def follows(self, module: nn.Module) -> bool:
        """Whether calls of a module are followed: those of a scripted one are not."""
        return module in self._hooked

    def stop(self) -> None:
        """End it; the hooks are gone."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._stack = [], []

    def _enter(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Given | None:
        if threading.get_ident() != self._thread:
            return None
        if any(isinstance(one, Tensor) and one.is_nested for one in args):
            torch.backends.mha.set_fastpath_enabled(True)  # no other path takes them
        above = self.current
        self.count += 1
        path, outermost = self._modules[module], above.outermost or self.count
        call = ModuleCall(path, self.count, above.number, outermost)
        self._stack.append((module, call))
        return self._began(module, call, args, kwargs) if not above.number else None

    def _leave(self, module: nn.Module, args: Any, result: Any) -> None:
        mine = threading.get_ident() == self._thread
        if mine and any(running is module for running, _call in self._stack):
            running, call = self._stack.pop()
            while running is not module:  # what ended without saying so
                running, call = self._stack.pop()
            self._ended(call, result)
