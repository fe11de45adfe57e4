"""What must be confirmed before it is done: hand-offs, forgotten limits, looser rules, purges."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.limits import Usage
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import ConflictError
from operator_sre.app import restraints, store
from operator_sre.app.confirmations import (
    approve,
    cross,
    find,
    request,
    sweep,
)
from operator_sre.app.restraints import (
    limits_asked,
    limits_of,
    reset_asked,
    rule_asked,
    set_modes,
    show_modes,
    switch_asked,
)
from operator_sre.app.sessions import session_asked
from operator_sre.app.store import (
    plan_purge,
    purge_asked,
    purge_recorded,
    restore_asked,
    watch_purge,
)
from operator_sre.app.tickets import handoff_asked
from tests.app.crossings import ADA, BOB, entries
from tests.app.home import SUBJECTS, opened
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import standing_rule, violation


def test_a_ticket_is_handed_off_once_it_is_confirmed(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        ticket = asyncio.run(app.store.tickets.open([violation()]))
        asked = handoff_asked(app, ticket.id, to="network team", why="their switch")
        one = asyncio.run(request(app, asked, by=Actor("mind", "agent")))
        before = app.store.tickets.get(ticket.id)
        assert before is not None
        assert before.state is TicketState.OPEN
        asyncio.run(approve(app, one.id, BOB))
        after = app.store.tickets.get(ticket.id)
        assert after is not None
        assert (after.state, after.assignee) == (TicketState.ESCALATED, "network team")
        assert after.reason == "handed off to network team: their switch"
        claim = app.store.leases.claim("w", run="r", lease_s=9.0, attempts_max=3)
        assert asyncio.run(claim) is None
        (handed,) = entries(app, Kind.TICKET_HANDED_OFF)
        assert (handed.actor.id, handed.ticket) == ("bob", ticket.id)
        # It stays theirs, also when everything holds again, until a person says otherwise.
        assert after.is_paused(app.clock.now() + timedelta(days=999))
        assert after.pause is not None
        assert after.pause.by == "bob"


def test_limits_are_not_forgotten_when_more_has_failed_since(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app, pytest.MonkeyPatch.context() as patch:
        view = limits_of(app, "shop")

        def failed(count: int, changes: int) -> None:
            at = NOON + timedelta(hours=count)
            known = replace(view, usage=Usage("shop", (), changes, frozenset(), count, at))
            patch.setattr(restraints, "limits_of", lambda *words: known)

        failed(1, 3)
        asked = limits_asked(app, "shop", reason="seen")
        assert asked is not None
        one, other = (asyncio.run(request(app, asked)) for _ in range(2))
        failed(1, 2)  # an hour is over for one of them, which is nothing to look at again
        asyncio.run(approve(app, one.id, ADA))
        failed(2, 3)
        with pytest.raises(ConflictError, match="more actions have failed"):
            asyncio.run(approve(app, other.id, ADA))


def test_what_loosens_a_rule_is_confirmed_and_what_does_not_is_not(tmp_path: Path) -> None:
    with opened(tmp_path, f'mode = "execute"\n{SUBJECTS}') as app:
        assert limits_asked(app, "shop", reason="") is None
        assert limits_of(app, "shop").subject == "shop"
        asyncio.run(app.store.sessions.hold("host", score=51, reason="haste"))
        held = session_asked(app, "host", reason="seen")
        assert held is not None
        one = asyncio.run(request(app, held))
        asyncio.run(approve(app, one.id, BOB))
        assert session_asked(app, "host", reason="") is None
        assert switch_asked(app, reason="") is None
        asyncio.run(app.store.switch.turn_on(by="ada", reason="enough"))
        off = switch_asked(app, reason="fixed")
        assert off is not None
        first, second = (asyncio.run(request(app, off)) for _ in range(2))
        asyncio.run(approve(app, first.id, BOB))
        assert not app.store.switch.state().on
        asyncio.run(app.store.switch.turn_on(by="ada", reason="again"))
        with pytest.raises(ConflictError, match="switch has changed since"):
            asyncio.run(approve(app, second.id, BOB))
        assert app.store.switch.state().on
        asyncio.run(app.store.switch.turn_off(by="ada", reason=""))
        rule = standing_rule("r1")
        made = asyncio.run(cross(app, rule_asked(app, rule), sure=True))
        assert (made.applied, app.store.standing.get("r1")) == (True, rule)
        again = asyncio.run(request(app, rule_asked(app, rule)))
        with pytest.raises(ConflictError, match="already"):
            asyncio.run(approve(app, again.id, BOB))
        assert reset_asked(app, [], reason="") is None
        asyncio.run(set_modes(app, Mode.OBSERVE, ["shop"], reason=""))
        back = reset_asked(app, [], reason="day")
        assert back is not None
        asyncio.run(cross(app, back, sure=True))
        assert show_modes(app)[0].source == f"file {tmp_path / 'operator.toml'}"


def test_a_rule_for_always_is_made_under_the_policy_that_was_seen(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\n")
    with opened(tmp_path, policy=str(file)) as app:
        asked = rule_asked(app, standing_rule("r1"))
        assert asked.bound == {"policy": app.rules().digest}
        one = asyncio.run(request(app, asked))
        file.write_text("version: 1\negress: {deny: [example.org]}\n")
    with opened(tmp_path, policy=str(file)) as app:
        with pytest.raises(ConflictError, match="policy has changed since"):
            asyncio.run(approve(app, one.id, BOB))
        assert app.store.standing.find() == []
        two = asyncio.run(cross(app, rule_asked(app, standing_rule("r1")), sure=True))
        assert (two.applied, len(app.store.standing.find())) == (True, 1)


def test_a_purge_is_confirmed_by_what_it_would_take(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        plan = plan_purge(app.config, "2020-01-01")
        one = asyncio.run(request(app, purge_asked(replace(plan, entries=5))))
        assert purge_recorded(app) is None
        with watch_purge(lambda count: None), pytest.raises(ConflictError, match="has changed"):
            asyncio.run(approve(app, one.id, BOB))
        (settled,) = find(app)
        assert (settled.applied, settled.outcome[:11]) == (False, "not applied")
        asked = restore_asked(app.config, tmp_path / "operator.toml")
        assert asked is not None
        assert asked.boundary is Boundary.DESTRUCTIVE_OPERATION


def test_a_purge_that_takes_long_is_not_said_to_be_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store.purge_store
    with opened(tmp_path) as app:
        plan = plan_purge(app.config, app.clock.now().isoformat())
        one = asyncio.run(request(app, purge_asked(plan)))
        threads = []

        def slow(*words: object, **more: object) -> object:
            threads.append(threading.current_thread())
            later = replace(app, clock=HeldClock(app.clock.now() + timedelta(seconds=600)))
            assert asyncio.run(sweep(later)) == []
            return real(*words, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(store, "purge_store", slow)
        assert asyncio.run(approve(app, one.id, ADA)).applied
        assert threads != [threading.main_thread()], "whoever else asks is answered meanwhile"
        with pytest.raises(ConflictError, match="has ended meanwhile"):
            asyncio.run(store.CROSSING.apply(app, one, ADA))  # type: ignore[misc,arg-type]
