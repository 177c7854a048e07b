"""A function of ids around a model of anybody's: a Model like a checkpoint."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from visformer.arguments import is_several, whole_number, wrong_type, wrong_value
from visformer.core.models import SourceTokens
from visformer.core.vocabulary import named
from visformer.errors import InputError
from visformer.language import _
from visformer.text import visible, without_controls
from visformer.values.facts import ModelFacts, SentenceSide
from visformer.values.finding import Finding
from visformer.values.intervention import Intervention
from visformer.values.pieces import running_text
from visformer.watching.stepped import SteppedModel
from visformer.watching.streams import logits_of
from visformer.watching.watcher import Watched, watch


def wrap(
    call: Callable[..., Any],
    *,
    bos: int,
    eos: int,
    pad: int | None = None,
    encode: Callable[[str], Sequence[int]] | None = None,
    decode: Callable[[list[int]], Sequence[str]] | None = None,
) -> WrappedModel:
    """Return what ``visformer.Decoding`` decodes with as with a checkpoint.

    ``call`` takes int64 ids [B, S] and [B, T], or [B, T] alone, and gives logits
    [B, T, V] (or what has them as ``logits``, or first); a module of transformers is
    given them by the names that it has for them. ``encode`` turns a text into
    ids, ``decode`` ids into as many pieces; without them texts are ids with spaces
    between. Masks and weights are those of the model as ``watch`` sees them. Raises
    TypeError for what cannot be called so.
    """
    if not callable(call):
        raise wrong_type("call", call, _("a function, or a torch.nn.Module"))
    if pad is not None:
        pad = whole_number("pad", pad)
    for name, given in (("encode", encode), ("decode", decode)):
        if given is not None and not callable(given):
            raise wrong_type(name, given, _("a function"))
    return WrappedModel(call, bos, eos, pad, encode, decode)


class WrappedModel(SteppedModel):
    """A function around a model; see ``wrap``."""

    model: _Called

    def __init__(
        self,
        call: Callable[..., Any],
        bos: int,
        eos: int,
        pad: int | None,
        encode: Callable[[str], Sequence[int]] | None,
        decode: Callable[[list[int]], Sequence[str]] | None,
    ) -> None:
        self.bos, self.eos = whole_number("bos", bos), whole_number("eos", eos)
        self.pad = pad
        self.alone = _takes_one(call)
        self.model = _Called(call, _named_ids(call))
        self.read = [self.bos] * 2  # a source that it takes: the last one
        self._words = WrappedVocabulary(self, encode, decode)

    def __repr__(self) -> str:
        """Name the model."""
        return f"<WrappedModel of {visible(self.name)}>"

    @property
    def name(self) -> str:
        """The name of the largest module that the function uses, or its own."""
        modules = list(self.model.children())
        if not modules:
            return str(getattr(self.model.call.func, "__name__", "call"))
        size = {m: sum(p.numel() for p in m.parameters()) for m in modules}
        return type(max(modules, key=size.__getitem__)).__name__

    @property
    def vocabulary(self) -> WrappedVocabulary:
        """Its source and target tokens."""
        return self._words

    @property
    def _few_tokens(self) -> tuple[SourceTokens, list[int]]:
        source = SourceTokens(self.read)
        return source, [*self.given(source), self.bos]

    @property
    def facts(self) -> ModelFacts:
        """What a Trace says about it; InputError where no attention is found."""
        watched, _logits = self.shown
        if not watched.traces:
            raise InputError(watched.certificate.sentence)
        return self.described(watched.traces[0].model)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is unusual or wrong."""
        return self.shown[0].certificate.findings

    @property
    def assumed(self) -> tuple[str, ...]:  # type: ignore[override]
        """What was not found, one line each."""
        return self.shown[0].certificate.missed

    def id_of(self, side: SentenceSide, word: str) -> int:
        """Return the id of a word, which both sides share."""
        return self._words.one(word)

    def watched_pass(
        self, source: SourceTokens, target: Sequence[int], change: Intervention
    ) -> tuple[Watched, Tensor]:
        """Watch one pass of the function."""
        sides = [target] if self.alone else [source.ids, target]
        watched = self.watched_batch([torch.tensor([[*ids]]) for ids in sides], change)
        logits: Tensor = watched.output[0]
        whole_number("eos", self.eos, most=logits.shape[-1] - 1)
        return watched, logits

    def watched_batch(self, ids: Sequence[Tensor], change: Intervention) -> Watched:
        """Watch one pass of the function."""
        model = self.model
        first = next(model.parameters(), None)
        device = None if first is None else first.device
        watcher = watch(
            model,
            pad=self.pad,
            tokenizer=lambda id: self._words.pieces([id])[0],
            sources=None if self.alone else 0,
            targets=0 if self.alone else 1,
        )
        watcher.changes = self.changes(change)
        with torch.no_grad(), watcher as watched:
            watched.output = model(*(side.to(device) for side in ids))
        return watched


class WrappedVocabulary:
    """The tokens of a wrapped model: what ``encode`` and ``decode`` make of texts."""

    def __init__(
        self,
        model: WrappedModel,
        encode: Callable[[str], Sequence[int]] | None,
        decode: Callable[[list[int]], Sequence[str]] | None,
    ) -> None:
        self._model, self._encode, self._decode = model, encode, decode

    @property
    def size(self) -> int:
        """The number of target tokens, as a pass shows it."""
        return self._model.shown[1].shape[-1]

    @property
    def numbers(self) -> int:
        """How many tokens there are if ids are typed; 0 with ``encode``."""
        return self.size if self._encode is None else 0

    def read(self, source: str | Sequence[int]) -> SourceTokens:
        """Return the ids of a source."""
        self._model.read = self._ids(source, "source")
        text = without_controls(source) if isinstance(source, str) else ""
        return SourceTokens(self._model.read, text=text)

    def reference(self, target: str | Sequence[int]) -> list[int]:
        """Return the ids of a target; a text ends with the end of the sentence."""
        ids, eos = self._ids(target, "target"), self._model.eos
        ends = not isinstance(target, str) or ids[-1] == eos
        return ids if ends else [*ids, eos]

    def one(self, token: str | int) -> int:
        """Return the id of one token; InputError for a text of several."""
        ids = [token] if isinstance(token, int) else self._ids(token, "token")
        if len(ids) != 1:
            raise wrong_value("token", token, _("exactly one token"))
        return whole_number("token", ids[0], most=self.size - 1)

    def find(self, text: str) -> tuple[tuple[int, str], ...]:
        """Return the ids and tokens that a text names, the likest first."""
        return named(text, self.pieces(range(self.size)))

    def _ids(self, text: str | Sequence[int], argument: str) -> list[int]:
        """Return the ids of a text; TypeError or InputError where it has none."""
        if not isinstance(text, str):
            if not is_several(text):
                raise wrong_type(argument, text, _("a text, or ids"))
            ids = [whole_number(argument, id) for id in text]
        elif self._encode is not None:
            ids = self._encoded(text)
        elif all(word.isdecimal() for word in text.split()):
            ids = [int(word) for word in text.split()]
        else:
            raise wrong_value(argument, text, _("ids, as there is no encode"))
        if not ids:
            raise wrong_value(argument, text, _("at least one token"))
        return ids

    def _encoded(self, text: str) -> list[int]:
        assert self._encode is not None
        made: Any = self._encode(without_controls(text))
        made = made.tolist() if isinstance(made, Tensor) else made
        if isinstance(made, str) or not is_several(made):
            raise wrong_type(_("what encode gives"), made, _("a list of ids"))
        return [whole_number(_("an id that encode gives"), id) for id in made]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id; InputError where ``decode`` gives others."""
        if self._decode is None:
            return [str(id) for id in ids]
        made: Any = self._decode(list(ids))
        if not isinstance(made, str) and not is_several(made):
            raise wrong_type(_("what decode gives"), made, _("a piece of each id"))
        pieces = [] if isinstance(made, str) else list(made)
        if len(pieces) != len(ids):
            pieces = [self._one(id) for id in ids]
        return [str(piece) for piece in pieces]

    def _one(self, id: int) -> str:
        assert self._decode is not None
        made = self._decode([id])
        return made if isinstance(made, str) else "".join(map(str, made))

    def text(self, ids: Sequence[int]) -> str:
        """Return a text of ids, without the end."""
        pieces = self.pieces([id for id in ids if id != self._model.eos])
        return running_text(pieces)


class _Called(nn.Module):
    """The function as a module, with the modules that it uses as its own."""

    def __init__(self, call: Callable[..., Any], names: Sequence[str]) -> None:
        super().__init__()
        self.names = names  # that it takes ids by; () for the first places
        found = dict(_modules_of(call))
        for name, module in found.items():
            self.add_module(name.replace(".", "_"), module)
        self.call = functools.partial(call)  # no module of its own
        self.training = any(module.training for module in found.values())

    def forward(self, *ids: Tensor) -> Any:
        named = dict(zip(self.names, ids, strict=False))
        output = self.call(**named) if named else self.call(*ids)
        logits = logits_of(output, *ids[-1].shape)
        if logits is None:
            shape = getattr(output, "shape", None)
            sizes = "" if shape is None else f" {list(shape)}"
            raise InputError(
                "call gives {given}, but must give logits [B, T, V].",
                given=f"{type(output).__name__}{sizes}",
            )
        return logits


def _signature(call: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(call.forward if isinstance(call, nn.Module) else call)
    except (TypeError, ValueError):
        return None


def _named_ids(call: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names by which transformers' encoder-decoders take ids, or ()."""
    taken, names = _signature(call), ("input_ids", "decoder_input_ids")
    return names if taken and {*names} <= {*taken.parameters} else ()


def _takes_one(call: Callable[..., Any]) -> bool:
    """Whether a function takes the target alone; TypeError if it takes neither."""
    taken = _signature(call)
    if taken is None or _named_ids(call):
        return False
    both = _takes(taken, 2)
    if not both and not _takes(taken, 1):
        allowed = _("a function of ids [B, S] and [B, T], or of [B, T] alone")
        raise wrong_type("call", f"{taken}", allowed)
    needed = [
        p
        for p in taken.parameters.values()
        if p.default is p.empty
        and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    several = any(p.kind is p.VAR_POSITIONAL for p in taken.parameters.values())
    first = next(iter(taken.parameters), "")  # transformers' decoders need nothing
    one = len(needed) == 1 or (not needed and first == "input_ids")
    return not both or (one and not several)


def _takes(taken: inspect.Signature, many: int) -> bool:
    try:
        taken.bind(*[None] * many)
    except TypeError:
        return False
    return True


def _modules_of(call: Any) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that a function uses, by the names that it has for them."""
    if isinstance(call, nn.Module):
        yield "model", call
        return
    if isinstance(call, functools.partial):
        yield from _modules_of(call.func)
        named = {str(at): value for at, value in enumerate(call.args)}
        yield from _those_of({**named, **call.keywords})
        return
    owner = getattr(call, "__self__", None)
    if owner is not None:
        yield from _those_of({"model": owner})
        yield from _those_of(getattr(owner, "__dict__", {}))
    try:
        used = inspect.getclosurevars(call)
    except TypeError:
        return
    yield from _those_of({**used.globals, **used.nonlocals})


def _those_of(values: dict[str, Any]) -> Iterator[tuple[str, nn.Module]]:
    for name, value in values.items():
        if isinstance(value, nn.Module):
            yield name, value
