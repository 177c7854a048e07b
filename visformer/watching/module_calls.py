"""ModuleCalls: the stack of modules whose forward is running."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules import module as of_all_modules
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from visformer.errors import stack_words
from visformer.values.watched_attention import HALF_TOLERANCE, TOLERANCE
from visformer.watching.captured import COARSE, unit_of, worst

Given = tuple[tuple[Any, ...], dict[str, Any]]
COMPILED = "_orig_mod."  # the path prefix added by torch.compile
log = logging.getLogger(__name__)
# modules with a fast path, and how many tensors they take besides masks
FAST: dict[type[nn.Module], int] = {
    nn.TransformerEncoder: 1,
    nn.TransformerEncoderLayer: 1,
    nn.MultiheadAttention: 3,
}


class ModuleCall(NamedTuple):
    """One call of one module."""

    path: str  # dotted path in the model; "" for the model itself
    number: int  # a running count of all calls
    parent: int  # the number of the calling module's call; 0 if none
    outermost: int  # the number of the top-level call


class Hook:
    """A hook that does nothing in a copy: a model may be saved while being watched."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *given: Any) -> Any:
        return self._call(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # accepts anything, returns None


Began = Callable[[nn.Module, ModuleCall, tuple[Any, ...], dict[str, Any]], Given | None]
Ended = Callable[[ModuleCall, Any], None]


class ModuleCalls:
    """The stack of running module calls.

    ``began`` is called for each top-level call and may replace its arguments; ``ended``
    is called for every call with its output.

    Hooks are registered on each module, since global module hooks receive no keyword
    arguments and make compiled models warn.
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
        self._thread = threading.get_ident()  # other threads may call the model

    @property
    def modules(self) -> Iterable[nn.Module]:
        """All modules of the model."""
        return self._modules

    @property
    def current(self) -> ModuleCall:
        """The innermost running call."""
        return self._stack[-1][1] if self._stack else ModuleCall("", 0, 0, 0)

    def start(self) -> None:
        """Register the hooks."""
        for module in self._modules:
            try:
                before = module.register_forward_pre_hook(
                    Hook(self._enter), prepend=True, with_kwargs=True
                )
            except RuntimeError:  # scripted modules accept no hooks
                continue
            self._hooked.add(module)
            after = module.register_forward_hook(Hook(self._leave), always_call=True)
            self._handles += [before, after]

    def follows(self, module: nn.Module) -> bool:
        """Whether calls of a module are seen: scripted modules are not hooked."""
        return module in self._hooked

    def stop(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._stack = [], []

    def _enter(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Given | None:
        if threading.get_ident() != self._thread:
            return None
        if any(isinstance(one, Tensor) and one.is_nested for one in args):
            torch.backends.mha.set_fastpath_enabled(True)  # nested tensors need it
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
            while running is not module:  # calls that ended with an exception
                running, call = self._stack.pop()
            self._ended(call, result)


# ---- Temporary changes around a model ------------------------------------------------


@contextmanager
def plain_paths() -> Iterator[None]:
    """Disable torch.nn's fast paths, whose parts cannot be seen, and torch.compile.

    Both are restored afterwards.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        if "torch._dynamo" in sys.modules:  # otherwise nothing is compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


@dataclass(slots=True)
class Generated:
    """The last result of a model's ``generate``; empty if it was not called."""

    sequences: list[Tensor] = field(default_factory=list)  # int64 [T] each
    sentences: int = 1  # the number of prompts
    calls: range = range(0)  # the numbers of its module calls


class _Generate:
    """Wraps a model's ``generate`` and keeps the ids that it returns."""

    def __init__(self, model: nn.Module, calls: ModuleCalls, kept: Generated) -> None:
        own: Any = model
        self._model, self._own = model, own.generate
        self._calls, self._kept = calls, kept

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = self._calls.count + 1
        returned = self._own(*args, **kwargs)
        sequences = getattr(returned, "sequences", returned)
        if isinstance(sequences, Tensor) and sequences.dim() == 2:
            leaves = tree_leaves((args, kwargs))
            given = [x for x in leaves if isinstance(x, Tensor) and x.dim() > 1]
            self._kept.sequences = [one.detach().cpu() for one in sequences]
            self._kept.sentences = len(given[0]) if given else 1
            self._kept.calls = range(first, self._calls.count + 1)
        return returned

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._model, "generate")  # pickled as the original method


@contextmanager
def generated_sequences(model: nn.Module, calls: ModuleCalls) -> Iterator[Generated]:
    """Record what the model's ``generate`` returns inside the context."""
    kept = Generated()
    if not callable(getattr(model, "generate", None)) or "generate" in vars(model):
        yield kept
        return
    vars(model)["generate"] = _Generate(model, calls, kept)
    try:
        yield kept
    finally:
        vars(model).pop("generate", None)


@contextmanager
def same_chances(model: nn.Module) -> Iterator[None]:
    """Restore random state and buffers on exit, so that a second run is the same."""
    buffers = [(one, one.detach().clone()) for one in model.buffers()]
    # of all GPUs in use: a model may draw on one that has none of its parameters
    in_use = torch.cuda.is_initialized()
    gpus = range(torch.cuda.device_count()) if in_use else range(0)
    with torch.random.fork_rng(devices=gpus):
        yield
    with torch.no_grad():
        for one, before in buffers:
            if _differs(one, before):
                one.copy_(before)


def _differs(one: Tensor, before: Tensor) -> bool:
    try:
        return not torch.equal(one, before)
    except Exception:  # sparse and nested tensors cannot be compared
        return not one.is_meta


# ---- The fast path of torch.nn, which is disabled while watching ---------------------


class FastPath(NamedTuple):
    """How a module's fast path differs from the plain path; places are feature rows."""

    module: str  # its path
    zeros: int  # places where only the fast path gives zeros
    broken: int  # places where only the fast path gives NaN
    places: int
    elsewhere: float  # the largest difference elsewhere; 0 if it is only rounding

    @classmethod
    def compared(cls, module: str, fast: Tensor, plain: Tensor) -> FastPath:
        """Compare the outputs of both paths, [..., features]."""
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
    """Repeat calls of modules that have a fast path, with the fast path enabled.

    The differences are appended to the list. Only the outermost such modules are called
    again, and none if torch's own switch is off.
    """
    calls = _FastCalls(model)
    with ExitStack() as stack:
        if torch.backends.mha.get_fastpath_enabled():
            for hook in calls.hooks():
                stack.callback(hook.remove)
        yield calls.found


class _FastCalls:
    """Hooks that repeat calls with the fast path."""

    def __init__(self, model: nn.Module) -> None:
        self.found: list[FastPath] = []
        self._names = {
            one: name for name, one in model.named_modules() if _is_fast(one)
        }
        self._running: list[nn.Module] = []

    def hooks(self) -> Iterator[RemovableHandle]:
        """Register the hooks."""
        for one in self._names:
            yield one.register_forward_pre_hook(Hook(self._enter))
            yield one.register_forward_hook(
                Hook(self._leave), with_kwargs=True, always_call=True
            )

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._running.append(module)

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        while self._running and self._running.pop() is not module:
            pass  # calls that ended with an exception
        plain = result[0] if isinstance(result, tuple) else result
        if self._running or not isinstance(plain, Tensor) or not _counts(module, plain):
            return
        if not _has_mask(module, args, kwargs) and unit_of(plain) < COARSE:
            return  # equal up to rounding
        try:
            with _as_it_was(module):
                fast = module.forward(*args, **kwargs)
            fast = fast[0] if isinstance(fast, tuple) else fast
            self.found.append(FastPath.compared(self._names[module], fast, plain))
        except Exception as error:  # the fast path rejects these arguments
            log.debug("%s: %s", self._names[module], stack_words(error))


def _is_fast(module: nn.Module) -> bool:
    """Whether a module has a fast path that no subclass overrides."""
    return any(
        isinstance(module, one) and type(module).forward is one.forward for one in FAST
    )


def _counts(module: nn.Module, plain: Tensor) -> bool:
    """Whether it would take the fast path, and a second call has no side effects."""
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
    """Run a module unwatched: no dispatch mode, hooks or warnings."""
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
