"""Marian folders make the text that transformers' ``generate()`` makes of them."""

from __future__ import annotations

import copy
import itertools
import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.system.formats.test_marian import PAD, VOCABULARY, random_model
from visformer.core import search as searching
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.mask_rules import padded
from visformer.core.passes import run
from visformer.core.translation import translate
from visformer.errors import CheckpointError
from visformer.formats.loading import load
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import KINDS
from visformer.values.step import Strategy

EOS = 0
USUAL = {
    "bad_words_ids": [[PAD]],
    "decoder_start_token_id": PAD,
    "eos_token_id": EOS,
    "forced_eos_token_id": EOS,
    "max_length": 24,
    "pad_token_id": PAD,
}
SOURCES = [
    [7, 12, 33, 4, EOS],
    [9, EOS],
    [21, 21, 8, 40, 13, 55, 3, EOS],
    [30, 2, 11, EOS],
    [50, 44, EOS],
]


@cache
def wordy_model(seed: int, ending: float = 0.0) -> Any:
    """Return a model whose sentences differ in words and length; ``ending`` ends them.

    It is made once: who asks for it changes nothing in it.

    Positions weigh as much as words in it, and its output is not tied to the embedding:
    or it would say one word for ever.
    """
    model = random_model(tie_word_embeddings=False, d_model=32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "embed_positions" not in name:
                std = {"lm_head.weight": 0.25, "model.shared.weight": 0.2}
                parameter.normal_(std=std.get(name, 0.1), generator=generator)
        model.final_logits_bias.normal_(std=0.3, generator=generator)
        model.final_logits_bias[:, EOS] = ending
    return model


def search(checkpoint: Checkpoint, sources: list[list[int]], beam: int) -> Any:
    return [one.best for one in searching.search(checkpoint, sources, beam=beam)]


def saved(folder: Path, model: Any, **settings: Any) -> Checkpoint:
    model.save_pretrained(folder)
    given = {k: v for k, v in {**USUAL, **settings}.items() if v is not None}
    (folder / "generation_config.json").write_text(json.dumps(given))
    return load(folder, device="cpu")


def generated(
    folder: Path, sources: list[list[int]], model: Any = None, **more: Any
) -> list[list[int]]:
    """Return transformers' ids of the folder, what follows the end left out.

    With ``model``, whose weights are the folder's, only the settings are read there.
    """
    import transformers

    if model is None:
        model = transformers.MarianMTModel.from_pretrained(folder).eval()
    else:
        model = copy.copy(model)
        read = transformers.GenerationConfig.from_pretrained(folder)
        model.generation_config = read
    ids = padded(sources, PAD)
    made = model.generate(ids, attention_mask=(ids != PAD).long(), **more)
    ends = model.generation_config.eos_token_id
    return [trimmed(row, [ends] if isinstance(ends, int) else ends) for row in made]


def trimmed(row: torch.Tensor, ends: list[int]) -> list[int]:
    ids: list[int] = row[1:].tolist()
    stop = next((i + 1 for i, id in enumerate(ids) if id in ends), len(ids))
    return ids[:stop]


def greedy(checkpoint: Checkpoint, source: list[int], **given: Any) -> list[int]:
    return [step.id for step in Decoding(checkpoint, source, **given).finish().steps]


MODELS = [(0, 1.5), (0, 2.5), (2, 1.0)]  # seeds, and how much each likes to end


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("early_stopping", [False, True, "never"])
def test_beams_are_those_of_generate(
    tmp_path: Path, early_stopping: bool | str
) -> None:
    lengths = set()
    ways = (2, 2.0), (4, 1.0), (6, 0.6)
    for which, (beams, penalty) in itertools.product(MODELS, ways):
        model = wordy_model(*which)
        told = {"num_beams": beams, "length_penalty": penalty}
        checkpoint = saved(tmp_path, model, early_stopping=early_stopping, **told)
        expected = generated(tmp_path, SOURCES)
        assert search(checkpoint, SOURCES, beam=beams) == expected, told
        assert search(checkpoint, SOURCES[2:3], beam=beams) == expected[2:3]
        lengths |= {len(ids) for ids in expected}
    assert 23 in lengths  # at the limit, where the end is forced
    assert len(lengths) > 5


def random_settings(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    return {
        "num_beams": draw.randint(2, 6),
        "length_penalty": draw.choice([-0.5, 0.0, 0.6, 1.0, 1.5, 2.0]),
        "early_stopping": draw.choice([True, False, "never"]),
        "max_new_tokens": draw.randint(1, 24),
    }


def by_a_hair(found: BeamSearch) -> bool:
    """Whether rounding may decide which candidate of some step is kept."""
    sums = np.sort(found.sums.astype(np.float64), 1)[:, ::-1]
    gaps = sums[:, found.beams - 1] - sums[:, found.beams]
    return bool(np.nanmin(gaps) < 1e-5)


def assert_hypotheses_are_those_of_generate(folder: Path, seeds: range) -> None:
    """Compare all hypotheses of a search, and their scores, for random settings."""
    import transformers

    opened = []
    for number, which in enumerate(MODELS):
        path = folder / str(number)
        checkpoint = saved(path, wordy_model(*which), max_length=None)
        own = transformers.MarianMTModel.from_pretrained(path).eval()
        opened.append((checkpoint, own))
    ids = padded(SOURCES, PAD)
    left, close = 0, 0
    for seed in seeds:
        told = random_settings(seed)
        (checkpoint, own), beams = opened[seed % len(MODELS)], told["num_beams"]
        made = own.generate(
            ids,
            attention_mask=(ids != PAD).long(),
            num_return_sequences=beams,
            output_scores=True,
            return_dict_in_generate=True,
            **told,
        )
        rules = replace(
            checkpoint.generation,
            length_penalty=told["length_penalty"],
            early_stopping=told["early_stopping"],
            max_tokens=told["max_new_tokens"],
        )
        changed = replace(checkpoint, generation=rules)
        found = searching.search(changed, SOURCES, beam=beams)
        for at, one in enumerate(found):
            rows = range(at * beams, (at + 1) * beams)
            theirs = {n: float(made.sequences_scores[n]) for n in rows}
            # where only the end may follow, theirs go on with impossible tokens
            theirs = {n: score for n, score in theirs.items() if score > -1e7}
            best = one.ranked()[:beams]
            scores = [hypothesis.score for hypothesis in best]
            targets = [list(one.line_of(hypothesis).ids) for hypothesis in best]
            expected = [trimmed(made.sequences[n], [EOS]) for n in theirs]
            if targets != expected and by_a_hair(one):
                close += 1
                continue
            assert targets == expected, (seed, told)
            assert scores == pytest.approx([*theirs.values()], 2e-5, 2e-5), told
        left += len({len(one) for one in found}) > 1
    assert left > len(seeds) / 10  # sentences left the batch one by one
    assert close < len(seeds) / 20


@pytest.mark.filterwarnings("ignore")
def test_hypotheses_and_scores_are_those_of_generate(tmp_path: Path) -> None:
    assert_hypotheses_are_those_of_generate(tmp_path, range(12))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_hypotheses_and_scores_under_50_settings(tmp_path: Path) -> None:
    assert_hypotheses_are_those_of_generate(tmp_path, range(12, 62))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("seed", "ending"), MODELS)
def test_greedy_is_that_of_generate(tmp_path: Path, seed: int, ending: float) -> None:
    checkpoint = saved(tmp_path, wordy_model(seed, ending))
    expected = generated(tmp_path, SOURCES)
    assert [greedy(checkpoint, source) for source in SOURCES] == expected
    assert search(checkpoint, SOURCES, beam=1) == expected
    shorter = generated(tmp_path, SOURCES, max_new_tokens=5)
    assert [greedy(checkpoint, source, limit=5) for source in SOURCES] == shorter


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize(
    "settings",
    [
        {"no_repeat_ngram_size": 2},
        {"no_repeat_ngram_size": 1},
        {"repetition_penalty": 1.7},
        {"min_length": 6},
        {"min_new_tokens": 5, "min_length": 9},
        {"forced_bos_token_id": 7},
        {"bad_words_ids": [[PAD], [22], [27, 55], [PAD, 27], [21, 21, 57], [EOS]]},
        {"bad_words_ids": None},
        {"bad_words_ids": [[PAD], [22], [57], [27]], "renormalize_logits": True},
        {"suppress_tokens": [27, 6]},
        {"begin_suppress_tokens": [27, EOS]},
        {"begin_suppress_tokens": [27, EOS], "forced_bos_token_id": 7},
        {"eos_token_id": [EOS, 55, 3], "forced_eos_token_id": [EOS, 3]},
        {"forced_eos_token_id": None},
        {"max_new_tokens": 9, "max_length": 40},
        {"max_length": None},
        {"length_penalty": -0.5, "early_stopping": "never"},
    ],
    ids=str,
)
def test_every_setting_is_followed(
    tmp_path: Path, settings: dict[str, Any], beams: int
) -> None:
    for seed, ending in ((0, 0.5), (2, 2.5)):
        model = wordy_model(seed, ending)
        checkpoint = saved(tmp_path, model, num_beams=beams, **settings)
        expected = generated(tmp_path, SOURCES, model)
        assert search(checkpoint, SOURCES, beam=beams) == expected
        if beams == 1:
            alone = [greedy(checkpoint, source) for source in SOURCES[:3]]
            assert alone == expected[:3]


def near(ours: Any, theirs: torch.Tensor) -> bool:
    largest = max(1.0, float(theirs.abs().max()))
    return bool((torch.from_numpy(ours) - theirs).abs().max() <= 2e-5 * largest)


@pytest.mark.filterwarnings("ignore")
def test_every_number_of_a_padded_batch(tmp_path: Path) -> None:
    import transformers

    checkpoint = saved(tmp_path, wordy_model(4))
    model = transformers.MarianMTModel.from_pretrained(
        tmp_path, attn_implementation="eager"
    )
    source = padded(SOURCES, PAD)
    target = padded([[PAD, 5, 9], [PAD, 7, 7, 30, 2]] * 2 + [[PAD]], PAD)
    with torch.no_grad():
        told = model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=target,
            output_attentions=True,
            output_hidden_states=True,
        )
    for row, trace in enumerate(run(checkpoint, source, target)):
        assert near(trace.logits, told.logits[row])
        assert near(trace.encoder_output, told.encoder_last_hidden_state[row])
        maps = (told.encoder_attentions, told.decoder_attentions, told.cross_attentions)
        for kind, layers in zip(KINDS, maps, strict=True):
            assert trace.layers(kind) == len(layers)
            for layer, weights in enumerate(layers):
                assert near(trace.attention(kind, layer), weights[row]), (kind, layer)


@pytest.mark.filterwarnings("ignore")
def test_the_attention_of_every_step_made(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, wordy_model(0))
    import transformers

    model = transformers.MarianMTModel.from_pretrained(
        tmp_path, attn_implementation="eager"
    )
    told = model.generate(
        torch.tensor([SOURCES[2]]),
        output_attentions=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    trace = Decoding(checkpoint, SOURCES[2]).finish()
    assert [step.id for step in trace.steps] == told.sequences[0, 1:].tolist()
    for at in range(len(trace.steps)):
        assert near(trace.logits[at], told.logits[at][0])
        for layer in range(trace.layers("cross")):
            own = told.decoder_attentions[at][layer][0, :, -1]
            assert near(trace.attention("decoder", layer)[:, at, : at + 1], own)
            across = told.cross_attentions[at][layer][0, :, -1]
            assert near(trace.attention("cross", layer)[:, at], across)


@pytest.mark.filterwarnings("ignore")
def test_settings_inside_an_old_config(tmp_path: Path) -> None:
    model = wordy_model(0, 1.5)
    saved(tmp_path, model)
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {**USUAL, "num_beams": 3, "bad_words_ids": [[PAD], [27]]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    checkpoint = load(tmp_path, device="cpu")
    assert checkpoint.generation.beams == 3
    assert search(checkpoint, SOURCES, beam=3) == generated(tmp_path, SOURCES)


@pytest.mark.filterwarnings("ignore")
def test_the_probabilities_shown_are_the_models_own(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, wordy_model(2, 2.5), bad_words_ids=[[PAD], [22]])
    free = saved(tmp_path, wordy_model(2, 2.5), bad_words_ids=None)
    step = Decoding(checkpoint, SOURCES[0]).step().steps[0]
    usual = Decoding(free, SOURCES[0]).step().steps[0]
    assert usual.id == 22
    assert step.id != 22
    assert step.candidates == usual.candidates
    assert step.rank > 1
    sampled = Decoding(checkpoint, SOURCES[0], strategy=Strategy(name="sample"))
    assert not {PAD, 22} & {step.id for step in sampled.finish().steps}


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_followed_is_said(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, wordy_model(0), do_sample=True, guidance_scale=1.0)
    assert checkpoint.assumed == (
        "do_sample = True in generation_config.json is ignored",
    )
    short = saved(tmp_path, wordy_model(0), max_length=None)
    assert short.assumed[0].startswith("max_new_tokens = 20 (")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("num_beams", 10**9, "num_beams is 1000000000, but must be a whole number"),
        ("length_penalty", "much", "length_penalty is 'much', but must be a number"),
        ("early_stopping", 1, 'must be one of false, true, "never".'),
        ("bad_words_ids", [[VOCABULARY]], "a list of lists of ids from 0 to 59"),
        ("bad_words_ids", [[]], "a list of lists of ids"),
        ("eos_token_id", -1, "eos_token_id is -1"),
        ("max_length", 1, "max_length is 1, but must be a whole number from 2 to"),
        ("renormalize_logits", "yes", "must be one of false, true."),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_setting_that_is_none_is_refused(
    tmp_path: Path, key: str, value: object, words: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        saved(tmp_path, wordy_model(0), **{key: value})
    assert words in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_translate_takes_the_folders_own_beams(tmp_path: Path) -> None:
    model = wordy_model(2, 0.5)
    checkpoint = saved(tmp_path, model, num_beams=4, length_penalty=2.0)
    text = "7 12 33"
    assert translate(checkpoint, [text]) == translate(checkpoint, [text], beam=4)
    assert translate(checkpoint, [text]) != translate(checkpoint, [text], beam=1)
