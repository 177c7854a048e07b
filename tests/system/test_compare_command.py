"""``visformer compare`` and ``visformer.compare``: two checkpoints, or two runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visformer
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from tests.traces import make_trace
from visformer import RunComparison, SavedRun, cli
from visformer.errors import InputError
from visformer.pictures.comparison import comparison_words

QUERIES = "decoder.layers.0.cross_attention.query.weight"
Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints of letters that differ in one head's queries, and runs."""
    root = tmp_path_factory.mktemp("compared")
    one, other = (tiny_model(tied_output=False) for _number in range(2))
    with torch.no_grad():
        # the first head's queries of the decoder's first cross attention
        other.get_parameter(QUERIES)[:8] *= -3
    write_letters(root / "one", one)
    write_letters(root / "other", other)
    for name in ("one", "other"):
        trace = visformer.Decoding(str(root / name), "hello").finish()
        trace.save(root / f"{name}.vis")
    return root


def compared(*given: str | Path) -> int:
    return cli.main(["compare", *map(str, given)])


def test_the_exit_code_says_whether_they_are_equal(folder: Path, capsys: Said) -> None:
    same = folder / "one", folder / "one"
    assert compared(*same, "--text", "hello") == 0
    out = capsys.readouterr().out
    assert "The runs are equal, but for rounding" in out
    assert compared(folder / "one", folder / "other", "--text", "hello") == 1
    out = capsys.readouterr().out
    assert "cross attention differs most in layer" in out
    assert "encoder self attention: the same in every head compared." in out
    assert compared(folder / "one.vis", folder / "one.vis") == 0
    assert compared(folder / "one.vis", folder / "other.vis") == 1
    assert compared(folder / "one.vis", folder / "one") == 0  # it reads the same text
    assert compared(folder / "one.vis", folder / "one.vis", "--by", "position") == 0
    assert compared(folder / "one.vis", folder / "one.vis", "--by", "1-2") == 2
    assert "invalid choice" in capsys.readouterr().err


def test_json_is_what_python_returns(folder: Path, capsys: Said) -> None:
    sides = folder / "one", folder / "other"
    assert compared(*sides, "--text", "hello", "--reference", "hallo", "--json") == 1
    plain = json.loads(capsys.readouterr().out)
    made = visformer.compare(*sides, text="hello", reference="hallo")
    assert isinstance(made, RunComparison)
    assert plain == json.loads(json.dumps(made.plain()))
    assert [token.tokens for token in made.reference] == [
        *(tuple(letter) for letter in "hallo"),
        ("</s>",),
    ]
    fed = [visformer.Decoding(str(side), "hello").feed("hallo") for side in sides]
    for at, trace in enumerate(fed):
        own = [token.log_p[at] for token in made.reference]
        np.testing.assert_allclose(own, -trace.loss, atol=1e-5)


def test_heads_are_compared_over_the_rows_before_the_runs_part(folder: Path) -> None:
    made = visformer.compare(folder / "one", folder / "other", text="hello")
    traces = [
        visformer.Decoding(str(folder / name), "hello").finish()
        for name in ("one", "other")
    ]
    pairs = zip(*(trace.target_ids.tolist() for trace in traces), strict=False)
    rows = next((at for at, (a, b) in enumerate(pairs) if a != b), len(traces[0]))
    assert len(made.target.groups) == rows
    assert (made.parted is None) == (traces[0].text == traces[1].text)
    weights = [trace.attention("cross", 0)[:, :rows] for trace in traces]
    gaps = np.abs(weights[0] - weights[1]).max((1, 2))
    assert ((gaps > 1e-4) == (made.divergences["cross"][0] > 1e-6)).all()


def test_saved_runs_are_compared_under_their_names(folder: Path) -> None:
    trace = make_trace(source=6, target=5)
    a = SavedRun(trace=trace, name="first")
    b = SavedRun(trace=make_trace(source=6, target=5, seed=3), name="second")
    made = visformer.compare(a, b)
    assert made.names == ("first", "second")
    assert not made.equal
    (sentence, *_rest) = comparison_words(made)
    assert sentence.startswith(("They part at step", "“first” and “second” write"))
    assert visformer.compare(trace, trace).kind is None  # Traces: the first head
    broken = replace(trace, decoder_rows=np.full_like(trace.decoder_rows, np.nan))
    nan = visformer.compare(a, SavedRun(trace=broken))
    assert math.isnan(nan.divergences["decoder"][0, 0])
    said = " ".join(comparison_words(nan))
    assert "decoder self attention: 4 heads are NaN, and are not compared." in said
    assert not nan.equal


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("one", "other"), "--text"),
        (("one.vis", "other.vis", "--text", "hello"), "both sides are recorded runs"),
        (("one.vis", "one", "--reference", "hallo"), "cannot be fed a reference"),
        (("one", "nothing", "--text", "hello"), "nothing"),
        (("one", "other", "--text", " "), "--text is empty"),
        (("one", "other", "--text", "hello", "--by", "hand"), "invalid choice"),
    ],
)
def test_bad_input_is_one_sentence(
    folder: Path,
    given: tuple[str, ...],
    words: str,
    capsys: Said,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert compared(*given) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_python_refuses_what_it_cannot_compare(folder: Path) -> None:
    ids: Any = [[4, 5]]
    with pytest.raises(InputError, match=r"source is .*: the text is what is read"):
        visformer.compare(str(folder / "one"), str(folder / "other"), ids, ids)
    with pytest.raises(InputError, match="Say what the models are to translate: text="):
        visformer.compare(folder / "one", folder / "other")
    with pytest.raises(TypeError, match="b is 3, but must be a checkpoint, its path"):
        visformer.compare(folder / "one", 3, text="hello")
