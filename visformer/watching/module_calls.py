"""ModuleCalls: which module's forward is running, by hooks on all modules at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

Began = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]


class ModuleCall(NamedTuple):
    """One call of one module."""

    path: str  # dotted, in the model; "" for the model itself
    number: int  # counts all calls
    parent: int  # the number of the call that it was made in; 0 for none
    outermost: int  # the number of the call at the top


class ModuleCalls:
    """The stack of calls; ``began`` is told of those that nothing of ours called."""

    def __init__(self, model: nn.Module, began: Began) -> None:
        self._modules = dict(model.named_modules())
        self._paths = {id(module): name for name, module in self._modules.items()}
        self._began, self._stack = began, [ModuleCall("", 0, 0, 0)]
        self._handles: list[RemovableHandle] = []
        self._count = 0

    @property
    def current(self) -> ModuleCall:
        """The innermost call that runs."""
        return self._stack[-1]

    def start(self) -> None:
        """Begin to follow."""
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        # hooks on all modules at once are not told the keywords
        self._handles += [
            module.register_forward_pre_hook(self._given, with_kwargs=True)
            for module in self._modules.values()
            if not isinstance(module, torch.jit.ScriptModule)
        ]

    def stop(self) -> None:
        """End it; the hooks are gone."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        del self._stack[1:]

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        above = self.current
        path = self._paths.get(id(module))
        self._count += 1
        outermost = above.outermost or self._count
        self._stack.append(
            ModuleCall(
                above.path if path is None else path,
                self._count,
                above.number,
                outermost,
            )
        )
        if outermost == self._count and isinstance(module, torch.jit.ScriptModule):
            self._began(module, args, {})

    def _given(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if len(self._stack) == 2:
            self._began(module, args, kwargs)

    def _leave(self, module: nn.Module, args: Any, result: Any) -> None:
        if len(self._stack) > 1:
            self._stack.pop()
