"""How health is told to people, one subject below the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from operator_protocols.domain.health import Health
from operator_sre.app.health import HealthView, SubjectHealth, TargetHealth, Trouble
from operator_sre.operations.health import health_lines

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


def test_troubles_say_since_when_and_how_many_are_left_out() -> None:
    troubles = tuple(
        Trouble(f"node-{number}", "answers", Health.BROKEN, NOW - timedelta(minutes=5), "refused")
        for number in range(14)
    )
    shop = SubjectHealth(
        "shop",
        Health.BROKEN,
        (TargetHealth("node-0", Health.BROKEN),),
        troubles,
        (),
        (),
        None,
        5,
        0,
    )
    lines = health_lines(HealthView(NOW, Health.BROKEN, False, (shop,), (), ()))
    assert lines[0] == (
        "2026-03-04 12:00:00 UTC  BROKEN  NO MONITOR IS RUNNING: start operator monitor run --all"
    )
    assert lines[2] == "BROKEN   shop: 0/1 targets healthy, never checked"
    assert lines[3] == "  broken node-0 answers (for 5 min): refused"
    assert lines[-2:] == ["  and 2 more; see --json", ""]


def test_checks_of_a_target_that_is_down_are_one_line_and_what_is_healthy_says_why() -> None:
    since = NOW - timedelta(minutes=5)
    troubles = (
        Trouble("node-0", "node_down", Health.BROKEN, since, "refused"),
        Trouble("node-0", "lag", Health.UNKNOWN, since, "it does not answer"),
        Trouble("node-0", "memory", Health.UNKNOWN, since, "it does not answer"),
        Trouble("node-1", "lag", Health.HEALTHY, since, "", flapping=True),
    )
    shop = SubjectHealth("shop", Health.BROKEN, (), troubles, (), (), NOW, 5, 0)
    lines = health_lines(HealthView(NOW, Health.BROKEN, False, (shop,), (), ()))
    assert lines[3:] == [
        "  broken node-0 node_down (for 5 min): refused",
        "  healthy node-1 lag (for 5 min, healthy now; listed because it is flapping)",
        "  2 more checks unavailable because node-0 is down",
        "",
    ]
