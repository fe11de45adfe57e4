"""What alerts mean: broken while they fire, and healthy only when our own look agrees."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from operator_protocols.domain.alert import Alert, AlertChange
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Trouble
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Alerts, Invariant, Prompting, Subject
from operator_sre.monitor.monitor import advance, run_check, violations_of
from operator_sre.triggers.subject import (
    AlertedSubject,
    AlertInvariant,
    ObservedInvariant,
    WithAlerts,
)
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import alert

pytestmark = pytest.mark.asyncio


class Told:
    """Alerts that a test holds in its hand."""

    def __init__(self, *alerts: Alert) -> None:
        self.alerts = list(alerts)

    async def take(self, alerts: Sequence[Alert]) -> Sequence[AlertChange]:
        raise AssertionError("nobody takes alerts here")

    def find(
        self, *, firing: bool | None = None, subject: str = "", limit: int = 1000
    ) -> Sequence[Alert]:
        wanted = [one for one in self.alerts if firing is None or one.firing is firing]
        return [one for one in wanted if subject in ("", one.subject)][:limit]


@dataclass(frozen=True)
class Up:
    """Our own eye: a part is up or not."""

    name: str = "up"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 30.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        for seen in observation.seen:
            up = seen.readings.get("up")
            health = Health.UNKNOWN if up is None else Health.HEALTHY if up else Health.BROKEN
            yield Finding(self.name, seen.target, health)


@dataclass
class Shop:
    """Two parts that are as the test says."""

    parts: dict[str, bool | None] = field(default_factory=lambda: {"node-1": True, "node-2": True})
    problem: str = ""
    name: str = "shop"
    invariants: Sequence[Invariant] = (Up(),)

    def targets(self) -> Sequence[Target]:
        return [Target(name, "node") for name in self.parts]

    async def observe(self) -> Observation:
        if self.problem:
            raise ObservationError(self.problem)
        seen = [
            Seen(name, {"up": up}) if up is not None else Seen(name, problem="no answer")
            for name, up in self.parts.items()
        ]
        return Observation(self.name, NOON, tuple(seen))


def _over(one: Alert) -> Alert:
    return replace(one, firing=False, cleared_at=NOON)


def _with(shop: Shop, *alerts: Alert) -> WithAlerts:
    told: Alerts = Told(*alerts)
    return WithAlerts(shop, told, clock=HeldClock(), timeout_s=5.0)


async def _found(subject: Subject) -> dict[tuple[str, str], Health]:
    check, _ = await run_check(subject, HeldClock(), timeout_s=5.0)
    found: dict[tuple[str, str], Health] = {}
    for one in check.findings:
        place = (one.invariant, one.target)
        found[place] = max(one.health, found.get(place, one.health))
    return found


ALERT = ("alert:HighLatency", "node-1")


async def test_an_alert_breaks_its_target_while_it_fires_whatever_we_see() -> None:
    found = await _found(_with(Shop(), alert()))
    assert found[ALERT] is Health.BROKEN
    assert found["up", "node-1"] is Health.HEALTHY


@pytest.mark.parametrize(("up", "doubted"), [(True, True), (False, False), (None, False)])
async def test_an_alert_that_our_own_look_does_not_confirm_says_so(
    up: bool | None, doubted: bool
) -> None:
    subject = _with(Shop({"node-1": up}), alert())
    check, _ = await run_check(subject, HeldClock(), timeout_s=5.0)
    (found,) = [one for one in check.findings if (one.invariant, one.target) == ALERT]
    assert ("own check finds nothing wrong" in found.detail) is doubted
    assert (found.trouble is Trouble.UNCONFIRMED) is doubted


@pytest.mark.parametrize(
    ("up", "health"),
    [(True, Health.HEALTHY), (False, Health.UNKNOWN), (None, Health.UNKNOWN)],
)
async def test_when_it_is_over_our_own_look_decides(up: bool | None, health: Health) -> None:
    shop = Shop({"node-1": up, "node-2": not up})
    assert (await _found(_with(shop, _over(alert()))))[ALERT] is health


async def test_an_alert_that_ended_is_no_part_of_a_later_break() -> None:
    shop = _with(Shop({"node-1": False}), _over(alert()))
    check, _ = await run_check(shop, HeldClock(), timeout_s=1.0)
    names = {each.name: each for each in shop.invariants}
    now = NOON + timedelta(seconds=60)
    before = advance((), check)
    broken = violations_of(before, now=now, invariants=names, blind_grace_s=0.0)
    assert [each.invariant for each in broken] == ["up"]


async def test_an_alert_about_the_whole_needs_the_whole_to_be_well() -> None:
    whole = replace(_over(alert()), target="shop")
    place = ("alert:HighLatency", "shop")
    assert (await _found(_with(Shop(), whole)))[place] is Health.HEALTHY
    ill = Shop({"node-1": True, "node-2": False})
    assert (await _found(_with(ill, whole)))[place] is Health.UNKNOWN
    assert (await _found(_with(Shop({}), whole)))[place] is Health.UNKNOWN


async def test_one_of_two_that_fire_is_enough() -> None:
    two = [_over(alert("f1")), alert("f2")]
    assert (await _found(_with(Shop(), *two)))[ALERT] is Health.BROKEN


async def test_a_subject_that_cannot_be_seen_has_its_alerts_all_the_same() -> None:
    found = await _found(_with(Shop(problem="no route"), alert()))
    assert found[ALERT] is Health.BROKEN
    assert found["observable", "shop"] is Health.BROKEN
    assert not [place for place in found if place[0] == "up"]
    over = await _found(_with(Shop(problem="no route"), _over(alert())))
    assert ALERT not in over  # silence, which is never healthy
    assert over["observable", "shop"] is Health.BROKEN


async def test_a_look_that_hangs_does_not_hide_an_alert() -> None:
    class Hanging(Shop):
        async def observe(self) -> Observation:
            await HeldClock().sleep(1.0)
            raise AssertionError("nobody moves that clock")

    told = WithAlerts(Hanging(), Told(alert()), clock=HeldClock(), timeout_s=0.01)
    assert (await _found(told))[ALERT] is Health.BROKEN


async def test_an_alert_may_stand_for_an_invariant_of_ours_and_its_grace_counts() -> None:
    named = replace(alert(), invariant="up")
    subject = _with(Shop(), named)
    assert (await _found(subject))["up", "node-1"] is Health.BROKEN
    assert {one.grace_s for one in subject.invariants} == {30.0}
    assert (await _found(_with(Shop(), _over(named))))["up", "node-1"] is Health.HEALTHY


async def test_without_alerts_a_subject_is_as_it_was() -> None:
    plain, told = Shop(), _with(Shop(), alert(subject="another"))
    assert await _found(told) == await _found(plain)
    assert await told.observe() == await plain.observe()
    assert [one.name for one in told.invariants] == ["up"]
    assert isinstance(told.invariants[0], ObservedInvariant)
    assert told.targets() == plain.targets()


async def test_what_only_a_trigger_sees_is_over_when_the_alert_is() -> None:
    told = Told(alert(subject="prometheus"))
    subject = AlertedSubject("prometheus", told, clock=HeldClock())
    assert (await _found(subject))[ALERT] is Health.BROKEN
    assert [one.name for one in subject.targets()] == ["node-1"]
    told.alerts = [_over(told.alerts[0])]
    assert (await _found(subject))[ALERT] is Health.HEALTHY


async def test_what_it_says_is_in_the_finding() -> None:
    invariant = AlertInvariant("alert:HighLatency", (alert("f1"), alert("f2")))
    (found,) = invariant.check(Observation("shop", NOON))
    assert found.detail == "prometheus says: p99 is 300 ms (and 1 more)"


async def test_a_subject_that_learns_of_changes_still_does_so_with_alerts() -> None:
    class Learning(Shop):
        async def wait_change(self) -> None:
            return None

    told = _with(Learning())
    assert isinstance(told, Prompting)
    await told.wait_change()


async def test_a_subject_that_learns_of_no_change_never_reports_one() -> None:
    waiting = asyncio.ensure_future(_with(Shop({})).wait_change())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
