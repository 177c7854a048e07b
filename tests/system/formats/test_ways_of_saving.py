"""Every way of saving ends as it should: at once, after questions, or in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.formats.ways_of_saving import WAYS_OF_SAVING, outcome

AT_ONCE = {
    *("Lightning", "Lightning with an object of settings", "a Namespace beside"),
    *("a dict of settings beside", "a dataclass of settings beside"),
    *("torch.save(model), torch.nn.Transformer inside", "the same, saved whole"),
    "config.json beside",
    # a module says how many heads it has
    *("torch.save(model)", "torch.save(model), before 1.6", "pickle.dump(model)"),
    *("torch.save(model.half())", "torch.save(DataParallel(model))"),
    *("pickle.dump(model, protocol=2)", "{model: model, vocab: objects}"),
    "a module in memory",
}
REFUSED = {  # with which words
    "numpy.savez": "was made for NumPy, which is not read",
    "TorchScript": "is a TorchScript program, not weights",
    "an archive .zip": "Unpack it",
    "an archive .tar.gz": "Unpack it",
    "a state dict in memory": "does not say how many heads it has",
    "The Annotated Transformer": "Load it yourself and call visformer.watch",
    "fairseq": "Load it yourself and call visformer.watch",
    "only an optimizer": "holds no state dict of tensors",
    "a folder with several epochs": "holds several files of weights",
    "an ONNX file": "visformer.wrap",
    "a GGUF file": "visformer.wrap",
    "a web page": "is a web page",
    "a Git LFS pointer": "git lfs pull",
    "a Hub id": "hf download Helsinki-NLP/opus-mt-en-fr",
}
MOST_QUESTIONS = {  # where it is not four to six
    "one half alone": 7,
    "other names of everything": 28,
    "hyunwoongko/transformer": 27,
    "state_dict of the torch layout": 14,
    "torch.nn.Transformer(bias=False)": 14,
    "torch's encoder and decoder, learned positions": 12,
    "the same, tied output": 12,
}
WITH_VOCABULARY = {
    *("{model: model, vocab: objects}", "dicts of tokens in the file"),
    *("word2idx in the file", "vocab.json beside", "vocab.txt beside"),
}


@pytest.mark.parametrize("way", WAYS_OF_SAVING)
def test_what_becomes_of_a_file(tmp_path: Path, way: str) -> None:
    made = outcome(WAYS_OF_SAVING[way], tmp_path)
    if way in REFUSED:
        assert made.what == "refused"
        assert REFUSED[way] in made.words
    elif way in AT_ONCE:
        assert made.what == "at once"
    else:
        assert made.what == "asked"
        assert made.questions <= MOST_QUESTIONS.get(way, 6)
        assert made.needed == (way == "one half alone")
    assert ("vocabulary of words" in made.words) == (way in WITH_VOCABULARY)
    assert len(made.words) <= 200


def test_there_are_enough_ways() -> None:
    assert len(WAYS_OF_SAVING) >= 60
    assert {*AT_ONCE, *REFUSED, *MOST_QUESTIONS, *WITH_VOCABULARY} <= {*WAYS_OF_SAVING}
