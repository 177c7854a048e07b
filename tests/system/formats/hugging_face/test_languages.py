"""Models of several languages: asked in the form, given, or as the folder says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import visformer
from tests.system.formats.hugging_face.parity import compared, opened, opened_once
from visformer.errors import InputError
from visformer.formats.loading import checkpoint_files

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own
FolderOf = Callable[[str], Path]


def test_the_form_asks_from_which_to_which(folder_of: FolderOf) -> None:
    folder = folder_of("NLLB")
    form = checkpoint_files(str(folder), ()).questionnaire()
    assert form is not None
    asked = {question.name: question for question in form.questions}
    assert set(asked) == {"source_language", "target_language"}
    codes = [value for value, _words in asked["target_language"].choices]
    assert codes == ["eng_Latn", "fra_Latn", "zho_Hans"]
    assert asked["source_language"].default == "eng_Latn"
    given = (("source_language", "fra_Latn"), ("target_language", "eng_Latn"))
    answered = checkpoint_files(str(folder), given)
    assert answered.questionnaire() is None
    again = answered.questionnaire(every=True)
    assert again is not None
    assert [question.default for question in again.questions] == [
        "fra_Latn",
        "eng_Latn",
    ]


def test_a_target_begins_with_its_language(folder_of: FolderOf) -> None:
    for name, languages, first in (
        ("NLLB", ("eng_Latn", "zho_Hans"), "zho_Hans"),
        ("M2M100", ("fr", "en"), "__en__"),
    ):
        model = opened_once(folder_of(name), languages)
        trace = visformer.Decoding(model, "the cat").finish()
        assert trace.source[0] in (languages[0], f"__{languages[0]}__")
        assert trace.steps[0].token == first
        assert model.multilingual
        assert visformer.Decoding(model, "the").feed("a dog").steps[0].token == first
    assert compared(folder_of("NLLB"), "NLLB", 2)[2:] == (2, 2, 2)


def test_an_older_mbart_starts_with_the_language(folder_of: FolderOf) -> None:
    model = opened_once(folder_of("mBART"), ("en_XX", "de_DE"))
    trace = visformer.Decoding(model, "the cat").finish()
    assert (trace.source[-1], trace.target[0]) == ("en_XX", "de_DE")


def test_what_is_not_given_is_said(folder_of: FolderOf) -> None:
    said = opened(folder_of("M2M100")).assumed
    assert "source_language = en (not given)" in said
    assert "target_language = none (not given)" in said
    with pytest.raises(InputError, match="this model knows eng_Latn, fra_Latn"):
        opened(folder_of("NLLB"), ("english", "fra_Latn"))
    with pytest.raises(InputError, match="models of several languages"):
        opened(folder_of("T5"), ("en", "fr"))
    with pytest.raises(InputError, match="models of several languages"):
        visformer.load("checkpoints/reverse", target_language="fr")
    with pytest.raises(TypeError, match="the code of a language"):
        visformer.load("checkpoints/reverse", target_language=3)
