"""What a Trace holds in memory, and a Trace that holds no more than it shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from visformer.core.decoding import Decoding
from visformer.trace_file.trace_file import read_session
from visformer.values.recording import bytes_of, compact

TRACE = make_trace(source=6, target=5, layers=3)


def test_a_compact_trace_lets_the_reserved_rows_go() -> None:
    run = Decoding(tiny_checkpoint(), "hello", limit=50).step(4)
    small = compact(run)
    assert small.decoder_rows.base is not None
    assert small.decoder_rows.base.nbytes == small.decoder_rows.nbytes
    assert run.decoder_rows.base is not None
    assert run.decoder_rows.base.nbytes > 10 * run.decoder_rows.nbytes
    assert not small.decoder_rows.flags.writeable
    for kind in run.kinds:
        assert np.array_equal(small.masks[kind], run.masks[kind])
        assert np.array_equal(small.attention(kind, 0), run.attention(kind, 0))
    assert bytes_of(small) == bytes_of(run)


def test_rows_of_their_own_are_not_copied() -> None:
    own = compact(compact(TRACE))
    assert own.encoder_rows is compact(own).encoder_rows


def test_what_a_file_holds_stays_there(tmp_path: Path) -> None:
    TRACE.save(tmp_path / "a.vis")
    stored = read_session(tmp_path / "a.vis").shown.trace
    assert compact(stored).decoder_rows is stored.decoder_rows
    rows = (TRACE.encoder_rows, TRACE.memory_rows, TRACE.decoder_rows)
    assert bytes_of(stored) >= sum(row.nbytes for row in rows)
