"""What Alerts promise: each is told once, however often it is sent, and its end once as well."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from operator_protocols.domain.alert import Alert, AlertChange
from operator_protocols.domain.entry import Kind
from tests.contract.clock import HeldClock
from tests.contract.samples import alert
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


def _over(one: Alert) -> Alert:
    return replace(one, firing=False)


def _kinds(ports: Ports) -> list[Kind]:
    return [one.kind for one in ports.entries.after(0, limit=1000)]


async def test_an_alert_comes_back_as_it_was_told(home: Home) -> None:
    ports = home.open()
    assert list(ports.alerts.find()) == []
    told = alert("f1", summary="\"}' \x00 über", labels={"instance": "a:1", "\x00": "'"})
    assert await ports.alerts.take([told]) == [AlertChange.FIRED]
    home.close()
    assert list(home.open().alerts.find()) == [told]


async def test_repeats_leave_no_entry(ports: Ports) -> None:
    assert list(await ports.alerts.take([alert(), alert()])) == [
        AlertChange.FIRED,
        AlertChange.KNOWN,
    ]
    louder = replace(alert(), summary="still")
    assert list(await ports.alerts.take([louder])) == [AlertChange.KNOWN]
    assert _kinds(ports) == [Kind.ALERT_FIRED]


async def test_the_end_is_told_once_and_only_of_what_fired(ports: Ports, clock: HeldClock) -> None:
    assert list(await ports.alerts.take([_over(alert())])) == [AlertChange.KNOWN]
    assert _kinds(ports) == []
    await ports.alerts.take([alert()])
    clock.advance(60.0)
    over = [_over(alert()), _over(alert())]
    assert list(await ports.alerts.take(over)) == [AlertChange.CLEARED, AlertChange.KNOWN]
    (known,) = ports.alerts.find()
    assert (known.firing, known.cleared_at) == (False, clock.now())
    assert known.since == clock.now() - timedelta(seconds=60)
    assert _kinds(ports) == [Kind.ALERT_FIRED, Kind.ALERT_CLEARED]


async def test_it_may_fire_again(ports: Ports) -> None:
    for told in (alert(), _over(alert()), replace(alert(), summary="again")):
        await ports.alerts.take([told])
    (known,) = ports.alerts.find()
    assert (known.firing, known.cleared_at, known.summary) == (True, None, "again")


async def test_one_fingerprint_of_two_triggers_is_two_alerts(ports: Ports) -> None:
    changes = await ports.alerts.take([alert(), replace(alert(), trigger="other")])
    assert list(changes) == [AlertChange.FIRED] * 2
    assert len(ports.alerts.find()) == 2


async def test_they_are_found_by_state_and_subject_newest_first(ports: Ports) -> None:
    await ports.alerts.take([alert(f"f{n}", subject=("shop", "bank")[n % 2]) for n in range(4)])
    await ports.alerts.take([_over(alert("f2"))])

    def found(**wanted: bool | str | int | None) -> list[str]:
        return [one.fingerprint for one in ports.alerts.find(**wanted)]  # type: ignore[arg-type]

    assert found() == ["f2", "f3", "f1", "f0"]
    assert found(firing=True) == ["f3", "f1", "f0"]
    assert found(firing=False) == ["f2"]
    assert found(subject="shop") == ["f2", "f0"]
    assert found(subject="shop", firing=True) == ["f0"]
    assert found(limit=2) == ["f2", "f3"]


async def test_many_who_tell_of_it_at_once_open_it_once(home: Home) -> None:
    one, other = home.open(), home.open()
    told = [(one, other)[n % 2].alerts.take([alert()]) for n in range(8)]
    changes = [change for (change,) in await asyncio.gather(*told)]
    assert changes.count(AlertChange.FIRED) == 1
    assert changes.count(AlertChange.KNOWN) == 7


async def test_who_told_of_it_is_in_the_ledger(ports: Ports) -> None:
    await ports.alerts.take([alert()])
    (told,) = ports.entries.after(0, limit=9)
    assert (told.actor.id, told.actor.type) == ("trigger:prometheus", "trigger")


async def test_what_is_over_for_long_is_forgotten_and_what_fires_never(
    home: Home, clock: HeldClock
) -> None:
    ports = home.open()
    kept: Any = ports.alerts
    kept.keep(kept_s=60.0)
    await ports.alerts.take([alert("fires"), alert("ends"), alert("ends late")])
    await ports.alerts.take([_over(alert("ends"))])
    clock.advance(30.0)
    await ports.alerts.take([_over(alert("ends late"))])
    clock.advance(45.0)
    await ports.alerts.take([alert("fires")])
    assert len(ports.alerts.find()) == 3, "what changes nothing writes nothing"
    await ports.alerts.take([alert("new"), alert("newer")])
    found = {one.fingerprint for one in ports.alerts.find()}
    assert found == {"fires", "ends late", "new", "newer"}
    told = [one.payload.get("forgets") for one in ports.entries.after(0, limit=99)]
    assert [one for one in told if one] == [[[alert().trigger, "ends"]]]
    assert list(await ports.alerts.take([alert("ends")])) == [AlertChange.FIRED]
