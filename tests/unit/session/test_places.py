"""Back and Forward through places, without a window."""

from __future__ import annotations

from dataclasses import replace

from tests.traces import make_trace
from visformer.session import runs, tree
from visformer.session.state import MOST_PLACES, Session, limited
from visformer.session.tree import ways


def session() -> Session:
    """Return a Session on 3 layers, 4 heads and 9 steps, at step 3."""
    made = Session()
    made.do(runs.show_trace, make_trace(source=6, target=9, layers=3, heads=4))
    made.set(step=3)
    return made


def test_back_leads_through_tabs_heads_and_jumps_and_forward_returns() -> None:
    one = session()
    began = one.state.trail
    one.set(tab="computation")
    one.set(kind="decoder")
    one.set(layer=2)
    one.set(head=3)
    one.set(step=8)
    here, seen = one.state.place, []
    while ways(one.state)[0]:
        one.do(tree.back)
        seen.append(one.state.place)
    tabs = [place.tab for place in seen]
    assert tabs[:5] == ["computation"] * 4 + ["attention"]
    assert [place.step for place in seen[:2]] == [3, 3]
    assert len(seen) == 5 + len(began.back)
    one.do(tree.back)  # nothing is before the first
    assert one.state.place == seen[-1]
    while ways(one.state)[1]:
        one.do(tree.forward)
    assert one.state.place == here


def test_step_after_step_is_one_way() -> None:
    one = session()
    one.set(tab="masks")
    for step in (4, 5, 6, 5, 6, 7):
        one.set(step=step)
    one.do(tree.back)
    assert (one.state.tab, one.state.step) == ("masks", 3)
    one.do(tree.forward)
    assert one.state.step == 7


def test_a_place_is_limited_to_what_a_run_has_and_to_what_follows_its_prompt() -> None:
    trace = replace(make_trace(target=9, layers=3, heads=4), prompt=4)
    place = session().state.place._replace(kind="cross")
    assert limited(place._replace(layer=7, head=8, step=99), trace) == place._replace(
        layer=2, head=3, step=9
    )
    assert limited(place._replace(step=1), trace) == place._replace(step=4)


def test_going_elsewhere_forgets_what_was_ahead() -> None:
    one = session()
    one.set(head=2)
    one.do(tree.back)
    one.set(layer=1)
    assert ways(one.state) == (True, False)


def test_what_changes_nothing_or_is_no_place_is_no_step_back() -> None:
    one = session()
    before = one.state.trail
    one.set(head=-1, layer=-9)
    one.set(notice="a word")
    one.do(runs.show_trace, make_trace(source=2, target=5))  # a run is not a place
    assert one.state.trail is before


def test_places_that_a_shorter_run_lacks_are_passed_over() -> None:
    one = session()
    one.set(step=9)
    one.set(step=7)
    one.set(tab="output")
    one.do(runs.show_trace, make_trace(source=2, target=4, layers=1, heads=1))
    assert one.state.step == 4
    one.do(tree.back)
    assert (one.state.tab, one.state.step) == ("attention", 4)
    one.do(tree.back)  # steps 9 and 7 are step 4 now
    assert (one.state.tab, one.state.step) == ("attention", 3)


def test_the_trail_is_bounded() -> None:
    one = session()
    for turn in range(3 * MOST_PLACES):
        one.set(tab=("masks", "output")[turn % 2])
    assert len(one.state.trail.back) == MOST_PLACES


def test_pages_are_gone_back_to_and_fields_come_along() -> None:
    one = session()
    one.set(tab="masks")
    one.go(one.state.turned("masks", "lab"))
    one.set(views=replace(one.state.views, mask_layer=1))
    trail = one.state.trail
    one.set(tab="output")
    one.do(tree.back)
    assert one.state.trail.back == trail.back  # a field is no place
    assert one.state.views.pages == {"masks": "lab"}
    one.do(tree.back)
    assert (one.state.tab, one.state.views.pages) == ("masks", {})
    one.do(tree.forward)
    assert one.state.views.pages == {"masks": "lab"}
    assert one.state.views.mask_layer == 1
