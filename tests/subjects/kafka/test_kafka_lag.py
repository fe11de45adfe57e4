"""How a group keeps up, by the rules of Burrow: a table."""

from __future__ import annotations

import pytest

from operator_sre.subjects.kafka.lag import LagStatus, Sample, judge_partition, worst_status

OK, RISING, REWIND = LagStatus.OK, LagStatus.RISING, LagStatus.REWIND
STALLED, STOPPED, UNKNOWN = LagStatus.STALLED, LagStatus.STOPPED, LagStatus.UNKNOWN


def _samples(reads: str, ends: str, *, member: bool = True) -> list[Sample]:
    pairs = zip(reads.split(), ends.split(), strict=True)
    return [Sample(at * 10.0, int(a), int(b), member) for at, (a, b) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("reads", "ends", "member", "status"),
    [
        ("", "", True, UNKNOWN),
        ("5 5 5 5 5", "5 5 5 5 5", True, OK),  # nothing is written, and nothing is left to read
        ("5 9 9 9 9", "9 9 12 15 18", True, OK),  # it had read everything within the window
        ("5 5 5 5 5", "9 9 9 9 9", True, STALLED),
        ("5 5 5 5 5", "9 12 15 18 21", True, STALLED),
        ("5 5 5 5 5", "9 12 15 18 21", False, STOPPED),
        ("5 6 7 8 9", "9 12 15 18 21", True, RISING),
        ("5 6 7 8 9", "9 12 12 12 12", True, OK),  # a burst, which it works off
        ("5 6 7 8 9", "9 10 11 12 13", True, OK),  # a lag that does not grow
        ("5 9 2 3 4", "9 9 9 9 9", True, REWIND),  # even though it had read everything
        ("5 5 5", "9 9 9", True, UNKNOWN),  # too few samples
        ("5 5 5 5", "9 9 9 9", True, UNKNOWN),  # too short a time
    ],
)
def test_progress_counts_and_not_lag(
    reads: str, ends: str, member: bool, status: LagStatus
) -> None:
    assert judge_partition(_samples(reads, ends, member=member), window_s=40.0) is status


def test_the_worst_partition_speaks_for_the_group_and_unknown_for_none() -> None:
    assert worst_status([]) is UNKNOWN
    assert worst_status([UNKNOWN, OK]) is OK
    assert worst_status([OK, STALLED, RISING]) is STALLED
    assert worst_status([REWIND, RISING]) is REWIND
