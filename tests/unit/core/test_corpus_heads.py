"""What heads do over a file of pairs, against the same model in plain torch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import visformer
from tests.tiny_models import tiny_checkpoint
from tests.unit.core.test_attribution import attention, double, hooked, passed
from visformer.core.corpus_heads import gold_file, heads_of_pairs
from visformer.core.decoding import Decoding
from visformer.core.importance import by_gradient
from visformer.core.models import Model, WorkDone
from visformer.errors import InputError
from visformer.values.facts import KINDS, Kind
from visformer.values.heads_of_pairs import AT, MEAN, HeadsOfPairs
from visformer.values.intervention import parse
from visformer.values.scanned import PairLine
from visformer.values.trace import Trace

TEXTS = ("cab", "bacc"), ("hello", "oleh"), ("abba", "b")
BUNDLED = Path(__file__).parents[3] / "checkpoints/tatoeba-en-fr"
CHECKPOINT = tiny_checkpoint(seed=4)
PAIRS = [PairLine(at, *texts) for at, texts in enumerate(TEXTS, 1)]


def measured(
    model: Model, pairs: list[PairLine] = PAIRS, **given: Any
) -> tuple[HeadsOfPairs, list[str]]:
    found = HeadsOfPairs(path="pairs.tsv", model=model.name)
    for made in heads_of_pairs(model, pairs, [], **given):
        found = found if isinstance(made, WorkDone) else found.plus(made)
    return found, [*found.left_out]


@torch.no_grad()
def attended(trace: Trace, kind: Kind, layer: int) -> tuple[Tensor, Tensor]:
    """Return weights [H, Q, K] and v W_O [H, K, D] in float64, by hooks."""
    model = double(CHECKPOINT)
    part, seen = attention(model, kind, layer), dict[str, Tensor]()
    keep = [
        (getattr(part, name), lambda _m, _g, out, n=name: seen.update({n: out[0]}))
        for name in ("query", "key", "value")
    ]
    with hooked(*keep):
        passed(model, trace)
    q, k, v = (
        seen[name].unflatten(-1, (2, -1)).transpose(0, 1)
        for name in ("query", "key", "value")
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if kind == "decoder":
        hidden = torch.ones(scores.shape[1:]).triu(1).bool()
        scores = scores.masked_fill(hidden, -math.inf)
    output = part.output.weight.T.unflatten(0, (2, -1))  # [H, d, D]
    return scores.softmax(-1), v @ output


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_those_of_the_rows_of_all_pairs(kind: Kind) -> None:
    found, told = measured(CHECKPOINT)
    assert not told
    assert len(found) == 3
    rows: dict[str, list[Tensor]] = {}
    for source, reference in TEXTS:
        trace = Decoding(CHECKPOINT, source).feed(reference)
        weights, added = attended(trace, kind, 1)
        queries, keys = weights.shape[1:]
        # the last row of the encoder reads </s>, that of cross-attention writes it
        weights = weights if kind == "decoder" else weights[:, : queries - 1]
        words = weights if kind == "decoder" else weights[..., : keys - 1]
        sink = 0 if kind == "decoder" else keys - 1
        norms = weights * added.norm(dim=-1)[:, None]
        place = torch.arange(keys)
        largest = words.argmax(-1)  # [H, Q]
        own = {
            "confidence": words.amax(-1),
            "entropy": -torch.xlogy(weights, weights).sum(-1),
            "distance": (weights * (place[: weights.shape[1], None] - place).abs()).sum(
                -1
            ),
            "sink": weights[..., sink],
            "sink norm": norms[..., sink] / norms.sum(-1),
            "previous": (largest == place[: weights.shape[1]] - 1).double()[:, 1:],
        }
        for name, values in own.items():
            rows.setdefault(name, []).append(values)
    for name, parts in rows.items():
        mean = found.mean(name, kind)[1]
        if kind == "cross" and name in ("distance", "previous"):
            assert np.isnan(mean).all()
        else:
            wanted = torch.cat(parts, 1).mean(1)
            np.testing.assert_allclose(mean, wanted, atol=2e-5, err_msg=name)


def test_the_rarest_piece_is_counted_over_the_file() -> None:
    found, _told = measured(CHECKPOINT)
    # of “cab”, “hello” and “abba”: c is rarer than a and b; in the others there are
    # two as rare, h and e, or a and b
    trace = Decoding(CHECKPOINT, "cab").feed("bacc")
    words = trace.attention("cross", 0)[:, :-1, :-1]
    shares = (words.argmax(-1) == 0).mean(-1)
    np.testing.assert_allclose(found.mean("rare", "cross")[0], shares)
    assert (found.counts["cross"][AT["rare"]] == 4).all()


def test_importance_is_the_mean_of_a_token_and_examples_are_its_extremes() -> None:
    found, _told = measured(CHECKPOINT)
    sums, tokens = np.zeros((2, 2)), 0
    for source, reference in TEXTS:
        decoding = Decoding(CHECKPOINT, source)
        tokens += len(decoding.feed(reference).steps)
        sums += np.abs(by_gradient(CHECKPOINT, decoding.known)[0]["decoder"])
    np.testing.assert_allclose(
        found.mean("importance", "decoder"), sums / tokens, atol=1e-6
    )
    examples = found.examples("importance", "decoder", 1, 0)
    assert len(examples) == 3
    values = [one.value for one in examples]
    assert values == sorted(values, reverse=True)
    one = examples[0]
    alone, _told = measured(CHECKPOINT, [one.pair])
    assert alone.mean("importance", "decoder")[1, 0] == pytest.approx(one.value)


def test_pairs_that_cannot_be_run_are_named_and_the_others_count() -> None:
    broken = tiny_checkpoint(seed=4)
    pairs = [*PAIRS, PairLine(4, "a", "b" * 80)]
    found, told = measured(broken, pairs)
    assert len(found) == 3
    assert [one[:22] for one in told] == ["Line 4 is left out: Th"]
    with pytest.raises(InputError, match="None of the pairs"):
        measured(broken, pairs[3:])
    own, _told = measured(broken, [PairLine(1, "cab", None)])
    fed = Decoding(broken, "cab").finish()
    weights = fed.attention("encoder", 0)[:, :-1, :-1]
    np.testing.assert_allclose(
        own.mean("confidence", "encoder")[0], weights.max(-1).mean(-1), atol=1e-6
    )


def test_heads_of_nan_have_no_data() -> None:
    broken = tiny_checkpoint(seed=4)
    with torch.no_grad():
        attention(broken.model, "encoder", 1).query.weight[0] = torch.nan  # head 1
    found, _told = measured(broken)
    assert np.isnan(found.mean("confidence", "encoder")[1, 0])
    assert np.isfinite(found.mean("confidence", "encoder")[1, 1])
    assert not found.examples("confidence", "encoder", 1, 0)
    assert all(np.isnan(of[1, 0]) for of in found.shares("encoder").values())


def test_a_changed_run_has_no_norms_but_the_rest() -> None:
    change = parse(["head cross off @ L1H1"])
    found, _told = measured(CHECKPOINT, change=change)
    assert np.isnan(found.mean("sink norm", "cross")).all()
    assert np.isfinite(found.mean("sink", "cross")).all()


def test_a_folder_of_transformers_is_measured_as_far_as_it_is_known(
    tmp_path: Path,
) -> None:
    pytest.importorskip("transformers")
    from tests.system.formats.hugging_face.families import write_folder

    model = visformer.load(write_folder(tmp_path / "folder", "BART"))
    found, told = measured(model, [PairLine(1, "a b", "a b")])
    assert not told
    assert np.isnan(found.mean("importance", "cross")).all()
    trace = Decoding(model, "a b").feed("a b")
    last = trace.attention("cross", 0)[:, :, trace.source_ids == model.ends[0]]
    rows = [step.id not in model.ends for step in trace.steps]
    np.testing.assert_allclose(
        found.mean("sink", "cross")[0], last[:, rows].sum(-1).mean(-1), atol=1e-6
    )


def links(words: Iterable[str]) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in (word.split("-") for word in words)}


def test_the_alignment_error_rate_is_that_of_loops_by_hand(tmp_path: Path) -> None:
    """Pieces, both conventions and the sums over sentences, written out."""
    model = visformer.load(BUNDLED)
    texts = ("Where is the station?", "Où est la gare ?"), ("I'm unlikely.", "Je suis.")
    gold = "0-0 1-1 2-2 3-3 3p4", "0-0 1p1"
    path = tmp_path / "pairs.talp"
    path.write_text("\n".join(gold), "utf-8")
    pairs = [PairLine(at, *pair) for at, pair in enumerate(texts, 1)]
    read = gold_file(path)
    found, skipped = measured(model, pairs, gold=read)
    assert skipped == []
    for name, later in (("awo", 0), ("awi", 1)):
        right = of = 0
        for (source, reference), line in zip(texts, gold, strict=True):
            trace = Decoding(model, source).feed(reference)
            weights = trace.attention("cross", 1, 3)
            made = set()
            words = [text.split() for text in ("", *(s.text for s in trace.steps))]
            for word in range(len(reference.split())):
                rows = [
                    at + later
                    for at, (one, other) in enumerate(pairwise(words))
                    if one != other and len(other) == word + 1
                ]
                masses = []
                for match_word in range(len(source.split())):
                    columns = [
                        at
                        for at, (a, b) in enumerate(trace.source_spans)
                        if a < b and len(source[:b].split()) == match_word + 1
                    ]
                    masses.append(weights[rows][:, columns].sum(1).mean())
                made.add((int(np.argmax(masses)), word))
            sure = links(word for word in line.split() if "p" not in word)
            possible = links(line.replace("p", "-").split())
            right += len(made & sure) + len(made & possible)
            of += len(made) + len(sure)
        assert found.mean(name, "cross")[1, 3] == pytest.approx(1 - right / of)
        assert found.mean(name, MEAN).shape[1] == 1
        assert np.isnan(found.mean(name, "encoder")).all()


def test_a_gold_file_that_does_not_fit_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pairs.talp"
    path.write_text("0-0 1:1\n", "utf-8")
    with pytest.raises(InputError, match="“1:1” is neither"):
        gold_file(path)
    path.write_text("0-0\n5-0\n", "utf-8")
    _found, skipped = measured(CHECKPOINT, gold=gold_file(path))
    assert skipped == ["Line 2: its gold alignment does not fit its words."]
