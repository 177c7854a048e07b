"""Answers about checkpoints: which are kept, and how they are written."""

from __future__ import annotations

from visformer.session.pending import MOST, Answers, read_answers


def test_the_oldest_are_forgotten_and_what_is_answered_anew_is_not() -> None:
    answers = Answers()
    for number in range(MOST):
        answers = answers.keep(f"/{number}", "digest", (("heads", number),))
    answers = answers.keep("/0", "other", (("heads", 99),))
    answers = answers.keep("/new", "digest", (("heads", 7),))
    assert answers.about("/new") == (("heads", 7),)
    assert answers.about("/0") == (("heads", 99),)
    assert answers.about("/1") is None
    assert len(answers.known) == MOST
    assert answers.changed("/0", "digest")
    assert not answers.changed("/0", "other")


def test_what_is_written_is_read_and_what_another_hand_wrote_is_passed_over() -> None:
    answers = Answers().keep("/m", "digest", (("heads", 2), ("tokenizer", "t.model")))
    assert read_answers(answers.text()) == answers
    assert read_answers("") == read_answers("[1]") == read_answers("{") == Answers()
    assert read_answers(
        '{"/m": ["digest", [["heads", null]]], "/n": ["d", []]}'
    ).known == {"/n": ("d", ())}
