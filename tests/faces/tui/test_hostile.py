"""Text from outside changes nothing but the panel it is shown in, whatever it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.ticket import Move, MoveKind
from operator_sre.app.wiring import open_app
from operator_sre.codec import to_json
from operator_sre.faces.tui.console.outputs import WHOLE_BYTES_MAX, Decoded
from operator_sre.faces.tui.console.question import Question
from operator_sre.faces.tui.console.run import RunPage
from operator_sre.faces.tui.lines import Lines
from tests.contract.samples import approval, confirmation, proof, violation
from tests.contract.workshop import DIAGNOSIS
from tests.faces.tui.world import SLOW_AND_QUICK, config_at, console_on, screen_text, until

pytestmark = pytest.mark.asyncio

# Colours, the title, the clipboard, a link, the alternate screen, a reset, a bell, a cursor that
# goes home, C1 controls, letters that turn lines round, markup of three kinds, and half a letter.
HOSTILE = (
    "\x1b[31;5mred\x1b]0;title\x07\x1b]52;c;aGk=\x07\x1b]8;;http://x\x1b\\link\x1b[?1049l\x1bc\x07"
    "\x1b[H\x1b[2J\x9b2J\x90q\x9c\u202eturned\u2066\u200b\x00\x7f\r\x0b\x0c"
    "[/x][bold red]markup[/][@click=app.quit()]press[/][link=file:///]\\[ $foo :smile: {x} \ud800"
)


def _is_sane(pilot: Pilot[int], size: tuple[int, int]) -> None:
    """No cell holds what a terminal obeys, rows are as wide as the screen, the frame is ours."""
    strips = pilot.app.screen._compositor.render_strips()
    assert len(strips) == size[1]
    for strip in strips:
        assert strip.cell_length == size[0]
        for segment in strip:
            assert not segment.control
            assert segment.text.isprintable(), repr(segment.text)
            style = segment.style
            assert style is None or (style.link is None and "@click" not in style.meta)
            assert style is None or not style.blink
    if isinstance(pilot.app.screen, Question):
        return
    rows = screen_text(pilot).split("\n")
    assert "2 Tickets" in rows[0]
    assert "6 Audit" in rows[0]
    assert "● connected" in rows[1]


@pytest.mark.parametrize("size", SLOW_AND_QUICK)
async def test_no_page_obeys_what_it_shows(tmp_path: Path, size: tuple[int, int]) -> None:
    config = config_at(tmp_path)
    with open_app(config) as app:
        store, now = app.store, app.clock.now()
        await store.tickets.open([violation(HOSTILE, HOSTILE, detail=HOSTILE)])
        diagnosis = replace(DIAGNOSIS.diagnosis, summary=HOSTILE, choice=HOSTILE, why=HOSTILE)
        hypothesis = {"cause": HOSTILE, "target": HOSTILE, "probability": 0.97}
        for kind, payload in (
            (Kind.REASONING, {"reasoning": HOSTILE, "hypotheses": [hypothesis]}),
            (Kind.DIAGNOSIS, to_json(diagnosis)),
            (Kind.PROOF, to_json(proof(held=False, detail=HOSTILE))),
        ):
            await store.journal.append(Draft(kind, payload, ticket=1))
        await store.ticket_moves.make(1, Move(MoveKind.COMMENT, Actor(HOSTILE, "user"), HOSTILE))
        action = replace(Action.shell(HOSTILE, target=HOSTILE, reasoning=HOSTILE), cwd=HOSTILE)
        asked = approval("ask", at=now, within_s=600.0)
        asked = replace(asked, action=action, explanation=HOSTILE, writes=(HOSTILE,))
        await store.approvals.request(asked)
        change = {HOSTILE: HOSTILE}
        await store.confirmations.request(
            replace(confirmation("conf", at=now), rationale=HOSTILE, change=change)
        )
        await store.switch.turn_on(by=HOSTILE, reason=HOSTILE)
        await store.switch.turn_off(by=HOSTILE, reason=HOSTILE)
        await store.approvals.request(replace(asked, id="again"))
        async with console_on(config, size) as (console, pilot):
            for keys in (
                ("1",),
                ("2",),
                ("enter",),
                ("d",),
                ("p",),
                ("c",),
                ("m",),
                ("escape", "escape", "3"),
                ("a",),
                ("escape", "r"),
                ("escape", "down"),
                ("a",),
                ("escape", "6"),
                ("enter", "pagedown"),
                ("escape", "4"),
            ):
                await pilot.press(*keys)
                await pilot.pause(0.1)
                _is_sane(pilot, size)
            console.say(HOSTILE, bad=True)
            await pilot.pause(0.2)
            _is_sane(pilot, size)


async def test_what_a_command_says_stays_in_its_panel(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(
        HOSTILE.encode("utf-8", "surrogatepass")
        + b"\n\xff\xfe\xc3(\n"
        + b"x" * 1_000_000
        + b"\nend\n"
    )
    size = (80, 24)
    async with console_on(config_at(tmp_path), size) as (console, pilot):
        await pilot.press("5")
        assert isinstance(console.screen, RunPage)
        console.screen.query_one(Input).value = f"cat {bad}"
        panel = console.screen.query_one(Lines)
        await until(pilot, lambda: "it runs without approval" in screen_text(pilot))
        before = screen_text(pilot).split("\n")
        await pilot.press("enter")
        await until(pilot, lambda: "— exit 0 in" in screen_text(pilot))
        _is_sane(pilot, size)
        after, top = screen_text(pilot).split("\n"), panel.region.y
        assert after[:top] == before[:top]
        assert after[panel.region.bottom :] == before[panel.region.bottom :]
        said = panel.text.split("\n")
        assert said[0].startswith("\\x1b[31;5mred\\x1b]0;title\\x07\\x1b]52;c;aGk=\\x07")
        assert "[/x][bold red]markup[/]" in said[0]
        assert "\\xff\\xfe" in panel.text
        assert max(map(len, said)) < 20_000, "a line of a million letters is cut"
        assert "end" in said
        for key in ("home", "pagedown", "right", "right", "end"):
            panel.focus()
            await pilot.press(key)
            await pilot.pause(0.1)
            _is_sane(pilot, size)


async def test_letters_that_come_in_halves_are_put_together_and_too_much_is_enough() -> None:
    panel = Lines()
    said = Decoded(panel)
    for part in (b"gr\xc3", b"\xbc\xc3\x9fe \xf0\x9f", b"\x98\x80\n", b"\xff\n"):
        said.feed(1, part)
    assert panel.text == "grüße \U0001f600\n\\xff"
    much = Decoded(Lines())
    assert much.feed_limited(1, b"x" * WHOLE_BYTES_MAX) is False
    assert much.feed_limited(2, b"more") is False
    assert much.bytes == WHOLE_BYTES_MAX
