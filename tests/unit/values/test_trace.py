from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.traces import make_trace, rows_of, with_config
from visformer.errors import InputError
from visformer.values import recording as recordings
from visformer.values.arrays import read_only, softmax
from visformer.values.recording import Recording
from visformer.values.row_columns import Columns


def test_decoder_layers_have_their_own_cross_queries() -> None:
    trace = make_trace(layers=2, heads=1, d_model=2)
    columns = trace.columns
    assert columns.part("decoder", "cross queries", 1) == slice(14, 16)
    np.testing.assert_array_equal(
        trace.queries("cross", 1, 0), trace.decoder_rows[:, 14:16]
    )
    np.testing.assert_array_equal(trace.keys("cross", 1, 0), trace.memory_rows[:, 4:6])


def test_layout_gives_the_final_norm_columns_of_its_own() -> None:
    model = make_trace(layers=2, heads=1, d_model=2).model
    plain, normed = Columns(model), Columns(with_config(model, final_norm=True))
    assert plain.output("encoder") == plain.part("encoder", "hidden", 2)
    assert normed.width("encoder") == plain.width("encoder") + 2
    assert normed.output("encoder").stop == normed.width("encoder")


def test_hidden_layers_follow_the_projections() -> None:
    trace = make_trace(layers=2, heads=1, d_model=2)
    np.testing.assert_array_equal(
        trace.hidden("encoder", 0), trace.encoder_rows[:, 12:14]
    )
    np.testing.assert_array_equal(trace.encoder_output, trace.hidden("encoder", 2))


def test_until_shares_the_arrays() -> None:
    trace = make_trace(target=4)
    short = trace.until(2)
    assert len(short) == 2
    assert np.shares_memory(short.decoder_rows, trace.decoder_rows)
    np.testing.assert_array_equal(
        short.attention("decoder", 0), trace.attention("decoder", 0)[:, :2, :2]
    )


def test_arrays_are_read_only() -> None:
    trace = make_trace()
    with pytest.raises(ValueError, match="read-only"):
        trace.decoder_rows[0, 0] = 1


def test_layer_and_head_must_exist() -> None:
    trace = make_trace()
    with pytest.raises(InputError, match=r"layer is 2, but .* number from -2 to 1"):
        trace.attention("cross", 2)
    with pytest.raises(InputError, match=r"head is -3, but .* number from -2 to 1"):
        trace.attention("cross", 0, [0, -3])
    with pytest.raises(InputError, match=r"layer is \[\], but must be at least one"):
        trace.mask("cross", slice(1, 1))


def test_logits_need_the_output_projection() -> None:
    trace = make_trace()
    with pytest.raises(
        InputError, match="does not contain the model's output projection"
    ):
        _ = trace.logits
    weight = np.eye(3, 8, dtype=np.float32)
    logits = replace(trace, output_weight=weight).logits
    np.testing.assert_array_equal(logits, trace.decoder_output[:, :3])


def test_softmax_of_infinities() -> None:
    made = softmax(np.array([[0, -np.inf], [-np.inf, -np.inf]], np.float32))
    np.testing.assert_array_equal(made, [[1, 0], [np.nan, np.nan]])


def test_recording_rebuilds_the_trace() -> None:
    trace = make_trace()
    recording = Recording(trace.until(0), limit=6)
    for row in rows_of(trace):
        recording.append(row)
    made = recording.trace()
    np.testing.assert_array_equal(made.decoder_rows, trace.decoder_rows)
    np.testing.assert_array_equal(made.masks["decoder"], trace.masks["decoder"])
    assert (made.target, made.steps, made.text) == (
        trace.target,
        trace.steps,
        trace.text,
    )
    assert [row.id for row in rows_of(recording.trace())[2:]] == list(
        trace.target_ids[2:]
    )


def test_rows_are_given_out_as_they_came() -> None:
    trace = make_trace()
    across = np.eye(len(trace), len(trace.source), dtype=bool)  # each reads another
    rows = [replace(row, cross_mask=across[t]) for t, row in enumerate(rows_of(trace))]
    recording = Recording(trace.until(0), limit=6)
    for row in rows:
        recording.append(row)
    for at, given in enumerate(recordings.rows_of(recording.trace(), 1) or (), 1):
        assert (given.id, given.token) == (rows[at].id, rows[at].token)
        assert given.step is rows[at].step
        assert given.values.tolist() == trace.decoder_rows[at].tolist()
        assert given.self_mask.tolist() == trace.masks["decoder"][at].tolist()
        assert given.cross_mask.tolist() == across[at].tolist()


def test_snapshots_share_storage_and_survive_a_dropped_tail() -> None:
    trace = make_trace()
    recording = Recording(trace.until(0), limit=6)
    rows = rows_of(trace)
    for row in rows[:3]:
        recording.append(row)
    snapshot = recording.trace()
    recording.append(rows[3])
    assert np.shares_memory(snapshot.decoder_rows, recording.trace().decoder_rows)
    recording.shorten(1)
    recording.append(replace(rows[1], values=read_only(np.zeros_like(rows[1].values))))
    np.testing.assert_array_equal(snapshot.decoder_rows, trace.decoder_rows[:3])
    assert not recording.trace().decoder_rows[1].any()


def test_a_stack_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputError, match="must be one of encoder, decoder"):
        make_trace().hidden("enc", 0)  # type: ignore[arg-type]
