"""Of faults that engineers plant each is named, and nothing is said that is false."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.system.watching.planted_faults import (
    PAD,
    PLANTED,
    Planted,
    beams,
    greedy,
    sentences,
    trained,
)
from visformer.values.finding import Certificate
from visformer.watching.watcher import watch


def certified(fault: Planted) -> Certificate:
    """Return what one call says, or the loop where the fault is one of decoding."""
    model = fault.build()
    src, given, labels = sentences(3, 7)
    if fault.loop is not None:
        with torch.no_grad(), watch(model, pad=PAD) as watched:
            fault.loop(model, src)
        return watched.certificate
    watcher = watch(model, pad=PAD, labels=given if fault.labels == "given" else labels)
    with torch.no_grad():
        return watcher.certify(src, given)


def test_there_are_29() -> None:
    listed = [fault for fault in PLANTED.values() if fault.listed]
    assert len(listed) == 29


@pytest.mark.parametrize("name", PLANTED)
def test_the_fault_is_named_and_nothing_false_is_said(name: str) -> None:
    fault = PLANTED[name]
    certificate = certified(fault)
    faults = [one for one in certificate.findings if one.severity == "fault"]
    false = {one.id for one in faults} - {*fault.ids, *fault.allowed}
    assert not false, str(certificate)
    assert not fault.never or all(fault.never not in str(one) for one in faults)
    if not fault.ids:
        return
    named = [one for one in certificate.findings if one.id in fault.ids]
    assert len(named) == 1, str(certificate)
    assert named[0].severity == fault.severity
    assert fault.where in named[0].where, str(named[0])
    assert fault.remedy in named[0].remedy


def test_the_sound_model_has_none() -> None:
    src, given, labels = sentences(3, 7)
    with torch.no_grad():
        certificate = watch(trained(), pad=PAD, labels=labels).certify(src, given)
    assert certificate.findings == ()
    assert certificate.ok


@pytest.mark.parametrize("loop", [greedy, beams])
def test_a_loop_of_the_sound_model_has_none(loop: Any) -> None:
    model = trained()
    with torch.no_grad(), watch(model, pad=PAD) as watched:
        loop(model, sentences(3, 7)[0])
    assert watched.certificate.findings == ()
    assert watched.certificate.ok
