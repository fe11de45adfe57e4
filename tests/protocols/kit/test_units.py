"""Sizes and durations carry human units."""

from __future__ import annotations

import pytest

from operator_protocols.kit.units import format_bytes, format_duration


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1_023, "1023 bytes"),
        (1_536, "1.5 kB"),
        (8 << 20, "8 MB"),
        (310 << 20, "310 MB"),
        (1_020 << 20, "1020 MB"),
        (3 << 29, "1.5 GB"),
        (5_000 << 40, "5000 TB"),
    ],
)
def test_a_size_has_the_largest_unit_that_fits(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.31, "310 ms"),
        (4, "4.0 s"),
        (45.2, "45 s"),
        (119, "119 s"),
        (720, "12 min"),
        (12_600, "3.5 h"),
    ],
)
def test_a_duration_has_the_unit_that_people_use(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
