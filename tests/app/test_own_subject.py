"""Operator watches itself: each part has a way to break, and a full home still reaches people."""

from __future__ import annotations

import asyncio
import shutil
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.watcher import Watch, Watcher
from operator_protocols.errors import StoreError
from operator_sre.app import own_subject
from operator_sre.app.health import show_health
from operator_sre.app.notices import configured_channels
from operator_sre.app.own_subject import (
    PAGE_ENTRIES,
    STUCK_S,
    WINDOW_S,
    OwnSubject,
    StoreAlarm,
    own_plugin,
    own_targets,
    probe_store,
    watch_own,
)
from operator_sre.app.wiring import OWN, App
from operator_sre.notify.channel import PREFIX
from operator_sre.notify.notice import Message
from tests.app.home import opened
from tests.contract.samples import violation
from tests.e2e.waiting import eventually
from tests.every import every

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
ADDRESS = "postgresql://ada:kX9fQ2mW7pLr@db.example/operator"
Usage = namedtuple("Usage", "total used free")


@dataclass
class Clock:
    """A clock that the test moves; its two hands may move differently."""

    wall: datetime = NOW
    steady_s: float = 0.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.steady_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.steady_s += seconds
        self.wall += timedelta(seconds=seconds)


@dataclass
class Inbox:
    """A channel that keeps what it is sent."""

    name: str = "inbox"
    messages: list[Message] = field(default_factory=list)

    async def send(self, message: Message) -> str:
        self.messages.append(message)
        return ""


def _broken(findings: list[Finding]) -> dict[str, str]:
    return {each.invariant: each.detail for each in findings if each.health is Health.BROKEN}


def _findings(subject: OwnSubject, observation: Observation) -> list[Finding]:
    return [each for rule in subject.invariants for each in rule.check(observation)]


def _judge(app: App, target: str, readings: Mapping[str, object]) -> dict[str, str]:
    subject = OwnSubject(app)
    parts = {part.name: Seen(part.name, {"free_bytes": 1 << 40}) for part in own_targets()}
    parts[target] = Seen(target, readings)  # type: ignore[arg-type]
    return _broken(_findings(subject, Observation(OWN, NOW, tuple(parts.values()))))


def test_a_healthy_home_has_no_finding_and_every_part_is_observed(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        subject = own_plugin(app).subject(app.settings_of(OWN, lambda: ()))
        assert isinstance(subject, OwnSubject)
        observation = asyncio.run(subject.observe())
        assert {seen.target for seen in observation.seen} == {part.name for part in own_targets()}
        findings = _findings(subject, observation)
    assert {each.health for each in findings} == {Health.HEALTHY}
    assert len(findings) == 8


@every(
    ("target", "readings", "invariant", "words"),
    [
        ("home", {"free_bytes": 1 << 30}, "space", "1 GB free"),
        ("home", {"free_bytes": 1 << 20}, "space_left", "1 MB free"),
        ("store", {"write_problem": "disk full"}, "store_writable", "disk full"),
        ("store", {"write_s": 3.0}, "store_writable", "3.0 s"),
        ("clock", {"jump_s": -7.0}, "clock_steady", "-7.0 s"),
        ("monitors", {"missed": 2, "failed": 1}, "checks_on_time", "2 checks skipped and 1 failed"),
        ("agents", {"stuck": "ticket 7"}, "runs_move", "ticket 7"),
        ("models", {"fallbacks": 3, "problem": "timeout"}, "models_answer", "timeout"),
        ("messages", {"problem": "mail: rejected"}, "messages_arrive", "mail: rejected"),
    ],
)
def test_each_part_can_break(
    tmp_path: Path, target: str, readings: Mapping[str, object], invariant: str, words: str
) -> None:
    with opened(tmp_path) as app:
        assert words in _judge(app, target, readings)[invariant]


def test_a_clock_that_jumps_is_noticed_and_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path) as app:
        subject = OwnSubject(replace(app, clock=clock))

        def broken() -> bool:
            found = asyncio.run(subject.observe())
            return "clock_steady" in _broken(_findings(subject, found))

        assert not broken()
        clock.steady_s, clock.wall = 30.0, NOW + timedelta(seconds=30)
        assert not broken()
        clock.steady_s, clock.wall = 60.0, NOW + timedelta(seconds=20)
        assert broken()
        clock.steady_s, clock.wall = 60.0 + 700, NOW + timedelta(seconds=20 + 700)
        assert not broken()


def test_checks_that_were_missed_count_within_the_window_only(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path) as app:
        subject = OwnSubject(replace(app, clock=clock))

        def missed(total: int) -> float:
            watches = (Watch("shop", 30, missed=total),)
            asyncio.run(app.store.watchers.beat(Watcher("m:1", NOW, NOW, watches)))
            found = asyncio.run(subject.observe()).of("monitors").readings["missed"]
            assert isinstance(found, int)
            return found

        assert missed(5) == 0, "what was missed before is not counted"
        clock.steady_s = 60.0
        assert missed(9) == 4
        clock.steady_s = 1000.0
        assert missed(9) == 0


def test_a_write_that_takes_long_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with opened(tmp_path) as app:
        claim = app.store.cursors.claim

        async def slowly(*words: object, **more: object) -> object:
            clock.steady_s += 3.0
            return await claim(*words, **more)  # type: ignore[arg-type]

        subject = OwnSubject(replace(app, clock=clock))
        found = asyncio.run(subject.observe())
        assert "store_writable" not in _broken(_findings(subject, found))
        monkeypatch.setattr(app.store.cursors, "claim", slowly)
        found = asyncio.run(subject.observe())
        assert "3.0 s" in _broken(_findings(subject, found))["store_writable"]


def test_a_run_without_progress_is_noticed_until_it_moves(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        asyncio.run(app.store.tickets.open([violation()]))
        claim = app.store.leases.claim("crane", run="run-1", lease_s=1e6, attempts_max=3)
        ticket = asyncio.run(claim)
        assert ticket is not None

        def stuck(after_s: float) -> object:
            wall = app.clock.now() + timedelta(seconds=after_s)
            subject = OwnSubject(replace(app, clock=Clock(wall)))
            return asyncio.run(subject.observe()).of("agents").readings["stuck"]

        assert stuck(STUCK_S - 60) == ""
        assert stuck(STUCK_S + 60) == f"ticket {ticket.id}"
        asyncio.run(app.store.leases.release(ticket, reason="parked", wait_s=0.0, counts=False))
        assert stuck(STUCK_S + 60) == "", "nobody works on it"


def test_models_that_another_had_to_answer_for_count_within_the_window_only(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        clock = Clock(app.clock.now())

        def answer(note: str, by: str) -> None:
            draft = Draft(Kind.REASONING, {"by": by, "note": note} if by else {})
            asyncio.run(app.store.journal.append(draft))

        def seen(subject: OwnSubject) -> tuple[object, object]:
            readings = asyncio.run(subject.observe()).of("models").readings
            return readings["fallbacks"], readings["problem"]

        answer("timeout", "small")
        subject = OwnSubject(replace(app, clock=clock))
        assert seen(subject) == (1, "timeout"), "it was written before this start"
        answer("", "")
        for number in range(PAGE_ENTRIES + 1):
            answer(f"refused {number}", "small")
        assert seen(subject) == (PAGE_ENTRIES + 2, f"refused {PAGE_ENTRIES}")
        assert seen(subject)[0] == PAGE_ENTRIES + 2, "each counts once"
        clock.wall += timedelta(seconds=WINDOW_S + 60)
        assert seen(subject) == (0, "")
        assert seen(OwnSubject(replace(app, clock=clock))) == (0, "")


def test_a_channel_that_takes_no_message_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "urls").write_text("json://127.0.0.1:1/\n")
    (tmp_path / "urls").chmod(0o600)
    with opened(tmp_path, '[notify]\nurls_file = "urls"\n') as app:

        def problem() -> object:
            return asyncio.run(OwnSubject(app).observe()).of("messages").readings["problem"]

        assert problem() == ""
        (channel,) = configured_channels(app)
        cursors = app.store.cursors
        cursor = asyncio.run(cursors.claim(f"{PREFIX}{channel.name}", "crane", lease_s=60.0))
        assert cursor is not None
        failed = replace(cursor, note={"problem": "connection refused"})
        asyncio.run(cursors.keep(failed, lease_s=60.0))
        assert problem() == f"{channel.name}: connection refused"


def test_people_hear_of_a_store_that_cannot_be_written_without_it(tmp_path: Path) -> None:
    inbox, now_s = Inbox(), [0.0]
    alarm = StoreAlarm([inbox], tmp_path, lambda: now_s[0])

    async def take(*problems: str) -> list[str]:
        inbox.messages.clear()
        for problem in problems:
            await alarm.take(problem)
        return [message.title for message in inbox.messages]

    told = ["[critical] Operator cannot write its store"]
    assert asyncio.run(take("", "full")) == [], "one failure may be a moment"
    assert asyncio.run(take("full", "full", "full")) == told
    now_s[0] = 3601.0
    assert asyncio.run(take("full", "full")) == told
    assert asyncio.run(take("", "")) == ["Operator can write its store again"]
    assert asyncio.run(take("full")) == []


def test_a_full_home_opens_a_ticket_or_else_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox()
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(1 << 40, 0, 1 << 20))
    monkeypatch.setattr(own_subject, "configured_channels", lambda app: [inbox])
    with opened(tmp_path, "interval_s = 0.2\n") as app:

        async def until_told() -> None:
            watching = asyncio.create_task(watch_own(app))
            filed = lambda: app.store.tickets.find(subject=OWN)  # noqa: E731
            await asyncio.to_thread(eventually, filed, "a ticket about the home")
            assert OWN in [each.subject for each in show_health(app).subjects]

            async def full(*words: object, **more: object) -> None:
                raise StoreError(f"database or disk is full at {ADDRESS}")

            monkeypatch.setattr(type(app.store.cursors), "claim", full)
            await asyncio.to_thread(eventually, lambda: inbox.messages, "a message without it")
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

        asyncio.run(until_told())
        knows = app.engine().knows
        assert knows is not None
        assert OWN not in knows(), "an agent would work on it"
        (ticket,) = app.store.tickets.find(subject=OWN)
        assert ticket.state is TicketState.OPEN
        assert "1 MB free" in ticket.summary
        assert "database or disk is full" in inbox.messages[0].body
        assert "db.example" in inbox.messages[0].body
        assert "kX9fQ2mW7pLr" not in inbox.messages[0].body
        problem = asyncio.run(probe_store(app))["write_problem"]
        assert problem == f"database or disk is full at {ADDRESS}"
