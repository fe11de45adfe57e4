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
        "2026-03-04 12:00:00 UTC  BROKEN  NOBODY IS WATCHING: start operator monitor run --all"
    )
    assert lines[2] == "BROKEN   shop: 0/1 targets healthy, never looked at"
    assert lines[3] == "  broken node-0 answers (since 5 min ago): refused"
    assert lines[-2:] == ["  and 2 more; see --json", ""]
