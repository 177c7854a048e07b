"""What is said of norms, positions, lenses and NaN follows from the run's arrays."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.general_traces import any_trace
from tests.tiny_models import tiny_checkpoint
from tests.traces import fed, make_trace
from tests.unit.pictures.computed import looked_at, shown, state_of
from visformer.core.decoding import Decoding
from visformer.language import _, ngettext
from visformer.pictures.candidates import candidate_table, kept_words
from visformer.pictures.computation.stages import picture, stage_names, stage_of
from visformer.pictures.diagram.architecture import architecture
from visformer.pictures.diagram.model_words import about
from visformer.pictures.selection import Selection
from visformer.pictures.words.explanations import explanation
from visformer.pictures.words.scene import Scene
from visformer.session.state import State
from visformer.values.intervention import parse
from visformer.values.trace import Trace

HEAD = Selection(kind="cross", layer=0, head=0)


def decoded(change: str = "", text: str = "abc", **sizes: Any) -> tuple[Any, Trace]:
    checkpoint = tiny_checkpoint(**sizes)
    changes = parse([change])
    return checkpoint, Decoding(
        checkpoint, text, limit=4, intervention=changes
    ).finish()


def scene(trace: Trace, **fields: Any) -> Scene:
    return replace(Scene(trace=trace, model=trace.model, selection=HEAD), **fields)


def all_words(trace: Trace, block: str) -> str:
    """Return every word of the diagram with a block's inside shown."""
    drawn = architecture(trace, None, HEAD, chosen=block)
    assert drawn is not None
    said = (" ".join((box.title, box.detail, box.words)) for box in drawn.boxes)
    return " ".join(" ".join(said).split())


def stage_words(state: State, stage: str) -> str:
    made = picture(stage_of(stage), looked_at(state))
    return made if isinstance(made, str) else f"{made.formula} {made.words}"


# ---- positions -------------------------------------------------------------------


def test_positions_that_are_not_known_are_not_described() -> None:
    trace = any_trace()
    for page in ("table", "input"):
        assert explanation(("positions", page), scene(trace)) == ""
    nothing = decoded(positions="none")[1]
    assert explanation(("positions", "table"), scene(nothing)) == ""


def test_a_table_that_a_run_was_not_given_is_not_called_its_own() -> None:
    _checkpoint, trace = decoded("positions constant 0")
    said = explanation(("positions", "table"), scene(trace))
    assert said.endswith("Changed in this run: positions constant 0.")


# ---- norms, scales, masks ---------------------------------------------------------


def stage_said(trace: Trace, stage: str, **fields: Any) -> str:
    return explanation(("computation",), scene(trace, stage=stage, **fields))


def test_a_layer_that_is_skipped_is_not_said_to_end_with_its_norm() -> None:
    checkpoint, trace = decoded("layer decoder off @ L2")
    state = state_of(checkpoint, trace, kind="decoder", layer=1)
    made = picture(stage_of("feed_residual"), looked_at(state))
    assert not isinstance(made, str)
    assert "Then the stream is changed by layer decoder off @ L2." in made.words
    last, entered = made.maps[-1], trace.hidden("decoder", 1)
    assert last.sign == "→ norm"
    assert np.abs(last.make().values - entered).max() > 0.1
    at = replace(HEAD, kind="decoder", layer=1)
    said = stage_said(trace, "feed_residual", selection=at)
    assert "“layer decoder off @ L2” changes what leaves the layer." in said


@pytest.mark.parametrize("first", [True, False])
def test_a_norm_is_said_to_be_where_the_model_has_it(first: bool) -> None:
    checkpoint, trace = decoded(norm_first=first)
    state = state_of(checkpoint, trace)
    made = picture(stage_of("residual"), looked_at(state))
    assert not isinstance(made, str)
    said = stage_said(trace, "residual")
    assert ("No norm follows" in said) == first == ("without a norm" in made.words)
    titles = [one.make().title for one in made.maps]
    adds = "sublayer(norm(x))" if first else "sublayer(x)"
    assert [title.split(" [")[0] for title in titles][1:3] == [adds, f"x + {adds}"]
    assert ("→ norm" in [one.sign for one in made.maps]) == (not first)


def test_a_norm_over_several_tokens_is_not_said_to_be_of_one() -> None:
    for length in (0, 4):
        _checkpoint, trace = decoded(encoder_norm_length=length)
        encoder = replace(HEAD, kind="encoder")
        said = stage_said(trace, "norms", selection=encoder)
        assert ("several tokens at once" in said) == bool(length)
        assert "over one token's numbers" in stage_said(trace, "norms")  # the decoder's
        said = all_words(trace, "encoder.0.self_attention_norm")
        assert ("applied to 4 rows of D = 16 at once" in said) == bool(length)
        assert ("each row separately" in said) != bool(length)


def test_of_a_model_whose_blocks_are_not_known_only_attention_is_explained() -> None:
    trace = any_trace()
    known = {"product", "scale", "mask", "softmax", "weighted"}
    for stage in stage_names():
        assert bool(stage_said(trace, stage)) == (stage in known)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("", "1 / √8, as"),
        ("scale 0", "times 0: in the paper it would be 1 / √8"),
        ("scale -1", "in the paper it"),
        ("scale off", "not scaled"),
    ],
)
def test_a_scale_claims_nothing_of_the_rows(change: str, words: str) -> None:
    checkpoint, trace = decoded(change)
    said = stage_said(trace, "scale")
    assert words in said
    assert "nearly all" not in said + stage_words(state_of(checkpoint, trace), "scale")
    block = all_words(trace, "decoder.0.cross_attention")
    assert ("1/√8" in block) == (change == "")


# ---- NaN ---------------------------------------------------------------------------


def test_scores_that_overflow_are_not_called_broken_inputs() -> None:
    trace = make_trace()
    rows = trace.decoder_rows * np.float32(1e20)
    memory = trace.memory_rows * np.float32(1e20)
    huge = replace(trace, decoder_rows=rows, memory_rows=memory)
    state = state_of(tiny_checkpoint(), huge)
    looked = looked_at(state)
    assert np.isnan(looked.weights[looked.query]).all()
    assert "The scores of this query overflow float32" in stage_words(state, "softmax")
    assert np.isnan(shown(state, "softmax").table.values[1:]).all()
    for stage in ("scale", "mask", "product", "weighted"):
        stage_words(state, stage)  # numpy warns of nothing


# ---- lenses and ranks --------------------------------------------------------------


# ---- counts and numbers ------------------------------------------------------------


def test_a_token_that_is_not_of_the_best_is_not_counted_among_them() -> None:
    trace = make_trace(target=4)
    forced = fed(trace, {3: "forced"}, wrong=(3,))
    for run in (trace, forced):
        assert "keeps the best 5 of 50" in kept_words(candidate_table(run))


def test_the_counts_of_blocks_add_up_to_the_models_parameters() -> None:
    config = tiny_checkpoint(tied_output=True, output_bias=True)
    trace = Decoding(config, "abc", limit=2).finish()
    (words,) = [said for said in about(trace.model) if "embeddings" in said]
    assert words.endswith("output 30 and shared")
    total, *parts = (int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", words))
    assert sum(parts) == total


def test_every_sentence_has_one_minus_sign() -> None:
    assert _("differ by {x:.2g}", x=2e-6) == "differ by 2e−06"
    assert ngettext("{n} at {x:g}", "{n} at {x:g}", 2, x=-math.inf) == "2 at −∞"
    assert _("eps={x}", x=1e-6) == "eps=1e-06"  # it may be typed
