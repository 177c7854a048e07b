"""``visformer scan``: what it prints, in which order, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.system.formats.folders import write_letters
from tests.system.test_exit_codes import shell, shells
from tests.tiny_models import tiny_model
from visformer import cli
from visformer.core import scanning

PAIRS = "cab\tbac\nhello\tolleh\na\ta\ntransformer\tx\n"
FIELDS = (
    *("line", "source", "reference", "tokens", "loss", "fault", "mean", "worst"),
    *("worst_token", "coverage", "uncovered", "stuck", "length_ratio", "rarest"),
    *("translation", "chrf", "kind"),
)
Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scanned")
    write_letters(root / "letters", tiny_model(tied_output=False))
    (root / "pairs.tsv").write_text(PAIRS, "utf-8")
    return root


def scan(folder: Path, *options: str, file: str = "pairs.tsv") -> int:
    at = str(folder / file), "--checkpoint", str(folder / "letters")
    return cli.main(["scan", *at, *options])


def lines(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def test_json_has_a_line_per_pair_sorted(folder: Path, capsys: Said) -> None:
    assert scan(folder, "--json") == 0
    captured = capsys.readouterr()
    found = lines(captured.out)
    assert [tuple(one) for one in found] == [FIELDS] * 4
    losses = [loss for one in found for loss in one["loss"]]
    mean = re.search(r"4 pairs, mean loss (\S+) nats a token", captured.err)
    assert mean is not None
    assert float(mean[1]) == pytest.approx(sum(losses) / len(losses), abs=1e-3)
    assert "of the cross-attention tells what was left out" in captured.err
    for sort, name, sign in (
        *(("fault", "fault", -1), ("worst", "worst", -1), ("mean", "mean", -1)),
        *(("length", "length_ratio", -1), ("coverage", "coverage", 1)),
        ("stuck", "stuck", -1),
    ):
        assert scan(folder, "--json", "--sort", sort, "--no-translations") == 0
        again = lines(capsys.readouterr().out)
        numbers = [sign * one[name] for one in again]
        assert numbers == sorted(numbers)
        assert {one["translation"] for one in again} == {""}
        assert sorted(one["line"] for one in again) == [1, 2, 3, 4]


def test_a_table_for_people(folder: Path, capsys: Said) -> None:
    many = "".join(f"{'abc'[i % 3] * 3}\t{'xyz'[i % 3]}\n" for i in range(25))
    (folder / "many.tsv").write_text(many, "utf-8")
    assert scan(folder, file="many.tsv") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["line", "fault", "worst", "at", "kind"]
    assert len(out) == 1 + 3 * 20 + 1 + 3
    assert out[61] == "… and 5 more pairs (--json prints all)"
    assert out[62].startswith("25 pairs, mean loss")
    assert "exact on 25 sentences" in out[64]


def test_heads_are_aligned_with_a_gold_file(folder: Path, capsys: Said) -> None:
    gold = folder / "pairs.talp"
    gold.write_text("0-0\n0-0\n\n0p0\n", "utf-8")
    assert scan(folder, "--json", "--gold", str(gold)) == 0
    *pairs, last = lines(capsys.readouterr().out)
    assert len(pairs) == 4
    rows = last["alignment"]
    assert len(rows) == 2 * (2 + 1)  # of each layer two heads, and their mean
    assert sum(row["head"] is None for row in rows) == 2
    # each pair has one word on both sides: the third has no link, but is aligned
    assert {(row["awi"], row["awo"]) for row in rows} == {(round(1 - 5 / 6, 4),) * 2}
    assert scan(folder, "--gold", str(gold), "--no-translations") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-7].split() == ["layer", "head", "AWI", "AWO"]
    assert {line.split()[0] for line in out[-6:]} == {"1", "2"}
    assert {line.split()[1] for line in out[-6:]} == {"1", "2", "mean"}
    gold.write_text("0-0\n0_0\n", "utf-8")
    assert scan(folder, "--gold", str(gold)) == 2
    captured = capsys.readouterr()
    assert "Line 2 of pairs.talp is no alignment: “0_0”" in captured.err
    assert not captured.out
    gold.write_text("7-0\n", "utf-8")
    assert scan(folder, "--gold", str(gold)) == 2
    assert "pairs.talp aligns none of the pairs." in capsys.readouterr().err


def test_the_checks_are_run_on_the_most_faulty_pair(folder: Path, capsys: Said) -> None:
    assert scan(folder, "--json", "--no-translations") == 0
    captured = capsys.readouterr()
    first = lines(captured.out)[0]["line"]
    assert f"No check fails on line {first}, the pair of" in captured.err


def test_conditions_decide_the_exit_code(folder: Path, capsys: Said) -> None:
    assert scan(folder, "--fail-if", "worst > 900", "--fail-if", "stuck>=50") == 0
    assert scan(folder, "--fail-if", "worst > 0", "--fail-if", "chrf < 0") == 1
    assert "“worst > 0” is true of 4 pairs." in capsys.readouterr().err
    # a pair that was not translated has no chrF, which is not one of 0
    for of_none in ("chrf < 20", "chrf <= 0", "chrf >= 0"):
        assert scan(folder, "--no-translations", "--fail-if", of_none) == 0
    for wrong in ("worst", "line > 3", "worst > x", "worst == 3", ""):
        assert scan(folder, "--fail-if", wrong) == 2
        assert "--fail-if takes a condition" in capsys.readouterr().err
    assert scan(folder, "--limit", "0") == 2
    assert scan(folder, "--limit", "2", "--json") == 0
    assert {one["line"] for one in lines(capsys.readouterr().out)} == {1, 2}


def test_malformed_lines_are_named_and_skipped(folder: Path, capsys: Said) -> None:
    content = (
        b"cab\tbac\n\nonly one\na\t \n\xff\tb\na\t" + b"a" * 99 + b"\nabc\tx\tmore\n"
    )
    (folder / "some.tsv").write_bytes(content)
    assert scan(folder, "--json", file="some.tsv") == 0
    captured = capsys.readouterr()
    assert {one["line"] for one in lines(captured.out)} == {1, 7}
    for said in (
        "Line 3 of some.tsv is not a pair",
        "Line 4 of some.tsv is not a pair",
        "Line 5 of some.tsv cannot be read: it is not UTF-8",
        "Line 6 is left out: There are 100 target tokens",
    ):
        assert said in captured.err
    for content in (b"\t\n \t \n\ta\n", b"", b"a\t" + b"a" * 99 + b"\n"):
        (folder / "none.tsv").write_bytes(content)
        assert scan(folder, file="none.tsv") == 2
    assert scan(folder, file="nowhere.tsv") == 2
    assert capsys.readouterr().out == ""


def test_a_model_that_computes_nan_is_refused(folder: Path, capsys: Said) -> None:
    model = tiny_model(tied_output=False)
    with torch.no_grad():
        model.output.weight[5] = torch.nan
    write_letters(folder / "broken", model)
    broken = "--checkpoint", str(folder / "broken")
    assert cli.main(["scan", str(folder / "pairs.tsv"), *broken]) == 2
    assert "not finite" in capsys.readouterr().err


def test_stopped_it_prints_what_is_done(
    folder: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(scanning.Scan):
        def __iter__(self) -> Iterator[list[Any]]:
            for some in super().__iter__():
                yield some[:3]
                if some:
                    raise KeyboardInterrupt

    monkeypatch.setattr(scanning, "Scan", Stopped)
    assert scan(folder, "--json", "--fail-if", "worst > 0") == 130
    captured = capsys.readouterr()
    assert len(lines(captured.out)) == 3
    assert captured.err.splitlines()[-1] == "visformer: stopped"


@shells
def test_standard_input_of_sources_alone(folder: Path) -> None:
    line = f"visformer scan - --json --checkpoint {folder / 'letters'}"
    code, out, err = shell(line, b"cab\nhello\n")
    assert (code, len(lines(out))) == (0, 2), err
    assert all(one["reference"] == "" and one["translation"] for one in lines(out))


def test_two_checkpoints_are_compared_pair_by_pair(folder: Path, capsys: Said) -> None:
    write_letters(folder / "other", tiny_model(seed=1, tied_output=False))
    other = "--against", str(folder / "other")
    assert scan(folder, "--json", *other) == 0
    captured = capsys.readouterr()
    found = lines(captured.out)
    apart = [sum(one["loss"]) - sum(one["against"]["loss"]) for one in found]
    assert apart == sorted(apart, reverse=True)  # the first got worse
    assert sorted(one["line"] for one in found) == [1, 2, 3, 4]
    at = str(folder / "pairs.tsv"), "--checkpoint", str(folder / "other")
    assert cli.main(["scan", *at, "--json"]) == 0
    alone = {one["line"]: one for one in lines(capsys.readouterr().out)}
    for one in found:
        assert one["against"] == alone[one["line"]]
    assert scan(folder, *other) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["line", "here", "there", "more"]
    assert f"{apart[0]:+.2f}".replace("-", "−") in out[1]
    mean = sum(sum(one["loss"]) for one in found) / 4
    assert f"a sentence loses {mean:.2f} nats here" in out[-1]
    assert scan(folder, "--against", str(folder / "nowhere")) == 2
