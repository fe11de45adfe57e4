"""The use cases of what holds agents back: whose word counts, who may say it, how it is told."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import AuthorityError, UsageError
from operator_sre.app import persons
from operator_sre.app.persons import administrator
from operator_sre.app.restraints import (
    LimitsView,
    ModeView,
    PartlyRun,
    Stopped,
    list_unconfirmed,
    mode_named,
    reset_limits,
    reset_modes,
    set_modes,
    show_limits,
    show_modes,
    switch_off,
    switch_on,
    switch_state,
)
from operator_sre.app.sessions import SessionView, list_sessions, reset_session, show_session
from operator_sre.app.story import lines_of
from operator_sre.app.wiring import App
from operator_sre.gate import LocalPermissions
from operator_sre.gate.authority import Role
from tests.app.home import SUBJECTS, opened
from tests.contract.samples import approval


def _told(app: App) -> list[str]:
    entries: list[Entry] = list(app.store.entries.after(0, limit=100))
    return [line.text for entry in entries for line in lines_of(entry)]


def test_the_switch_overrides_a_set_mode_which_overrides_the_configured(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS, mode="approve") as app:
        gate = app.controls("shop").gate
        assert show_modes(app) == [ModeView("shop", Mode.APPROVE, "flag")]
        asyncio.run(set_modes(app, Mode.EXECUTE, [], reason="night"))
        (view,) = show_modes(app)
        assert (view.mode, view.source, view.reason) == (Mode.EXECUTE, "set", "night")
        assert gate.policy().mode is Mode.EXECUTE
        stopped = asyncio.run(switch_on(app, reason="enough"))
        assert isinstance(stopped, Stopped)
        assert stopped.switch == switch_state(app)
        assert gate.policy().mode is Mode.OBSERVE
        (view,) = show_modes(app)
        assert (view.source, view.reason) == ("kill switch", "enough")
        asyncio.run(switch_off(app, reason=""))
        assert gate.policy().mode is Mode.EXECUTE
        asyncio.run(reset_modes(app, ["other"], reason=""))
        assert gate.policy().mode is Mode.EXECUTE
        asyncio.run(reset_modes(app, [], reason="day"))
        assert gate.policy().mode is Mode.APPROVE
        assert _told(app) == [
            "the mode of shop is execute: night",
            "the kill switch was turned on: enough",
            "the kill switch was turned off",
            "the mode of shop is the configured one: day",
        ]


def test_changes_alone_are_stopped_while_checks_go_on(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS, mode="execute") as app:
        waiting = approval("a1", at=app.clock.now())
        asyncio.run(app.store.approvals.request(waiting))
        stopped = asyncio.run(switch_on(app, reason="enough", changes_only=True))
        assert stopped.pending_proposals == ("a1",)
        assert stopped.observed == ("shop", "machine")
        assert not switch_state(app).on
        gate = app.controls("shop").gate
        assert gate.policy().mode is Mode.OBSERVE
        assert app.mode_of("machine") is Mode.OBSERVE
        check, change = Action.shell("uptime"), Action.shell("mkdir zz")
        by = Actor(id="ada", type="user")
        permitted = asyncio.run(gate.permit(gate.judge(check), None, by, subject="shop"))
        assert isinstance(permitted, Permit)
        refused = asyncio.run(gate.permit(gate.judge(change), None, by, subject="shop"))
        assert isinstance(refused, Result)
        assert "observe" in refused.stderr
        asyncio.run(reset_modes(app, [], reason="fixed"))
        assert app.controls("shop").gate.policy().mode is Mode.EXECUTE


def test_only_what_executes_outside_a_rig_has_to_be_confirmed(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        assert list_unconfirmed(app, mode_named("execute"), []) == ["shop"]
        assert list_unconfirmed(app, mode_named("approve"), []) == []
        rig = app.rig_directory("ratelimiter")
        rig.mkdir(parents=True)
        (rig / "rig.json").touch()
        assert list_unconfirmed(app, Mode.EXECUTE, ["ratelimiter"]) == []
        assert (app.is_rig("ratelimiter"), app.is_rig("shop")) == (True, False)
        with pytest.raises(UsageError, match="not a valid mode"):
            mode_named("often")


def test_limits_follow_the_settings(tmp_path: Path) -> None:
    with opened(tmp_path, f"changes_per_hour = 7\ntargets_max = 3\n{SUBJECTS}") as app:
        (view,) = show_limits(app)
        assert isinstance(view, LimitsView)
        assert view.limits == Limits(7, 3)
        assert (view.subject, view.usage.changes, view.refusal) == ("shop", 0, "")
        asyncio.run(reset_limits(app, "shop", reason="x"))
        assert _told(app) == ["the limits of shop were reset: x"]


def test_a_held_agent_is_shown_and_let_go(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        asyncio.run(app.store.sessions.hold("host", score=51, reason="haste"))
        (view,) = list_sessions(app)
        assert isinstance(view, SessionView)
        assert (view.agent, view.held, view.deeds) == ("host", True, ())
        assert show_session(app, "host") == view
        assert asyncio.run(reset_session(app, "host", reason="seen")).held is False
        assert _told(app) == [
            "host was switched to observe at risk 51: haste",
            "the session of host was reset: seen",
        ]


def test_everybody_may_turn_it_on_and_an_admin_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persons, "signed_in", lambda: "eve")
    roles = LocalPermissions({"ada": Role.ADMIN, "eve": Role.VIEWER})
    monkeypatch.setattr(App, "permissions", roles)
    with opened(tmp_path, SUBJECTS) as app:
        asyncio.run(switch_on(app, reason=""))
        with pytest.raises(AuthorityError, match="'eve' is not an admin"):
            asyncio.run(switch_off(app, reason=""))
        with pytest.raises(AuthorityError, match="may not set a mode"):
            asyncio.run(set_modes(app, Mode.EXECUTE, [], reason=""))
        assert switch_state(app).on
        monkeypatch.setattr(persons, "signed_in", lambda: "ada")
        assert administrator(app, "anything") == "ada"
        assert not asyncio.run(switch_off(app, reason="")).on
        kinds = [one.kind for one in app.store.entries.after(0, limit=9)]
        assert kinds == [Kind.KILL_SWITCH_ON, Kind.KILL_SWITCH_OFF]
    assert PartlyRun(1, "x", "", None).command == "x"


def test_a_person_is_an_agent_of_their_own_on_each_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persons, "signed_in", lambda: "eve")
    me = persons.myself()
    assert (me.id, me.type) == ("eve", "user")
    assert me.agent.startswith("eve@")
    assert me.agent.endswith(f":{os.getpid()}")
