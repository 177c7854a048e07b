"""The tree of a beam search, of arrays that are small enough to be read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tests.traces import make_trace
from visformer.pictures.beam_tree import (
    beam_tree,
    hypotheses,
    hypotheses_table,
    node_words,
    score_words,
    step_words,
)
from visformer.values.beam_search import BeamSearch, EarlyStopping, EndedBeam

NONE = -math.inf
A, B, C, D, END = 4, 5, 6, 7, 3


def searched(early_stopping: EarlyStopping = True) -> BeamSearch:
    """Two beams: step 1 keeps a, b; at step 2 b c comes first, a ends, a d is second.

    Of step 3 nothing goes on from a d.
    """
    return BeamSearch(
        beams=2,
        given=(2,),
        ids=np.array([[A, B, C, D], [C, D, A, END], [A, B, C, D]], np.int32),
        parents=np.array([[0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1]], np.int32),
        sums=np.array(
            [
                [-0.5, -1.0, -1.31, -4.0],
                [-1.5, -2.0, -2.25, NONE],
                [-2.0, -2.5, -2.75, NONE],
            ],
            np.float32,
        ),
        finished=(
            EndedBeam(1, 0, END, -1.0, -0.5),
            EndedBeam(2, 1, END, -2.25, -0.75),
        ),
        length_penalty=1.0,
        early_stopping=early_stopping,
        limit=9,
        ends=(END,),
        pieces={2: "<s>", A: "▁a", B: "▁b", C: "▁c", D: "▁d", END: "</s>"},
        texts=("a", "a d"),
    )


TREE = beam_tree(searched(), make_trace(source=6, target=5))


def test_columns_have_beams_then_what_ended_then_the_dropped() -> None:
    fates = [[node.fate for node in column] for column in TREE.columns]
    assert fates == [
        ["kept", "kept", "dropped", "dropped"],
        ["kept", "kept", "ended", "dropped"],
        ["left", "left", "ended", "dropped"],
    ]
    assert [node.line for node in TREE.columns[1]] == [0, 1, 2, 3]
    node = TREE.columns[1][2]
    assert (node.beam, node.id, node.logprob) == (0, END, -1.0)
    assert math.isclose(node.p, math.exp(-0.5))
    assert TREE.history(node) == [A, END]
    assert TREE.history(TREE.columns[2][1]) == [B, C, B]


def test_what_became_of_a_node_is_said() -> None:
    columns = TREE.columns
    assert node_words(TREE, columns[0][2]) == (
        "Step 1: “c”, p 0.2698; log p so far −1.31. It was dropped at step 1, 0.31 "
        "behind the last kept."
    )
    assert node_words(TREE, columns[1][0]).endswith("It is beam 1 of 2.")
    assert node_words(TREE, columns[1][2]).endswith(
        "It ends here: sum −1.00, length 2 with what ends it, score −0.5."
    )
    assert "unfinished when the search stopped" in node_words(TREE, columns[2][0])


def test_an_end_behind_as_many_candidates_as_beams_comes_too_late() -> None:
    search = searched()
    ids, sums = search.ids.copy(), search.sums.copy()
    ids[0, 2] = END
    for second, fate in ((-1.0, "late"), (-1.5, "outranked")):
        sums[0, 1] = second  # what ends has a sum of −1.31
        changed = replace(search, ids=ids, sums=sums.copy())
        tree = beam_tree(changed, make_trace(source=6, target=5))
        (node,) = (node for node in tree.columns[0] if node.id == END)
        assert node.fate == fate


def test_a_beam_from_which_nothing_is_kept_is_a_dead_end() -> None:
    search = searched()
    dead = BeamSearch(
        **{
            **{f: getattr(search, f) for f in search.__slots__},
            "finished": search.finished[:1],
        }
    )
    node = beam_tree(dead, make_trace(source=6, target=5)).columns[1][1]
    assert node.fate == "dead"
    tree = beam_tree(dead, make_trace(source=6, target=5))
    assert node_words(tree, node).endswith("was dropped at step 3.")


def test_the_run_on_screen_is_followed_as_far_as_the_search_has_it() -> None:
    along = TREE.along([B, C, A, A])
    assert [(node.step, node.line) for node in along] == [(0, 1), (1, 0), (2, 0)]
    assert [node.fate for node in TREE.along([A, END])] == ["kept", "ended"]
    assert len(TREE.along([A, C])) == 1
    assert TREE.along([END]) == ()


def test_a_step_is_counted() -> None:
    assert step_words(TREE, 2).endswith("Step 2: 2 kept, 1 dropped, 1 ended.")
    assert step_words(TREE, 4).startswith("Each column is a step")


def test_what_has_finished_is_ranked() -> None:
    search = searched()
    assert [line.text for line in hypotheses(search)] == ["a", "a d"]
    assert hypotheses(search)[1].words == ("−0.75", "−2.25", "3")
    table = hypotheses_table(hypotheses(search))
    assert table.rows == ("a", "a d")
    assert np.array_equal(table.values, [[-0.5, -1, 2], [-0.75, -2.25, 3]])


def test_what_a_score_is() -> None:
    said = score_words(searched())
    assert said.startswith("score = sum of log p / length^1; log is natural")
