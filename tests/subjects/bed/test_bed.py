"""A few of the named ways, as the script of the bed runs all of them."""

from __future__ import annotations

import pytest

from tests.subjects.bed.programs import missing_programs
from tests.subjects.bed.trial import try_way
from tests.subjects.bed.ways import WAYS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
BY_NAME = {way.name: way for way in WAYS}


def test_there_are_enough_ways_and_each_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(WAYS)
    assert len(WAYS) >= 25


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["mariadb_killed", "web_fails", "box_job_late"])
async def test_a_way_ends_as_it_should(name: str) -> None:
    if missing := missing_programs():
        pytest.skip(missing)
    verdict = await try_way(BY_NAME[name])
    assert verdict.good, verdict.line
