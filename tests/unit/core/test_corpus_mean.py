"""The mean of heads over a file of pairs: against a forward by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import visformer
from tests.changes_by_hand import At, Effect, apart, by_hand, native
from tests.system.formats.folders import write_letters
from visformer.core.checkpoint import Checkpoint
from visformer.core.corpus_mean import with_means
from visformer.core.passes import run
from visformer.core.search import exhausted
from visformer.errors import InputError
from visformer.values.changes.head_changes import HeadMeanOf
from visformer.values.intervention import Intervention, parse
from visformer.values.trace import Trace

PAIRS = ("hello", "cab"), ("ab", "abcab"), ("cd", "d")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return visformer.load(write_letters(tmp_path / "letters"))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "some pairs.tsv"
    path.write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS), "utf-8")
    return path


def ids_of(trace: Trace) -> tuple[list[int], list[int]]:
    return trace.source_ids.tolist(), trace.target_ids.tolist()


def changed(path: Path, kind: str, place: str) -> Intervention:
    return parse([f'head {kind} mean of "{path}"{place}'])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("place", ["", " @ L2", " @ L1H2"])
def test_every_query_is_given_the_mean_over_the_file(
    checkpoint: Checkpoint, pairs: Path, kind: str, place: str
) -> None:
    change = changed(pairs, kind, place)
    (layer, head) = change[0].place
    passed = [run(checkpoint, one, other)[0] for one, other in PAIRS]
    each = [by_hand(native(checkpoint), Effect(), *ids_of(trace)).z for trace in passed]
    mean = {at: torch.cat([z[at] for z in each]).mean(0) for at in each[0]}

    def here(x: torch.Tensor, at: At) -> torch.Tensor:
        acts = at[0] == kind and layer in (None, at[1]) and head in (None, at[2])
        return 0 * x + mean[at] if acts else x

    (trace,) = run(checkpoint, "bad", "bee", intervention=change)
    hand = by_hand(native(checkpoint), Effect(z=here), *ids_of(trace))
    assert apart(trace, hand) < 2e-6
    decoded = visformer.Decoding(checkpoint, "bad", intervention=change)
    assert decoded.finish().intervention == change  # the numbers are no part of it


def test_it_is_made_once_of_a_file_and_can_be_stopped(
    checkpoint: Checkpoint, pairs: Path
) -> None:
    change = changed(pairs, "cross", " @ L2H1")
    begun = with_means(checkpoint, change, run)
    assert next(begun)[:2] == (0, 3)
    begun.close()
    assert len([*with_means(checkpoint, change, run)]) == 3
    assert [*with_means(checkpoint, changed(pairs, "cross", " @ L1"), run)] == []
    assert len([*with_means(checkpoint, changed(pairs, "encoder", ""), run)]) == 3
    with pairs.open("a") as more:
        more.write("a\tb\n")
    assert len([*with_means(checkpoint, change, run)]) == 4
    filled = exhausted(with_means(checkpoint, change, run))
    made, read = filled[0], Intervention.from_json(filled.to_json())[0]
    assert isinstance(made, HeadMeanOf)
    assert isinstance(read, HeadMeanOf)
    assert made.taken is not None
    assert made.taken == read.taken


def test_what_cannot_be_is_one_sentence(checkpoint: Checkpoint, pairs: Path) -> None:
    lost = changed(pairs.with_name("lost.tsv"), "cross", "")
    with pytest.raises(InputError, match=r"There is no file “lost\.tsv”"):
        visformer.Decoding(checkpoint, "bad", intervention=lost)
    pairs.write_text("one\n")
    with pytest.raises(InputError, match=r"Line 1 of some pairs\.tsv is"):
        run(checkpoint, "bad", "bee", intervention=changed(pairs, "cross", ""))
    pairs.write_text("\n")
    with pytest.raises(InputError, match="has no pair of sentences"):
        run(checkpoint, "bad", "bee", intervention=changed(pairs, "cross", ""))


def test_the_layers_of_the_model_must_be_known(
    checkpoint: Checkpoint, pairs: Path
) -> None:
    unknown: Any = SimpleNamespace(facts=replace(checkpoint.facts, known=None))
    for change in (changed(pairs, "cross", ""), changed(pairs, "decoder", " @ L1")):
        with pytest.raises(InputError, match="whose layers are known; “head ") as said:
            exhausted(with_means(unknown, change, run))
        assert len(str(said.value)) <= 200
