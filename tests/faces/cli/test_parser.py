"""Values as they are typed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
import typer

from operator_sre.faces.cli.parser import moment
from tests.every import every


@every(
    ("typed", "meant"),
    [
        ("2026-03-04", datetime(2026, 3, 4)),  # noqa: DTZ001 - the caller places it
        ("2026-03-04T12:00:00", datetime(2026, 3, 4, 12)),  # noqa: DTZ001
        ("2026-03-04 12:00:00", datetime(2026, 3, 4, 12)),  # noqa: DTZ001
        ("2026-03-04T12:00:00.5Z", datetime(2026, 3, 4, 12, 0, 0, 500_000, UTC)),
        (
            "2026-03-04T12:00:00+01:00",
            datetime(2026, 3, 4, 12, tzinfo=timezone(timedelta(hours=1))),
        ),
    ],
)
def test_a_moment_is_what_was_typed(typed: str, meant: datetime) -> None:
    assert moment(typed) == meant
    assert moment(typed).tzinfo == meant.tzinfo


@every("typed", ["", "yesterday", "1772625600", "2026-13-01", "0000-01-01", "9" * 5000])
def test_what_is_no_moment_is_refused(typed: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a time"):
        moment(typed)
