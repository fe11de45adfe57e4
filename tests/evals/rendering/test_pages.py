"""What the pages of campaigns and trials say, and what nobody can make them do."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from operator_evals.analysis import analyse, score_trials
from operator_evals.database import Recorded
from operator_evals.facts import Reading, Snapshot, TrialFacts
from operator_evals.rendering import (
    STYLE,
    Html,
    OneFile,
    Places,
    Served,
    Shown,
    campaign_body,
    campaigns_body,
    problem_body,
    report_page,
    trial_body,
    whole,
)
from tests.drawing.hostile import PIECES, Tags
from tests.evals.samples import CAMPAIGN, RECORDED, hostile, trials

KNOWN = score_trials(list(trials()), CAMPAIGN)
ANALYSIS = analyse([one.facts for one in KNOWN], CAMPAIGN)
PLACES: Places = Served()
words = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), min_size=1, max_size=5)


def _text(html: str) -> str:
    page = Tags()
    page.feed(html)
    return " ".join(" ".join(page.text).split())


def _report(recorded: Recorded, facts: TrialFacts) -> str:
    known = score_trials([facts], recorded.campaign)
    body = report_page(recorded, analyse([facts], recorded.campaign), known)
    shown = campaigns_body([Shown(recorded, 1, 1)], PLACES)
    served = campaign_body(recorded, analyse([facts], recorded.campaign), known, PLACES)
    problem = problem_body(facts.key, facts.key, PLACES)
    return "".join([body, shown, served, trial_body(known[0], PLACES), problem])


def _tags(text: str) -> Tags:
    page = Tags()
    page.feed(_report(*hostile(f"somebody said {text} and nothing else")))
    return page


PLAIN = _tags("x").tags


@given(words)
@settings(max_examples=20, deadline=None)
@example(["</style>", "<script>alert(1)</script>", '" onload="x'])
@example(["\n", "\x00", "\u202e", "{{7*7}}"])
def test_no_text_changes_the_shape_of_a_page(pieces: list[str]) -> None:
    page = _tags("".join(pieces))
    assert page.tags == PLAIN
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
    places = [value for name, value in page.attributes if name in ("href", "src", "action")]
    assert all(re.match(r"/(?:$|(?:campaign|trial|ledger)\?)|#", one) for one in places)


def test_a_campaign_says_its_figures_with_their_intervals() -> None:
    told = _text(campaign_body(RECORDED, ANALYSIS, KNOWN, PLACES))
    (best,) = [one for one in ANALYSIS.summaries if (one.variant, one.slice) == ("reasoner", "all")]
    share = best.end_to_end
    said = f"{share.low * 100:.0f} to {share.high * 100:.0f} %, {share.count} of {share.of}"
    assert said in told
    assert all(one.key in told and one.what in told for one in ANALYSIS.misses)
    assert "reasoner and none" in told
    assert "p = " in told
    assert "held out" in told
    assert "1 is invalid or failed and not counted" in told
    assert "Python" not in told.partition("Where it was measured")[0]


def test_the_heat_map_is_read_without_its_colours() -> None:
    body = campaign_body(RECORDED, ANALYSIS, KNOWN, PLACES)
    for cell in ANALYSIS.cells:
        row = body[body.index(f'<th scope="row">{cell.scenario}') :].partition("</tr>")[0]
        assert f"{cell.ended_right.count} of {cell.ended_right.of}" in row
    harmed = next(one for one in ANALYSIS.cells if one.harmed)
    row = body[body.index(f'<th scope="row">{harmed.scenario}') :].partition("</tr>")[0]
    assert f"! harm in {harmed.harmed}" in _text(row)
    ways = re.findall(r'class="sign \w+" aria-label="(seed \d+: [^"]+)"', body)
    assert len(ways) == len(KNOWN)
    assert {one.partition(": ")[2] for one in ways} == {
        *(
            "right cause, correct outcome",
            "correct outcome, wrong cause",
            "wrong outcome",
            "harm",
            "invalid",
        )
    }


def test_a_trial_tells_its_story_in_order() -> None:
    one = next(each for each in KNOWN if each.facts.key == "shop:till_kill/reasoner/0")
    told = _text(trial_body(one, PLACES))
    story = (
        *("till_kill", "shop-1", "3.5 s after the fault", "process_dead", "right cause"),
        *("Whether a process is there at all", "blocked", "destructive", "did not run: refused"),
        *(
            "succeeded, exit 0, 5.3 s",
            "invariants held",
            "ticket opened",
            "latency_ms",
            "unchanged",
        ),
        "Download the ledger",
    )
    at = 0
    for word in story:
        assert word in told[at:], word
        at = told.index(word, at)


def test_charts_mark_the_fault_detection_actions_and_repair() -> None:
    body = trial_body(KNOWN[0], PLACES)
    for kind in ("fault", "detected", "action", "proven", "repaired"):
        assert f'<line class="{kind}"' in body, kind
        assert f'class="key {kind}"' in body, kind
    places = [
        float(re.findall(rf'<line class="{kind}" x1="([\d.]+)"', body)[0])
        for kind in ("fault", "detected", "action", "proven", "repaired")
    ]
    assert places == sorted(places)
    assert "shop-1: version" not in body  # it is a text, and never moved


def test_what_moved_with_the_fault_is_drawn_first_and_what_was_not_kept_is_no_gap() -> None:
    def look(at_s: float, **more: Reading) -> Snapshot:
        bad = 3 <= at_s < 6
        readings: dict[str, Reading] = {"clock": at_s, "lag": 9.0 if bad else 0.0, **more}
        return Snapshot(at_s, {"a": readings}, ("fresh@a",) if bad else ())

    trial = replace(
        KNOWN[0].facts,
        hit="a",
        before=look(0.0, cost=1),
        course=tuple(look(float(at)) for at in range(1, 9)),
        after=look(9.0, cost=2),
    )
    (one,) = score_trials([trial], CAMPAIGN)
    names = re.findall(r'role="img" aria-label="([^"]+)"', trial_body(one, PLACES))
    assert names == ["a: lag", "a: clock"]  # of the cost two looks know, which is no course
    assert 'class="unseen"' not in trial_body(one, PLACES)


def test_a_trial_that_is_not_valid_says_why_and_judges_nothing() -> None:
    one = next(each for each in KNOWN if not each.score.valid)
    told = _text(trial_body(one, PLACES))
    assert "the rig was not well within 40 s" in told
    assert "right cause and" not in told


def test_one_file_holds_everything_and_its_links_all_lead_somewhere() -> None:
    page = report_page(RECORDED, ANALYSIS, KNOWN)
    found = Tags()
    found.feed(page)
    places = [value for name, value in found.attributes if name == "href"]
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids)) == len(KNOWN) + 1
    assert {one.removeprefix("#") for one in places} <= set(ids)
    assert {f"#{one}" for one in ids} <= set(places)
    for reach in ("http://", "https://", "url(", "@import", "<link", "<script", "<iframe", "<img"):
        assert reach not in page, reach
    assert page == report_page(RECORDED, ANALYSIS, KNOWN)
    short = report_page(RECORDED, ANALYSIS, KNOWN, only_misses=True)
    assert short.count("<article") == len(ANALYSIS.misses) < len(KNOWN)
    places_held = OneFile.of(["a"])
    assert (places_held.trial("", "a"), places_held.trial("", "b")) == ("#trial-1", "")


def test_a_list_of_nothing_says_how_to_begin() -> None:
    assert "operator eval run" in _text(campaigns_body([], PLACES))
    assert STYLE in whole("x", Html(""))
