"""Changes that take from another run, and mean ablation: against a forward by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visformer
from tests.changes_by_hand import (
    OTHER,
    PATCHES,
    SOURCE,
    TARGET,
    Effect,
    apart,
    by_hand,
    native,
)
from tests.tiny_models import tiny_checkpoint
from visformer.analysis.change_report import change_report
from visformer.core.checkpoint import Checkpoint
from visformer.core.passes import run
from visformer.errors import InputError
from visformer.values.changes.head_changes import HeadFrom
from visformer.values.intervention import Intervention, examples, parse
from visformer.values.trace import Trace

SHORT = [9, 4, 12], [2, 10, 11]


def passed(
    checkpoint: Checkpoint,
    change: Intervention | str = "",
    ids: tuple[list[int], list[int]] = (SOURCE, TARGET),
) -> Trace:
    return run(checkpoint, [ids[0]], [ids[1]], intervention=change)[0]


def taken(
    text: str,
    ids: tuple[list[int], list[int]] = OTHER,
    checkpoint: Checkpoint | None = None,
) -> Intervention:
    clean = passed(checkpoint or tiny_checkpoint(), "", ids)
    return visformer.parse_change(text, runs={"clean": clean})


@pytest.mark.parametrize("text", PATCHES)
def test_a_run_is_what_the_change_says(text: str) -> None:
    checkpoint = tiny_checkpoint()
    clean = by_hand(native(checkpoint), Effect(), *OTHER)
    effect = PATCHES[text](clean.z, clean.streams)
    trace, plain = passed(checkpoint, taken(text)), passed(checkpoint)
    assert apart(trace, by_hand(native(checkpoint), effect)) < 2e-6
    assert np.abs(trace.logits - plain.logits).max() > 1e-3
    first = effect.first_row
    assert (trace.decoder_rows[:first] == plain.decoder_rows[:first]).all()


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("head encoder from clean", 1),
        ("head cross from clean @ L2", 2),
        ("residual encoder 4 from clean", 1),
        ("residual encoder 3 from clean", 0),
        ("output decoder 4 from clean; head cross from clean", 2),
        ("head cross off", 0),
    ],
)
def test_rows_that_the_other_run_lacks_stay_and_are_counted(
    text: str, lacking: int
) -> None:
    checkpoint, change = tiny_checkpoint(), taken(text, SHORT)
    trace, plain = passed(checkpoint, change), passed(checkpoint)
    assert change_report(plain, trace).lacking == lacking
    if text == "head encoder from clean":
        clean = by_hand(native(checkpoint), Effect(), *SHORT)
        effect = PATCHES[text](clean.z, clean.streams)
        assert apart(trace, by_hand(native(checkpoint), effect)) < 2e-6


def test_what_no_row_of_the_other_run_reaches_has_no_effect() -> None:
    checkpoint = tiny_checkpoint()
    trace = passed(checkpoint, taken("residual decoder 4 from clean", SHORT))
    found = change_report(passed(checkpoint), trace)
    assert not found.moved
    assert found.reason == "the run that it takes from has no such row"
    assert found.lacking == 1


def test_a_run_patched_with_itself_stays_as_it_is() -> None:
    checkpoint, plain = tiny_checkpoint(), passed(tiny_checkpoint())
    for text in ("residual encoder 2 from clean", "residual decoder 3 from clean @ L1"):
        trace = passed(checkpoint, taken(text, (SOURCE, TARGET)))
        assert (trace.decoder_rows == plain.decoder_rows).all()
    for text in ("head cross from clean", "output decoder 3 from clean @ L2"):
        trace = passed(checkpoint, taken(text, (SOURCE, TARGET)))
        np.testing.assert_allclose(trace.decoder_rows, plain.decoder_rows, atol=1e-5)


@pytest.mark.parametrize("text", PATCHES)
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_saved_run_keeps_what_it_took(
    text: str, norm_first: bool, tmp_path: Path
) -> None:
    checkpoint = tiny_checkpoint(norm_first=norm_first, final_norm=norm_first)
    change = taken(text, checkpoint=checkpoint)
    trace = passed(checkpoint, change)
    trace.save(tmp_path / "a.vis")
    read = visformer.open_trace(tmp_path / "a.vis")
    assert read.intervention == change == trace.intervention
    again = passed(checkpoint, read.intervention)  # the other run is not needed
    assert (again.decoder_rows == trace.decoder_rows).all()
    for kind in trace.kinds:
        for layer in range(2):
            z = np.concatenate([read.z(kind, layer, head) for head in range(2)], 1)
            part = read.z(kind, layer, 1, slice(1, 3))
            np.testing.assert_allclose(part, z[1:3, z.shape[1] // 2 :], atol=1e-6)


@pytest.mark.parametrize("text", PATCHES)
def test_decoding_is_the_pass_of_each_step(text: str) -> None:
    checkpoint, change = tiny_checkpoint(), taken(text)
    decoding = visformer.Decoding(checkpoint, SOURCE, limit=4, intervention=change)
    for _step in range(4):
        trace = decoding.step()
        full = passed(checkpoint, change, (SOURCE, trace.target_ids.tolist()))
        for name in ("encoder_rows", "memory_rows", "decoder_rows"):
            made, expected = getattr(trace, name), getattr(full, name)
            np.testing.assert_allclose(made, expected, rtol=0, atol=2e-5)


def test_only_the_mean_over_target_rows_reads_later_ones() -> None:
    assert parse(["head cross mean"]).reaches_back
    assert parse(["head decoder mean @ L1H1"]).reaches_back
    assert not parse(["head encoder mean"]).reaches_back
    assert not taken("head decoder from clean").reaches_back


def test_a_mean_over_padding_is_refused() -> None:
    checkpoint, change = tiny_checkpoint(), parse(["head cross mean"])
    target = [TARGET, [*TARGET[:-1], 0]]
    with pytest.raises(InputError, match="one by one"):
        run(checkpoint, [SOURCE, SOURCE], target, intervention=change)
    assert len(run(checkpoint, [SOURCE, SOURCE], target)) == 2


def test_a_file_stands_for_its_run(tmp_path: Path) -> None:
    checkpoint, path = tiny_checkpoint(), tmp_path / "a clean run @ 2;.vis"
    passed(checkpoint, "", OTHER).save(path)
    text = f"head cross from {json.dumps(str(path))} @ L2H1,L1H1"
    made = parse([text])
    assert str(made) == text
    assert len(made) == 2
    trace = passed(checkpoint, text)
    (one, _other) = trace.intervention.of(HeadFrom)
    assert one.taken is not None
    assert (one.taken.step, one.taken.model) == (5, checkpoint.facts.digest)
    assert one.taken.shape == (1, 1, 5, 8)
    by_name = passed(checkpoint, taken("head cross from clean @ L1H1,L2H1"))
    np.testing.assert_allclose(trace.decoder_rows, by_name.decoder_rows, atol=1e-5)
    with pytest.raises(InputError, match="no run “lost” here"):
        passed(checkpoint, "head cross from lost")
    with pytest.raises(InputError, match=r"lost\.vis"):
        passed(checkpoint, "head cross from lost.vis")


def test_every_example_is_written_as_it_is_read() -> None:
    for example in (one for one in examples() if "from" in one):
        assert str(parse([example])) == example
    odd = HeadFrom("cross", run='x "y"  z; @ L1\\')
    assert parse([str(odd)]) == Intervention(odd)
    windows = parse([r'head cross from "C:\runs\x y.vis"'])[0]
    assert isinstance(windows, HeadFrom)
    assert windows.run == r"C:\runs\x y.vis"


@pytest.mark.parametrize(
    ("text", "other", "words"),
    [
        ("head cross from clean", {"heads": 4}, r"\[2, 4, 4\].* has \[2, 2, 8\]"),
        ("head cross from clean", {"decoder_layers": 3}, r"\[3, 2, 8\].*\[2, 2, 8\]"),
        (
            "residual encoder 1 from clean",
            {"d_model": 32},
            r"\[2, 32\].* has \[2, 16\]",
        ),
        ("output cross 1 from clean", {}, "a run of the same weights"),
        ("head cross from clean @ L3", {}, "layer is 2"),
        ("residual decoder 1 from clean @ L3", {}, "layer is 3"),
        ("output encoder 5 from clean", {}, "the source has 4 tokens"),
        ("residual encoder 5 from clean", {}, "the source has 4 tokens"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(
    text: str, other: dict[str, Any], words: str
) -> None:
    checkpoint = tiny_checkpoint(**other)
    if text.startswith("output cross"):
        checkpoint = replace(checkpoint, digest="another")
    with pytest.raises(InputError, match=words) as caught:
        passed(tiny_checkpoint(), taken(text, checkpoint=checkpoint))
    assert len(str(caught.value)) <= 200


def _read(data: Any) -> None:
    Intervention.from_json(data).check(tiny_checkpoint().facts, 4)


def _damaged(data: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {n: v for n, v in (data | parts).items() if v is not None}


@pytest.mark.parametrize(
    "parts",
    [
        {"shape": [1, 1, 1 << 40, 8]},
        {"shape": [1, 1, 4, 8]},
        {"shape": [1, 1, -5, 8]},
        {"shape": [40]},
        {"shape": "1158"},
        {"shape": [1, 5, 8]},  # a stream's
        {"numbers": "no numbers!"},
        {"numbers": ""},
        {"numbers": None},
        {"numbers": 5},
        {"step": -1},
        {"model": 7},
        {"model": None},
        {"taken": [1, 2]},
    ],
)
def test_what_a_strangers_file_holds_is_checked(parts: dict[str, Any]) -> None:
    (data,) = taken("head cross from clean @ L2H1").to_json()
    assert Intervention.from_json([data]) == taken("head cross from clean @ L2H1")
    with pytest.raises((InputError, ValueError, TypeError, KeyError)):
        _read([_damaged(data, **parts)])
    older = {"change": "head from", "kind": "cross", "run": "x", "taken": parts}
    with pytest.raises(TypeError, match="taken is"):
        Intervention.from_json([older])


def test_numbers_are_small_in_files_and_infinite_ones_stay() -> None:
    change = taken("residual decoder 3 from clean @ L1")
    assert len(json.dumps(change.to_json())) < 300
    (one,) = change
    broken: Any = one
    numbers = np.full(16, np.nan, "<f4").tobytes()
    broken = Intervention(replace(broken, taken=broken.taken._replace(numbers=numbers)))
    assert Intervention.from_json(json.loads(json.dumps(broken.to_json()))) == broken
    assert np.isnan(passed(tiny_checkpoint(), broken).logits[2:]).all()
