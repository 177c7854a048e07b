"""FolderModel: a folder of transformers as a checkpoint that is stepped and watched."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from visformer.arguments import is_several, whole_number, wrong_type, wrong_value
from visformer.core.all_tokens import near_words
from visformer.core.generation import Generation
from visformer.core.mask_rules import padded
from visformer.core.models import BatchRow, BeamRows, Extras, SourceTokens
from visformer.core.modified import check_padding
from visformer.core.side_runs import by_change
from visformer.core.threads import few_threads
from visformer.core.vocabulary import TokenizerVocabulary
from visformer.errors import CheckpointError, InputError, VisformerError, is_memory
from visformer.formats.hugging_face.modules import FolderTask, not_of_text
from visformer.language import _
from visformer.text import visible, without_controls
from visformer.tokenizers.tokenizer import Token, Tokenizer, TokenizerSide
from visformer.tokenizers.transformers_side import TransformersSide
from visformer.values.facts import ModelFacts, SentenceSide
from visformer.values.finding import Finding
from visformer.values.intervention import Intervention
from visformer.values.measured import NearWords
from visformer.values.trace import Trace
from visformer.watching.stepped import NextLogits, SteppedModel
from visformer.watching.watcher import Watched, watch

TRIAL = 3  # tokens of a side when a model is tried


@dataclass(frozen=True, kw_only=True)
class FolderLimits:
    """How long a model's texts may be."""

    positions: int | None = None  # tokens of a side; None: any number
    # of prompt and continuation together, where the rules count them so
    length: int | None = None
    fewest: int | None = None


@dataclass(eq=False, kw_only=True)
class FolderModel(SteppedModel):
    """A model of transformers with its tokenizer, used like a ``Checkpoint``.

    ``model`` is transformers' own module, in eval mode on its device. Every Trace is of
    a watched pass of it, so what is shown is what it computes.
    """

    folder: str  # its name
    model: nn.Module
    task: FolderTask
    tokenizer: Tokenizer
    digest: str
    generation: Generation
    limits: FolderLimits = field(default_factory=FolderLimits)
    assumed: tuple[str, ...] = ()
    multilingual: bool = False  # whether its languages can be chosen
    layout: str = "transformers"

    def __post_init__(self) -> None:
        tokenizer = self.tokenizer
        self.bos, self.eos = tokenizer.bos, tokenizer.eos
        self.alone = self.task == "prompt"
        self._words = FolderVocabulary(tokenizer, self.task, self.limits.positions)

    def __repr__(self) -> str:
        """Name the model, where it is from, and its size."""
        facts = self.facts
        kinds = ", ".join(f"{facts.layers(k)} {k}" for k in facts.kinds)
        millions = f"{facts.parameters / 1e6:.3g} M parameters"
        where = f"{visible(self.name)} ({self.layout}, on {facts.device})"
        return f"<FolderModel {where}: {kinds} layers, {millions}>"

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder

    @property
    def vocabulary(self) -> FolderVocabulary:
        """Its source and target tokens."""
        return self._words

    @property
    def extras(self) -> Extras:
        """What it can answer beyond runs."""
        several = self.multilingual
        return replace(super().extras, languages=several, nearest=self._nearest)

    def _nearest(self, side: SentenceSide, asked: int | str) -> NearWords:
        module: Any = self.model
        table: Tensor = module.get_input_embeddings().weight
        return near_words(table.float(), self.tokenizer.source, side, asked)

    @property
    def config(self) -> Mapping[str, Any]:
        """The config as transformers has it."""
        config: Any = self.model.config
        made: dict[str, Any] = config.to_diff_dict()
        return made

    @property
    def device(self) -> torch.device:
        """The device that holds the weights."""
        return next(self.model.parameters()).device

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a sentence."""
        own = (self.eos,) if self.eos >= 0 else ()
        return (*own, *self.generation.ends)

    # ---- what it is, told by a pass --------------------------------------------------

    def try_out(self) -> None:
        """Make a pass over a few tokens, which shows what attention there is.

        Raises CheckpointError where none can be shown.
        """
        try:
            traces, told = self._trial.traces, self._trial.certificate
        except Exception as error:  # of a stranger's forward
            if isinstance(error, VisformerError) or is_memory(error):
                raise
            raise not_of_text(self.model.config) from error
        if not traces:
            raise CheckpointError(" ".join([told.sentence, *told.missed[:1]]))

    @property
    def _trial(self) -> Watched:
        return self.shown[0]

    @property
    def _few_tokens(self) -> tuple[SourceTokens, list[int]]:
        special = {self.bos, self.eos, self.tokenizer.pad}
        ids = [id for id in range(min(32, self._rows)) if id not in special]
        ids = (ids or [0])[:TRIAL]
        return SourceTokens(ids), ids if self.alone else [max(self.bos, 0), *ids]

    @cached_property
    def facts(self) -> ModelFacts:
        """What a Trace says about the model."""
        (trace,) = self._trial.traces
        # what transformers adds to masked scores, also where no cell was masked yet
        lowest = float(torch.finfo(torch.float32).min)
        attention = {
            kind: replace(facts, masked_value=max(facts.masked_value, lowest))
            for kind, facts in trace.model.attention.items()
        }
        tokenizer = self.tokenizer
        return replace(
            trace.model,
            attention=attention,
            name=self.name,
            digest=self.digest,
            layout=self.layout,
            device=str(self.device),
            pad=tokenizer.pad,
            bos=self.bos,
            eos=self.eos,
        )

    @cached_property
    def causal(self) -> bool:  # type: ignore[override]
        """Whether the masks of the decoder hide all that follows a token."""
        (trace,) = self._trial.traces
        if "decoder" not in trace.kinds:
            return False
        masks = [trace.mask("decoder", at) for at in range(trace.layers("decoder"))]
        return not any(np.triu(mask, 1).any() for mask in masks)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is unusual or wrong."""
        return self._trial.certificate.findings

    def described(self, facts: ModelFacts) -> ModelFacts:
        """Return what is known of the model, whatever a changed run has shown."""
        return replace(self.facts, stacks=facts.stacks)

    @property
    def masked(self) -> int:
        """The id of the token that stands for a masked one; -1 where there is none."""
        side = self.tokenizer.source
        if self.task != "masks" or not isinstance(side, TransformersSide):
            return -1
        return side.mask

    @property
    def _rows(self) -> int:
        return min(self.tokenizer.source.size, self.tokenizer.target.size)

    # ---- running ---------------------------------------------------------------------

    def watched_pass(
        self, source: SourceTokens, target: Sequence[int], change: Intervention
    ) -> tuple[Watched, Tensor]:
        """Watch one pass of the module over a source and all of a target."""
        inputs = self._inputs(source.ids, target)
        with self._few_threads(inputs):
            watched = watched_inputs(self, inputs, change, source.tokens or None)
        logits = getattr(watched.output, "logits", None)  # none without a head
        made = torch.zeros(0, 0) if logits is None else logits[0].detach().float().cpu()
        return watched, made

    def watched_batch(self, ids: Sequence[Tensor], change: Intervention) -> Watched:
        """Watch one pass; padding at the end of a row is masked."""
        return watched_ids(self, ids, change)

    def id_of(self, side: SentenceSide, word: str) -> int:
        """Return the id of a side's word; InputError if it is not one token."""
        return self.tokenizer.id_of(side, word)

    def unwatched(self, source: SourceTokens) -> NextLogits | None:
        """Return what computes next logits with the module's own cache."""
        if not self.writes or not cache_name(self.model):
            return None
        rows = CachedRows(self.model, source.ids, alone=self.alone)

        def logits(target: Sequence[int]) -> Tensor:
            with few_threads(self.size):  # a step reads one token
                return rows.extend(torch.tensor([[*target]]))[0].cpu()

        return logits

    def batch(
        self, rows: Sequence[BatchRow], changes: Sequence[Intervention] = ()
    ) -> list[Trace]:
        """Return a Trace per row, of a padded pass for each of their changes.

        Raises InputError for a model that pads nothing, and for one that goes on with a
        prompt: its prompts are of different lengths.
        """
        if self.alone or self.tokenizer.pad < 0:
            raise InputError(
                "“{name}” takes one text at a time: it has no padding.", name=self.name
            )

        def run_some(at: list[int], change: Intervention) -> list[Trace]:
            return padded_rows(self, [rows[i] for i in at], change)

        return by_change(rows, changes, run_some)

    def _inputs(self, source: Sequence[int], target: Sequence[int]) -> dict[str, Any]:
        read = target if self.alone else source
        inputs: dict[str, Any] = {"input_ids": self._tensor(read)}
        if self.task == "seq2seq":
            inputs["decoder_input_ids"] = self._tensor(target)
        if self.task in ("seq2seq", "prompt"):
            inputs["use_cache"] = False
        return inputs

    def _tensor(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([[*ids]], dtype=torch.long, device=self.device)

    @cached_property
    def size(self) -> int:
        """How many parameters there are."""
        return sum(one.numel() for one in self.model.parameters())

    def _few_threads(self, inputs: Mapping[str, Any]) -> AbstractContextManager[None]:
        tokens = sum(x.numel() for x in inputs.values() if isinstance(x, Tensor))
        return few_threads(self.size * tokens)

    # ---- choosing --------------------------------------------------------------------

    @property
    def writes(self) -> bool:
        """Whether it chooses tokens."""
        return self.task in ("seq2seq", "prompt")

    def given(self, source: SourceTokens) -> tuple[int, ...]:
        """Return what the decoder reads before the first choice; () without one."""
        return super().given(source) if self.writes else ()

    def most_tokens(self, source: SourceTokens, limit: int | None) -> int:
        """Return how many tokens are chosen at most: by the rules, by the positions."""
        if not self.writes:
            return 0
        most, prompt = self.generation.max_tokens, len(source.ids)
        if self.alone and self.limits.length is not None:
            most = max(1, self.limits.length - prompt)
        wanted = [most if limit is None else limit]
        if self.limits.positions is not None:
            read = prompt if self.alone else 1
            wanted.append(max(1, self.limits.positions - read + 1))
        return min(one for one in wanted if one is not None)

    def rules(self, source: SourceTokens) -> Generation:
        """Return the folder's rules after a source, which some lengths count."""
        rules = replace(self.generation, in_turn=True)
        if not self.alone or self.limits.fewest is None:
            return rules
        fewest = max(0, self.limits.fewest - len(source.ids))
        return replace(rules, min_tokens=fewest)

    def beam_rows(
        self, source: SourceTokens, change: Intervention, beams: int
    ) -> BeamRows:
        """Return rows of so many hypotheses, by the module's own cache if it can."""
        if not self.writes:
            words = _("“{name}” reads text and writes none.", name=self.name)
            raise InputError(words)
        if change or not cache_name(self.model):
            return super().beam_rows(source, change, beams)
        return CachedRows(self.model, source.ids, alone=self.alone)


class FolderVocabulary(TokenizerVocabulary):
    """What a folder's tokenizer makes of texts, special tokens included."""

    def __init__(
        self, tokenizer: Tokenizer, task: FolderTask, positions: int | None
    ) -> None:
        """``positions`` is how many tokens a source has at most; None: any number."""
        super().__init__(tokenizer)
        self._task, self._positions = task, positions

    def read(self, source: str | Sequence[int]) -> SourceTokens:
        """Split a text with its special tokens; ids are taken as they are."""
        side, bos, most = self.tokenizer.source, self.tokenizer.bos, self._positions
        if isinstance(source, str):
            pieces = _around(side, source)
        elif is_several(source):
            ids = [whole_number("source", i, most=side.size - 1) for i in source]
            pieces = [Token(id, side.token(id), 0, 0) for id in ids]
        else:
            raise wrong_type("source", source, _("a text, or ids"))
        if not pieces and self._task == "prompt" and bos >= 0:
            pieces = [Token(bos, side.token(bos), 0, 0)]
        if not pieces:
            raise wrong_value("source", str(source), _("at least one token"))
        length = len(pieces)
        if most is not None and length > most:
            kept = most - 1  # the last one ends the text
            pieces = [*pieces[:kept], pieces[-1]]
        spans = [(piece.start, piece.end) for piece in pieces]
        known = isinstance(source, str) and any(end for _start, end in spans)
        return SourceTokens(
            ids=[piece.id for piece in pieces],
            tokens=tuple(piece.token for piece in pieces),
            spans=tuple(spans) if known else (),
            cut_from=length if length > len(pieces) else 0,
            text=without_controls(source) if isinstance(source, str) else "",
        )

    def reference(self, target: str | Sequence[int]) -> list[int]:
        """Return the ids of a target; a text is given its special tokens."""
        side, eos = self.tokenizer.target, self.tokenizer.eos
        if self._task in ("masks", "reading") and target:
            raise wrong_value("reference", str(target)[:40], _nothing())
        if not isinstance(target, str):
            if not is_several(target):
                raise wrong_type("reference", target, _("a text, or ids"))
            return [whole_number("reference", id, most=side.size - 1) for id in target]
        prompt = self._task == "prompt"
        pieces = side.encode(target) if prompt else _around(side, target)
        ids = [piece.id for piece in pieces]
        if eos < 0:
            return ids
        ended = len(ids) - ids[::-1].index(eos) if eos in ids[1:] else 0
        return ids[:ended] if ended else [*ids, eos]  # a language may follow it

    def one(self, token: str | int) -> int:
        """Return the id of one token; InputError where none is chosen."""
        if self._task in ("masks", "reading"):
            raise wrong_value("token", token, _nothing())
        return super().one(token)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of target ids, without special tokens."""
        return self.tokenizer.target.decode(ids)


def _around(side: TokenizerSide, text: str) -> list[Token]:
    """Split a text, with the special tokens of a tokenizer that adds any."""
    return (
        side.around(text) if isinstance(side, TransformersSide) else side.encode(text)
    )


def _nothing() -> str:
    return _("nothing: this model reads text and writes none")


NAMES = "past_key_values", "cache"  # of the cache: until transformers 5.23, and since


class CachedRows:
    """Computes what follows targets; what it has read of them is not read again."""

    def __init__(
        self, module: nn.Module, source: Sequence[int], *, alone: bool
    ) -> None:
        """Begin with a module as it is now; ``alone``: it has no encoder."""
        self._module: Any = module
        self._name = cache_name(module)
        self._source = None if alone else [*source]
        self._read = torch.zeros(0, 0, dtype=torch.long)  # [N, t]
        self._encoded: Any = None
        self._cache: Any = None

    @torch.no_grad()
    def extend(self, consumed: Tensor) -> Tensor:
        """Return the logits [N, n, V] after each id of ``consumed`` not read before.

        Targets [N, t] that do not go on with those before are read as a whole.
        """
        consumed = consumed.to(next(self._module.parameters()).device)
        count, known = len(consumed), self._read.shape[1]
        begun = self._read.to(consumed.device)
        if known >= consumed.shape[1] or not torch.equal(begun, consumed[:, :known]):
            self._cache, known = None, 0
        name = "input_ids" if self._source is None else "decoder_input_ids"
        inputs: dict[str, Any] = {name: consumed[:, known:], self._name: self._cache}
        if self._source is not None:
            if self._encoded is None:
                ids = consumed.new_tensor([self._source])
                self._encoded = self._module.get_encoder()(
                    input_ids=ids, return_dict=True
                )
            encoded = self._encoded.last_hidden_state.expand(count, -1, -1)
            told = type(self._encoded)(last_hidden_state=encoded)
            inputs["encoder_outputs"] = told
        output = self._module(**inputs, use_cache=True, return_dict=True)
        self._cache, self._read = getattr(output, self._name), consumed
        logits: Tensor = output.logits.float()
        return logits

    def next(self, consumed: Tensor) -> Tensor:
        """Return the logits [N, V] of what follows these ids [N, t]."""
        return self.extend(consumed)[:, -1]

    def keep(self, rows: Tensor, sentences: Tensor | None) -> None:
        """Keep (and repeat) these rows int [N]."""
        if rows.tolist() != [*range(len(self._read))]:
            self._cache.reorder_cache(rows.to(self._read.device))
            self._read = self._read[rows]


def cache_name(module: nn.Module) -> str:
    """Name a module's cache of keys and values; "" if it is stepped without one."""
    taken = inspect.signature(module.forward).parameters
    return next((name for name in NAMES if name in taken), "")


def padded_rows(
    model: FolderModel, rows: Sequence[BatchRow], change: Intervention
) -> list[Trace]:
    """Run rows as one batch, whose padding is masked: a Trace per row."""
    pad, sources = model.tokenizer.pad, [row.source for row in rows]
    ids = padded([source.ids for source in sources], pad).to(model.device)
    pads = model.vocabulary.pieces([pad] * ids.shape[1])
    shown = [[*source.tokens, *pads] for source in sources]
    sides, lengths = [ids], [[len(source.ids) for source in sources]]
    if model.task == "seq2seq":
        sides.append(padded([row.target for row in rows], pad))
        lengths.append([len(row.target) for row in rows])
    tokens = [tokens[: ids.shape[1]] for tokens in shown]
    check_padding(change, padded=any(len({*each}) > 1 for each in lengths))
    watched = _watched_rows(model, sides, lengths, change, source_tokens=tokens)
    return [
        replace(trace, model=model.described(trace.model), intervention=change)
        for trace in watched.traces
    ]


def _watched_rows(
    model: FolderModel,
    sides: Sequence[Tensor],
    lengths: Sequence[list[int]],
    change: Intervention,
    *,
    source_tokens: list[list[str]] | None = None,
) -> Watched:
    """Watch one pass over int64 [B, S] and [B, T]; what follows a length is masked."""
    inputs: dict[str, Any] = {}
    for side, ids, real in zip(("", "decoder_"), sides, lengths, strict=False):
        inputs[f"{side}input_ids"] = ids.to(model.device)
        inputs[f"{side}attention_mask"] = _real(real, ids.to(model.device))
    return watched_inputs(model, inputs, change, source_tokens)


def watched_inputs(
    model: FolderModel,
    inputs: Mapping[str, Any],
    change: Intervention,
    source_tokens: Sequence[str] | Sequence[Sequence[str]] | None,
) -> Watched:
    """Watch one pass over the module's own inputs."""
    watcher = watch(
        model.model,
        tokenizer=model.tokenizer.target.token,
        source_tokens=source_tokens,
        sources=None if model.alone else "input_ids",
        targets={"seq2seq": "decoder_input_ids", "prompt": "input_ids"}.get(model.task),
    )
    watcher.changes = model.changes(change)
    with torch.no_grad(), watcher as watched:
        watched.output = model.model(**inputs)
    return watched


def watched_ids(
    model: FolderModel, ids: Sequence[Tensor], change: Intervention
) -> Watched:
    """Watch one pass over int64 [B, S] and [B, T]; padding at the end is masked.

    A model of one side reads the first. Raises InputError where one is missing.
    """
    needed = 2 if model.task == "seq2seq" else 1
    if len(ids) < needed:
        raise InputError(
            "“{name}” reads a source and a target: give both.", name=model.name
        )
    lengths = []
    for one in ids[:needed]:
        places = torch.arange(1, one.shape[1] + 1, device=one.device)
        real = places * (one != model.tokenizer.pad)
        lengths.append(real.amax(1).clamp(min=1).tolist())
    return _watched_rows(model, ids[:needed], lengths, change)


def _real(lengths: list[int], ids: Tensor) -> Tensor:
    places = torch.arange(ids.shape[1], device=ids.device)[None]
    return (places < torch.tensor(lengths, device=ids.device)[:, None]).long()
