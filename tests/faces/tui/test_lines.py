"""A panel of output keeps little, paints seldom, and obeys nothing that it is fed."""

from __future__ import annotations

import threading

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region

from operator_sre.faces.tui import lines as module
from operator_sre.faces.tui.lines import LINE_CHARS_MAX, LINES_MAX, Lines
from tests.every import expect_each

pytestmark = pytest.mark.asyncio


class _Panel(App[None]):
    """One panel alone."""

    def compose(self) -> ComposeResult:
        """Nothing but it."""
        yield Lines(lines_max=100)


def _shown(panel: Lines) -> list[str]:
    return [panel.render_line(y).text.rstrip() for y in range(panel.size.height)]


async def test_what_is_fed_is_shown_line_by_line_however_it_is_cut() -> None:
    cases = (
        (("one\ntwo\n",), "one\ntwo"),
        (("on", "e\nt", "wo"), "one\ntwo"),
        (("a\r\nb\r\n",), "a\nb"),
        (("a\n\n\nb\n",), "a\n\n\nb"),
        (("tab\tstop\n",), "tab     stop"),
        (("\x1b[31mred\x1b[0m\n",), "\\x1b[31mred\\x1b[0m"),
        (("\x1b]52;c;aGk=\x07\n",), "\\x1b]52;c;aGk=\\x07"),
        (("[/x][bold red]no\n",), "[/x][bold red]no"),
        (("\x9b31m\u202eabc\u2066\n",), "\\x9b31m\\u202eabc\\u2066"),
        (("\ud800 half\n",), "\\ud800 half"),
        (("a\rb\n",), "a\\rb"),
    )

    def kept(parts: tuple[str, ...], expected: str) -> None:
        panel = Lines()
        for part in parts:
            panel.feed(part)
        assert panel.text == expected

    expect_each(cases, kept)


async def test_it_keeps_the_newest_lines_and_the_beginning_of_long_ones() -> None:
    panel = Lines(lines_max=10)
    panel.feed("".join(f"{number}\n" for number in range(1_000)))
    assert panel.text.split("\n") == [str(number) for number in range(990, 1_000)]
    assert panel.dropped == 990
    for _ in range(16):
        panel.feed("x" * 65_536)
    panel.feed("\nshort\n")
    *_, long, short = panel.text.split("\n")
    assert (long, short) == ("x" * LINE_CHARS_MAX + " …", "short")
    assert Lines()._ring.maxlen == LINES_MAX


async def test_it_paints_at_its_own_pace_whatever_is_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[int] = []
    async with _Panel().run_test(size=(40, 10)) as pilot:
        panel = pilot.app.query_one(Lines)
        real = panel.refresh

        def refresh(*regions: Region) -> Lines:
            painted.append(1)
            return real(*regions)

        monkeypatch.setattr(panel, "refresh", refresh)

        def pour() -> None:
            for number in range(20_000):
                panel.feed(f"line {number}\n")

        pouring = threading.Thread(target=pour)
        pouring.start()
        while pouring.is_alive():
            await pilot.pause(module.PAINT_S)
        await pilot.pause(3 * module.PAINT_S)
        assert _shown(panel)[-1] == "line 19999"
        assert 1 <= len(painted) < 2_000, "once for a moment, not once for a line"
        painted.clear()
        await pilot.pause(5 * module.PAINT_S)
        assert not painted, "nothing new is nothing to paint"


async def test_a_reader_who_scrolled_back_stays_there_until_the_end_is_wanted() -> None:
    async with _Panel().run_test(size=(40, 10)) as pilot:
        panel = pilot.app.query_one(Lines)
        panel.focus()
        panel.feed("".join(f"line {number}\n" for number in range(50)))
        await pilot.press("pageup")
        before = _shown(panel)
        assert (before[0], panel.is_following) == ("line 31", False)
        panel.feed("more\n" * 20)
        assert _shown(panel) == before
        await pilot.press("end")
        assert (_shown(panel)[-1], panel.is_following) == ("more", True)
        await pilot.press("home")
        assert _shown(panel)[0] == "line 0"
        panel.feed("flood\n" * 200)
        assert _shown(panel)[0] == "flood", "what is gone cannot be stayed at"
        following = []
        for keys in (("end", "up", "up"), ("down", "down")):
            await pilot.press(*keys)
            following.append(panel.is_following)
        assert following == [False, True]
        panel.clear()
        panel.feed("0123456789" * 8 + "\n")
        await pilot.press("right")
        assert _shown(panel)[0].startswith("89012")
        await pilot.press("left", "left")
        assert _shown(panel)[0].startswith("01234")


async def test_wide_letters_never_make_a_row_longer_than_the_panel() -> None:
    async with _Panel().run_test(size=(11, 4)) as pilot:
        panel = pilot.app.query_one(Lines)
        panel.feed("漢字漢字漢字漢字\ne\u0301e\u0301\n\U0001f600\U0001f600\U0001f600\n")
        for y in range(4):
            assert panel.render_line(y).cell_length == 11
