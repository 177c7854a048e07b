"""Folders of transformers: opened safely, and as transformers itself has them."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import visformer
from tests.system.formats.hugging_face.families import FAMILIES, sentences
from tests.system.formats.hugging_face.parity import (
    CLOSE,
    compared,
    opened,
    opened_once,
)
from visformer.engine.decodes import Decodes
from visformer.engine.messages import Answer, Decode, Nearest, Passed
from visformer.engine.process import nearest
from visformer.errors import CheckpointError, InputError
from visformer.formats.hugging_face import modules as hub
from visformer.formats.hugging_face.folder_model import FolderModel
from visformer.values.trace import Trace

if TYPE_CHECKING:
    pass

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own
FolderOf = Callable[[str], Path]


SOME = "T5", "BART", "Marian, unequal", "GPT-2", "BERT"


@pytest.mark.parametrize("name", SOME)
def test_a_family_is_as_transformers_has_it(name: str, folder_of: FolderOf) -> None:
    check(name, folder_of)


@pytest.mark.slow
@pytest.mark.parametrize("name", [x for x in FAMILIES if x not in SOME])
def test_so_is_every_other_family(name: str, folder_of: FolderOf) -> None:
    check(name, folder_of)


def check(name: str, folder_of: FolderOf, count: int = 2) -> None:
    """Compare so many sentences; ``hugging_face.parity`` compares 40 of each family."""
    found = compared(folder_of(name), name, count)
    assert found.attention < CLOSE
    assert found.greedy == count
    if FAMILIES[name].suffix != "ForMaskedLM":
        assert (found.beams, found.sampled) == (count, count)


@pytest.fixture
def copied(folder_of: FolderOf, tmp_path: Path) -> Path:
    """Return a folder of BART that a test may change."""
    return Path(shutil.copytree(folder_of("BART"), tmp_path / "bart"))


def change(folder: Path, file: str, **keys: Any) -> Path:
    value = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(value | keys))
    return folder


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        opened(path)
    return str(caught.value)


def test_what_it_says_of_itself(folder_of: FolderOf) -> None:
    model = opened_once(folder_of("T5"))
    assert isinstance(model, FolderModel)
    assert model.facts.kinds == ("encoder", "decoder", "cross")
    assert [model.facts.layers(kind) for kind in model.facts.kinds] == [2, 2, 2]
    assert model.facts.digest == model.digest != ""
    assert (model.layout, model.findings) == ("transformers", ())
    assert "2 encoder, 2 decoder, 2 cross" in repr(model)


def test_steps_go_back_and_forth(folder_of: FolderOf) -> None:
    decoding = visformer.Decoding(opened_once(folder_of("BART")), "The cat sees a dog.")
    whole = decoding.finish()
    assert decoding.back(3).target == whole.target[:-3]
    assert decoding.step(3).text == whole.text
    assert decoding.back(20).target == ()
    forced = decoding.force("▁dog")
    assert [step.origin for step in forced.steps] == ["forced"]
    assert decoding.step().target[1] == "▁dog"
    with pytest.raises(InputError, match="not a single token"):
        decoding.force("dog and cat")


def test_steps_one_by_one_are_one_run(folder_of: FolderOf) -> None:
    model, text = opened_once(folder_of("T5")), sentences(1)[0]
    whole, single = (visformer.Decoding(model, text, limit=6) for _ in range(2))
    last = whole.finish()
    while not single.ended:
        trace = single.step()
        for kind in ("decoder", "cross"):
            ours, theirs = (
                t.attention(kind, 1) for t in (trace, last.until(len(trace)))
            )
            assert abs(ours - theirs).max() < CLOSE
    assert single.trace.text == last.text


@pytest.mark.parametrize("name", ["T5", "Marian, unequal", "GPT-2"])
def test_hypotheses_and_scores_are_those_of_generate(
    name: str, folder_of: FolderOf
) -> None:
    from tests.system.formats.hugging_face.parity import Own

    model, own = opened_once(folder_of(name)), Own(folder_of(name), None)
    for text in sentences(2, seed=4):
        ids = own.ids(text)
        made = own.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            num_beams=4,
            num_return_sequences=3,
            output_scores=True,
            return_dict_in_generate=True,
            do_sample=False,
        )
        (found,) = visformer.search(text, model, beam=4, n_best=3)
        ours = found["hypotheses"]
        scores = made.sequences_scores.tolist()
        assert [one["score"] for one in ours] == pytest.approx(scores, abs=2e-5)
        start = 1 if own.model.config.is_encoder_decoder else ids.shape[1]
        read = own.tokenizer.batch_decode(
            made.sequences[:, start:], skip_special_tokens=True
        )
        assert [one["text"] for one in ours] == read
        way = visformer.Strategy("beam", beams=4)
        assert (
            visformer.Decoding(model, text, strategy=way).finish().text[-20:]
            == (read[0][-20:])
        )


def test_a_changed_folder_is_searched_by_passes(folder_of: FolderOf) -> None:
    way, text = visformer.Strategy("beam", beams=2), sentences(1)[0]
    change = "head cross off @ L1H1"
    model = opened_once(folder_of("T5"))
    decoding = visformer.Decoding(
        model, text, strategy=way, limit=4, intervention=change
    )
    trace, found = decoding.finish(), decoding.search
    assert found is not None
    best = found.line_of(found.ranked()[0])
    assert [step.id for step in trace.steps] == list(best.ids)
    probabilities = [math.exp(x) for x in best.logprobs]
    shown = [step.probability for step in trace.steps]
    assert shown == pytest.approx(probabilities, abs=1e-4)


def test_a_reference_is_fed(folder_of: FolderOf) -> None:
    decoding = visformer.Decoding(opened_once(folder_of("T5")), "The cat sees a dog.")
    trace = decoding.feed("a dog sees")
    assert trace.target[0] == "<pad>"
    assert [step.token for step in trace.steps][-1] == "</s>"
    assert trace.text == "a dog sees"


def test_rules_of_a_folder_are_followed(copied: Path) -> None:
    from tests.system.formats.hugging_face.parity import Own

    rules = {
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.3,
        "forced_bos_token_id": 7,
    }
    change(copied, "generation_config.json", **rules, bad_words_ids=[[9], [10, 11]])
    own, model = Own(copied, None), opened(copied)
    for text in sentences(2):
        steps = visformer.Decoding(model, text).finish().steps
        assert [step.id for step in steps] == own.generated(text)
        assert steps[0].origin == "rule"
        theirs = own.generated(text, num_beams=2)
        read = own.tokenizer.decode(theirs, skip_special_tokens=True)
        assert visformer.translate([text], model, 2) == [read]


def test_pickled_weights_are_read_by_our_own_reader(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file

    expected = visformer.Decoding(opened(copied), "A cat.").finish().text
    torch.save(load_file(copied / "model.safetensors"), copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    monkeypatch.setattr(torch, "load", None)
    assert visformer.Decoding(opened(copied), "A cat.").finish().text == expected


def test_weights_in_several_files(copied: Path) -> None:
    from safetensors.torch import load_file, save_file

    expected = visformer.translate(["A cat."], opened(copied), 2)
    tensors = load_file(copied / "model.safetensors")
    (copied / "model.safetensors").unlink()
    halves = [list(tensors)[::2], list(tensors)[1::2]]
    for at, names in enumerate(halves):
        save_file({n: tensors[n] for n in names}, copied / f"part{at}.safetensors")
    places = {
        n: f"part{at}.safetensors" for at, names in enumerate(halves) for n in names
    }
    index = copied / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    assert visformer.translate(["A cat."], opened(copied), 2) == expected
    index.write_text(json.dumps({"weight_map": {"a": "../part0.safetensors"}}))
    said = refusal(copied)
    assert "index.json: “weight_map” is “../part0.safetensors”, but must be" in said


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_pipe_in_place_of_the_config_is_named(copied: Path) -> None:
    (copied / "config.json").unlink()
    os.mkfifo(copied / "config.json")
    assert refusal(copied).startswith("config.json is a pipe, not a file.")


def test_no_code_of_a_folder_runs(copied: Path, tmp_path: Path) -> None:
    canary = tmp_path / "ran"
    (copied / "code.py").write_text(f"open({str(canary)!r}, 'w')")
    own = {"AutoConfig": "code.A", "AutoModelForSeq2SeqLM": "code.A"}
    change(copied, "config.json", auto_map=own)
    assert opened(copied).facts.kinds  # what names code is not read
    change(
        copied, "tokenizer_config.json", auto_map={"AutoTokenizer": ["code.A", None]}
    )
    assert opened(copied).facts.kinds
    assert not canary.exists()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"model_type": "nosuch"}, "“nosuch”, which the installed transformers"),
        ({"model_type": "whisper"}, "“whisper”, which ids of tokens alone do not run"),
        ({"encoder_layers": 3}, "lacks tensors that its config asks for"),
        ({"encoder_layers": 10**9}, "but the weights are only"),
        ({"d_model": 16}, "cannot be opened by transformers"),
        ({"max_position_embeddings": 2**40}, "which no model has"),
        ({"num_decoder_layers": -1}, "num_decoder_layers is -1, which no model has"),
        ({"num_labels": 2**31 - 1}, "num_labels is 2147483647, which no model has"),
        ({"quantization_config": {"load_in_4bit": True}}, "quantized"),
    ],
)
def test_what_is_wrong_is_said(copied: Path, keys: dict[str, Any], words: str) -> None:
    assert re.search(words, refusal(change(copied, "config.json", **keys)))


def test_without_the_extra_one_sentence_names_the_command(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    assert 'pip install "visformer[hf]"' in refusal(copied)


def test_what_a_folder_has_no_way_for(copied: Path) -> None:
    model = opened(copied)
    with pytest.raises(InputError, match="takes no batch"):
        visformer.run(model, [[5]], [[2]])
    with pytest.raises(InputError, match="give only its path"):
        visformer.load(copied, heads=2)
    (copied / "model.safetensors").unlink()
    assert "no weights" in refusal(copied)


def test_a_long_text_is_cut_to_the_positions(copied: Path) -> None:
    trace = visformer.Decoding(opened(copied), "cat " * 100, limit=3).finish()
    assert (len(trace.source), trace.truncated_from > 100) == (64, True)
    assert trace.source[-1] == "</s>"


def test_all_that_was_decoded_before_a_stop_is_sent(copied: Path) -> None:
    """From the fifth token on only every second pass is."""
    sent: list[Answer] = []
    work = Decodes(sent.append).run(
        opened(copied), 1, Decode(source="The cat sees.", limit=9)
    )
    for _stop in range(6):  # the first is before the first step
        next(work)
    work.close()
    passes = [one.trace for one in sent if isinstance(one, Passed)]
    assert [len(trace.steps) for trace in passes] == [0, 1, 2, 3, 4, 5]


def test_a_trace_of_a_step_is_made_when_it_is_used(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, passes = opened(copied), []
    own = model.watched_pass

    def watched_pass(*given: Any) -> Any:
        passes.append(given)
        return own(*given)

    monkeypatch.setattr(model, "watched_pass", watched_pass)
    decoding = visformer.Decoding(model, "The cat sees.", limit=5)
    traces = [decoding.step() for _step in range(4)]
    assert not passes
    assert isinstance(traces[2], Trace)
    assert [len(trace) for trace in traces[::-1]] == [4, 3, 2, 1]
    assert len(passes) == 1  # the longest holds the others
    assert type(traces[0]) is Trace
    assert [one.text for one in traces] == [
        traces[3].until(n).text for n in range(1, 5)
    ]
    unused = decoding.step()
    with torch.no_grad():
        next(model.model.parameters()).add_(1)
    with pytest.raises(InputError, match="have changed since"):
        len(unused)


def test_every_position_is_decoded_at(copied: Path) -> None:
    """The start stands at the first of 64, and the last token chosen at none."""
    assert visformer.Decoding(opened(copied), "The cat.", limit=100).limit == 64


def test_the_library_is_left_as_it_was(copied: Path) -> None:
    logging = hub.library("transformers.utils.logging")
    logging.set_verbosity_info()
    logging.enable_progress_bar()
    try:
        opened(copied)
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity_warning()


def test_it_is_inspected_and_checked(copied: Path) -> None:
    report = visformer.inspect(copied, check=True)
    assert report["problem"] is None
    assert (report["layout"], report["config"]["d_model"]) == ("transformers", 32)
    assert report["tokenizer"]["kind"] == "transformers"
    assert report["check"]["passed"]
    said = {x["id"]: x for x in report["check"]["checks"]}
    assert said["cached-steps-differ"]["verdict"] == "passed"
    assert 0 < said["cached-steps-differ"]["measured"] < 2e-5


@pytest.mark.parametrize("name", ["T5", "GPT-2", "BERT"])
def test_the_nearest_tokens_are_those_of_its_input_embedding(
    name: str, folder_of: FolderOf
) -> None:
    model = opened_once(folder_of(name))
    module: Any = model.model
    names = model.tokenizer.source
    table = module.get_input_embeddings().weight.detach()[: names.size]
    cosines = torch.cosine_similarity(table, table[7:8])
    cosines[7] = -2
    found = nearest(model, Nearest(side="source", asked=7))
    assert found is not None
    assert found.tokens[0] == names.token(7)
    assert found.ids[1] == cosines.argmax()
    assert found.cosines[1] == pytest.approx(float(cosines.max()), abs=1e-5)
    assert (found.vocabulary, found.width) == table.shape
