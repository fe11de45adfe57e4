"""Pictures and pages: nothing in them is obeyed, and everybody can tell what they say."""

from __future__ import annotations

import re

from operator_protocols.domain.observation import Value
from operator_sre.drawing import (
    Chart,
    Mark,
    Point,
    Tick,
    charts,
    escape_text,
    figure,
    format_reading,
    page,
    plural,
    policy_of,
    span,
    style_of,
)
from operator_sre.drawing.html import EMPTY, block, heading, join, link, text

LIGHT_AND_DARK = re.compile(r":root \{(.*?)\}", re.S)
PAIRS = (
    *(("--text", "--back"), ("--text", "--box"), ("--soft", "--back"), ("--soft", "--box")),
    *(("--act", "--back"), ("--good-text", "--good-box"), ("--warn-text", "--warn-box")),
    *(("--bad-text", "--bad-box"), ("--bad-text", "--back"), ("--text", "--act-box")),
    *(("--text", f"--heat{shade}") for shade in range(5)),
    ("--back", "--act-text"),
)
CONTRAST_MIN = 4.5


def _drawn(*points: Point) -> str:
    return charts(
        [Chart("a: b", points)],
        [Mark(1.0, "fault", "<b>")],
        spans=(0.0, 4.0),
        broken=(1.0, 2.0),
        tick=Tick("0 s", "4 s"),
        legend={"fault": "the fault"},
    )


def test_yes_stands_above_no_and_what_was_not_seen_is_a_cross() -> None:
    told = _drawn(Point(0.0, value=True), Point(1.0, value=False), Point(2.0, None, "no <answer>"))
    heights = dict(re.findall(r'<rect class="(yes|no)" x="[\d.]+" y="(\d+)"', told))
    assert int(heights["yes"]) < int(heights["no"])
    assert told.count('class="unseen"') == 1
    assert "no &lt;answer&gt;" in told
    assert "<title>&lt;b&gt;</title>" in told


def test_a_curve_goes_through_figures_alone() -> None:
    values: tuple[Value, ...] = (1, float("inf"), 10**400, "x")
    endless = [Point(float(at), value) for at, value in enumerate(values)]
    told = _drawn(*endless, Point(4.0, float("nan")))
    assert told.count('class="unseen"') == 4
    assert told.count("<circle") == 1
    assert "nan" not in told.lower()
    assert _drawn(Point(0.0, "only words")).count("<polyline") == 0
    assert charts([], [], spans=(0, 1), broken=None, tick=Tick("", ""), legend={}) == ""


def test_a_page_lets_a_browser_do_nothing_but_show_it() -> None:
    style = style_of()
    told = page("</title><script>", "<p>x</p>", style=style, kind='a" onload="x')
    assert policy_of(style) in told
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in told
    assert '<body class="aonloadx">' in told
    assert policy_of(style) != policy_of(f"{style} ")
    assert style_of("operator_evals.rendering").startswith(style)


def test_words_are_short_and_harmless() -> None:
    assert escape_text("<a href='x'>\x1b") == "&lt;a href=&#x27;x&#x27;&gt;\\x1b"
    assert (span(None), span(4.2), span(3700)) == ("-", "4.2 s", "1 h 1 min")
    assert (figure(value=True), figure(2_500_000), figure(None)) == ("yes", "2.5 M", "-")
    assert (plural(1, "trial"), plural(2, "is", "are")) == ("1 trial", "2 are")


def test_every_text_is_told_from_what_it_stands_on_in_the_light_and_in_the_dark() -> None:
    found = LIGHT_AND_DARK.findall(style_of("operator_evals.rendering"))
    light: dict[str, str] = {}
    dark: dict[str, str] = {}
    for at, body in enumerate(found):
        (dark if at % 2 else light).update(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", body))
    assert set(light) == set(dark)
    weak = [
        (front, back, round(_contrast(colours[front], colours[back]), 2))
        for colours in (light, dark)
        for front, back in PAIRS
        if _contrast(colours[front], colours[back]) < CONTRAST_MIN
    ]
    assert weak == []


def _contrast(first: str, second: str) -> float:
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_text_is_escaped_on_its_way_into_an_element() -> None:
    assert join() == EMPTY
    assert heading(2, text("<b>")) == "<h2>&lt;b&gt;</h2>"
    assert link('/?"', text("a&b")) == '<a href="/?&quot;">a&amp;b</a>'
    assert block("\x1b[1m<i>\n") == "<pre>\\x1b[1m&lt;i&gt;\n</pre>"


def test_a_reading_has_the_unit_of_its_name() -> None:
    shown = {
        "db_bytes": (309_764_096, "295 MB"),
        "quorum_lost_s": (38.9, "39 s"),
        "p99_ms": (1051.6, "1.1 s"),
        "client_errors_per_s": (1.5, "1.5/s"),
        "quota_ratio": (0.25, "25 %"),
        "used_percent": (91, "91 %"),
        "voters": (3, "3"),
        "lag_s": (None, "-"),
        "behind_s": (-1.0, "-1"),
        "reachable": (True, "yes"),
    }
    assert {name: format_reading(name, value) for name, (value, _) in shown.items()} == {
        name: text for name, (_, text) in shown.items()
    }
