"""What people say to hold agents back: the kill switch, modes, sessions and limits."""

from __future__ import annotations

import asyncio

import pytest

from operator_protocols.domain.entry import Kind
from operator_sre.clock import SystemClock
from tests.app.home import SUBJECTS
from tests.contract.doing import Doer
from tests.e2e.home import Home
from tests.faces.cli.sentences import Bad, one_sentence


@pytest.fixture
def shop(home: Home) -> Home:
    """A home with one configured subject, on which an agent has failed three times."""
    (home.cwd / "operator.toml").write_text(SUBJECTS)
    home.path.mkdir()

    async def act() -> None:
        doer = await Doer.hired(home.store, SystemClock())
        for _ in range(3):
            await doer.fail("systemctl restart x")
        await home.store.sessions.hold("by-run-1", score=51, reason="too much")

    asyncio.run(act())
    return home


def test_the_kill_switch_is_turned_on_and_off(home: Home) -> None:
    assert home.run("kill-switch", "status").out == "The kill switch is off.\n"
    on = home.run("kill-switch", "on", "--reason", "enough")
    assert on.code == 0
    assert on.out.splitlines()[-1] == "Nothing is permitted until: operator kill-switch off"
    status = home.run("kill-switch", "status").out
    assert status.startswith("The kill switch is on, by ")
    assert status.endswith(": enough.\n")
    asked = home.run("kill-switch", "off")
    assert (asked.code, "operator confirmations approve conf_" in asked.out) == (4, True)
    off = home.run("kill-switch", "off", "--yes", "--reason", "fixed", "--json")
    assert (off.code, off.json["switch"]["on"], off.json["switch"]["generation"]) == (0, False, 2)
    kinds = [entry.kind for entry in home.entries(*Kind)]
    assert [kind for kind in kinds if kind.startswith("kill_")] == [
        Kind.KILL_SWITCH_ON,
        Kind.KILL_SWITCH_OFF,
    ]


def test_a_mode_is_shown_set_and_reset(shop: Home) -> None:
    assert shop.run("mode").out.split("\n")[1].split()[:3] == ["shop", "observe", "default"]
    said = shop.run("mode", "set", "approve", "--reason", "day")
    assert said.code == 0, said.err
    assert said.out.split("\n")[1].split()[:3] == ["shop", "approve", "set"]
    (shown,) = shop.run("mode", "show", "--json").json["modes"]
    assert (shown["mode"], shown["source"], shown["reason"]) == ("approve", "set", "day")
    assert shop.run("kill-switch", "on").code == 0
    (shown,) = shop.run("mode", "--json").json["modes"]
    assert (shown["mode"], shown["source"]) == ("observe", "kill switch")
    assert shop.run("kill-switch", "off", "--yes").code == 0
    (shown,) = shop.run("mode", "reset", "--json").json["modes"]
    assert (shown["mode"], shown["source"]) == ("observe", "default")


def test_execute_outside_a_rig_has_to_be_meant(shop: Home) -> None:
    line = "mode set execute --subject shop"
    asked = shop.run(*line.split())
    assert (asked.code, "'shop' is not a rig" in asked.out) == (4, True)
    assert "operator confirmations approve conf_" in asked.out
    assert shop.store.modes.find() == []
    (shown,) = shop.run(*line.split(), "--yes", "--json").json["modes"]
    assert shown["mode"] == "execute"
    kinds = [one.kind for one in shop.entries(*Kind)][-4:]
    assert kinds == [
        Kind.CONFIRMATION_REQUESTED,
        Kind.CONFIRMATION_DECIDED,
        Kind.MODE_SET,
        Kind.CONFIRMATION_SETTLED,
    ]


@pytest.mark.parametrize(
    "bad",
    [
        Bad("mode set sometimes", 2, "no mode 'sometimes'.*observe, approve, execute"),
        Bad("mode set observe --subject nosuch", 2, "no subject 'nosuch'"),
        Bad("session show nobody", 2, "no session of 'nobody'.*by-run-1"),
        Bad("session reset nobody --reason x", 2, "no session of 'nobody'"),
        Bad("session reset by-run-1", 2, "--reason"),
        Bad("limits reset nosuch --reason x", 2, "no subject 'nosuch'"),
    ],
    ids=lambda bad: bad.line,
)
def test_bad_lines_are_answered_in_a_sentence(shop: Home, bad: Bad) -> None:
    one_sentence(shop.run(*bad.line.split()), bad)


def test_sessions_are_listed_shown_and_reset(shop: Home) -> None:
    (one,) = shop.run("session", "list", "--json").json["sessions"]
    assert (one["agent"], one["held"], len(one["deeds"])) == ("by-run-1", True, 3)
    assert "held" in shop.run("session", "list").out
    shown = shop.run("session", "show", "by-run-1").out
    assert "held in observe" in shown
    assert "systemctl restart x" in shown
    asked = shop.run("session", "reset", "by-run-1", "--reason", "seen", "--json")
    assert (asked.code, asked.json["requires_confirmation"]) == (4, True)
    told = shop.run("session", "reset", "by-run-1", "--reason", "seen", "--yes")
    assert told.code == 0
    assert told.out.startswith("by-run-1: LOW, 0, free")
    assert _payload(shop, Kind.SESSION_RESET)["reason"] == "seen"
    assert shop.run("session", "show", "by-run-1", "--json").json["session"]["held"] is False


def test_limits_are_shown_and_reset(shop: Home) -> None:
    (one,) = shop.run("limits", "show", "--json").json["limits"]
    assert one["usage"]["failures"] == 3
    assert "failed in a row" in one["refusal"]
    assert "3/3" in shop.run("limits", "show").out
    assert shop.run("limits", "reset", "shop", "--reason", "looked at").code == 4
    reset = shop.run("limits", "reset", "shop", "--reason", "looked at", "--yes")
    assert reset.code == 0
    assert "0/3" in reset.out
    assert _payload(shop, Kind.LIMITS_RESET)["reason"] == "looked at"
    (after,) = shop.run("limits", "show", "--json").json["limits"]
    assert after["refusal"] == ""


def test_a_home_without_anything_says_so(home: Home) -> None:
    assert home.run("session", "list").out == "No agent has acted recently.\n"
    assert home.run("limits", "show").out == "No subjects.\n"
    (shown,) = home.run("mode", "show", "--json").json["modes"]
    assert (shown["subject"], shown["mode"]) == ("-", "observe")


def _payload(home: Home, kind: Kind) -> dict[str, object]:
    (entry,) = home.entries(kind)
    return dict(entry.payload)
