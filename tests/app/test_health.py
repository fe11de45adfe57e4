"""One screen that tells the truth: nobody watching, silenced, flapping, stale, all well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.watcher import Watch, Watcher
from operator_protocols.errors import NotFoundError, UsageError
from operator_protocols.kit.client import ALL_CHECKED, CLIENT_VIEW, READS_CHECKED
from operator_protocols.ports import Condition
from operator_sre.app.health import HealthView, SubjectHealth, TargetHealth, Trouble, show_health
from operator_sre.app.silences import (
    add_silence,
    end_silence,
    list_silences,
    silences_now,
    time_of,
)
from operator_sre.app.wiring import App
from operator_sre.operations.health import health_lines
from tests.app.home import SUBJECTS, opened
from tests.contract.samples import violation

ALWAYS = '\nwindows = [{ from = "00:00", for = "24h", targets = ["node-1"] }]'


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path, SUBJECTS) as app:
        yield app


def _condition(now: datetime, health: Health, **more: object) -> Condition:
    broken = now - timedelta(seconds=90) if health is Health.BROKEN else None
    since = now - timedelta(seconds=90)
    one = Condition("shop", "node_down", "node-1", health, since, broken, "refused")
    return replace(one, **more)  # type: ignore[arg-type]


async def _watched(app: App, *, looked_s: float | None = 1.0, spoke_s: float = 1.0) -> None:
    now = app.clock.now()
    last = None if looked_s is None else now - timedelta(seconds=looked_s)
    me = Watcher("here:1", now, now - timedelta(seconds=spoke_s), (Watch("shop", 5.0, last),))
    await app.store.watchers.beat(me)


def _shop(view: HealthView) -> SubjectHealth:
    (one,) = view.subjects
    return one


async def _silence(app: App, *, for_: str = "1h", until: str = "", **patterns: str) -> str:
    given = {"subject": "*", "target": "*", "invariant": "*", **patterns}
    return (await add_silence(app, reason="a disk", for_=for_, until=until, **given)).id


@pytest.mark.asyncio
async def test_all_is_well_only_when_somebody_looks(app: App) -> None:
    await app.store.conditions.update([_condition(app.clock.now(), Health.HEALTHY)])
    nobody = show_health(app)
    assert (nobody.health, nobody.fine) == (Health.UNKNOWN, False)
    assert "not monitored" in _shop(nobody).problem
    await _watched(app)
    view = show_health(app)
    assert (view.health, view.fine, _shop(view).problem) == (Health.HEALTHY, True, "")
    assert _shop(view).targets == (TargetHealth("node-1", Health.HEALTHY),)
    assert _shop(view).watchers == ("here:1",)
    (head, *_) = health_lines(view)
    assert isinstance(head, str)
    assert "watched by process 1 on here since " in head
    assert head.endswith("(shop)")


@pytest.mark.asyncio
async def test_what_is_left_unchecked_on_purpose_is_a_note_and_not_unknown(app: App) -> None:
    await _watched(app)
    now = app.clock.now()
    await app.store.conditions.update([_condition(now, Health.HEALTHY)])
    seen = (
        Seen("primary", {CLIENT_VIEW: READS_CHECKED}),
        Seen("other", {CLIENT_VIEW: ALL_CHECKED}),
        Seen("replica", {}),
    )
    await app.store.observations.add(Observation("shop", now, seen))
    view = show_health(app)
    assert _shop(view).notes == ("primary: reads checked, writes not checked",)
    assert (_shop(view).health, view.fine) == (Health.HEALTHY, True)
    assert "  note: primary: reads checked, writes not checked" in health_lines(view)


@pytest.mark.asyncio
async def test_a_monitor_that_speaks_no_more_watches_nothing(app: App) -> None:
    await app.store.conditions.update([_condition(app.clock.now(), Health.HEALTHY)])
    await _watched(app, spoke_s=60.0)
    view = show_health(app)
    assert (view.fine, view.watchers) == (False, ())


@pytest.mark.asyncio
@pytest.mark.parametrize("looked_s", [None, 3600.0])
async def test_a_monitor_that_does_not_look_is_no_comfort(app: App, looked_s: float | None) -> None:
    await app.store.conditions.update([_condition(app.clock.now(), Health.HEALTHY)])
    await _watched(app, looked_s=looked_s)
    view = show_health(app)
    assert (view.health, view.fine) == (Health.UNKNOWN, False)


@pytest.mark.asyncio
async def test_a_subject_that_was_never_looked_at_is_unknown(app: App) -> None:
    await _watched(app)
    view = show_health(app)
    assert (view.health, _shop(view).targets[0].health) == (Health.UNKNOWN, Health.UNKNOWN)


@pytest.mark.asyncio
async def test_what_is_broken_says_since_when_and_under_which_ticket(app: App) -> None:
    now = app.clock.now()
    await app.store.conditions.update([_condition(now, Health.BROKEN)])
    ticket = await app.store.tickets.open([violation("node-1")])
    await _watched(app)
    view = show_health(app)
    (trouble,) = _shop(view).troubles
    assert isinstance(trouble, Trouble)
    assert (trouble.ticket, trouble.since) == (ticket.id, now - timedelta(seconds=90))
    assert (view.health, view.fine) == (Health.BROKEN, False)


@pytest.mark.asyncio
async def test_what_is_silenced_is_broken_still_and_says_by_whom(app: App) -> None:
    await app.store.conditions.update([_condition(app.clock.now(), Health.BROKEN)])
    await _watched(app)
    name = await _silence(app, target="node-*")
    view = show_health(app)
    assert (view.health, view.fine) == (Health.BROKEN, True)
    assert "a disk" in _shop(view).troubles[0].silenced
    await end_silence(app, name, reason="done")
    assert not show_health(app).fine


def test_a_window_of_a_subject_silences_its_targets(tmp_path: Path) -> None:
    toml = SUBJECTS.replace('plugin = "ratelimiter"', 'plugin = "ratelimiter"' + ALWAYS)
    with opened(tmp_path, toml) as app:
        (quiet,) = silences_now(app, "shop")
        assert (quiet.id, quiet.target, quiet.by) == ("window", "node-1", "operator.toml")
        assert list(silences_now(app, "bank")) == []
        assert list(list_silences(app, every=False)) == [quiet]


@pytest.mark.asyncio
async def test_flapping_is_shown_even_in_a_moment_in_which_it_holds(app: App) -> None:
    now = app.clock.now()
    breaks = tuple(now - timedelta(seconds=second) for second in (90, 60, 30))
    await app.store.conditions.update([_condition(now, Health.HEALTHY, breaks=breaks)])
    await _watched(app)
    (trouble,) = _shop(show_health(app)).troubles
    assert (trouble.flapping, trouble.health) == (True, Health.HEALTHY)


@pytest.mark.asyncio
async def test_a_subject_with_tickets_that_is_configured_no_more_is_shown(app: App) -> None:
    await app.store.tickets.open([violation("node-1", subject="bank")])
    view = show_health(app)
    assert [one.subject for one in view.subjects] == ["bank", "shop"]
    assert "no longer configured" in view.subjects[0].problem


def test_a_home_without_subjects_is_not_fine(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        assert not show_health(app).fine


@pytest.mark.asyncio
async def test_silences_are_listed_while_they_hold(app: App) -> None:
    first = await _silence(app, subject="shop")
    second = await _silence(app, invariant="up")
    await end_silence(app, first, reason="x")
    assert [one.id for one in list_silences(app, every=False)] == [second]
    assert [one.id for one in list_silences(app, every=True)] == [second, first]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "everything"),
        ({"subject": "x", "for_": "soon"}, "valid duration"),
        ({"subject": "x", "for_": "0s"}, "valid duration"),
        ({"subject": "x", "for_": ""}, "one end"),
        ({"subject": "x", "until": "2030-01-01"}, "one end"),
        ({"subject": "x", "for_": "", "until": "2020-01-01"}, "in the past"),
        ({"subject": "x", "for_": "", "until": "tomorrow"}, "valid time"),
        ({"subject": "x", "for_": "31d"}, "30 days"),
        ({"subject": "x" * 300}, "characters"),
        ({"subject": ""}, "characters"),
    ],
)
async def test_a_silence_that_makes_no_sense_is_refused(
    app: App, given: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        await _silence(app, **given)
    assert list(app.store.silences.find()) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["shpo", "shop-*", "x"])
async def test_a_silence_of_no_subject_is_refused_and_the_nearest_named(
    app: App, name: str
) -> None:
    with pytest.raises(NotFoundError, match=f"No subject matches '{re.escape(name)}'") as refused:
        await _silence(app, subject=name)
    assert "Did you mean 'shop'?" in refused.value.next_step
    assert list(app.store.silences.find()) == []
    await _silence(app, subject="sh*")


@pytest.mark.asyncio
async def test_only_a_silence_there_is_can_be_ended(app: App) -> None:
    with pytest.raises(NotFoundError):
        await end_silence(app, "nosuch", reason="")
    with pytest.raises(UsageError, match="by itself"):
        await end_silence(app, "window", reason="")


def test_a_time_without_a_zone_is_utc() -> None:
    assert time_of("2030-01-31T06:00").isoformat() == "2030-01-31T06:00:00+00:00"
    assert time_of("2030-01-31T06:00+02:00").isoformat() == "2030-01-31T04:00:00+00:00"
