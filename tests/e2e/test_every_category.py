"""Every category and every next action of the contract is reached by something that happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from operator_sre.contract.documents import all_error_categories, all_next_actions
from tests.e2e.home import Json
from tests.e2e.paths import PATHS, Place
from tests.e2e.warm import Warm


def test_no_category_and_no_next_action_is_without_a_path() -> None:
    reached = {category for category, _ in PATHS.values()} - {""}
    assert reached == {one.value for one in all_error_categories()}
    assert {action for _, action in PATHS.values()} == {one.value for one in all_next_actions()}


@pytest.mark.parametrize("walk", PATHS, ids=lambda walk: walk.__name__)
def test_a_path_leads_to_its_category_and_to_one_thing_to_do(
    walk: Callable[[Place], Json], tmp_path: Path, warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    category, action = PATHS[walk]
    place = Place.at(tmp_path, warm, monkeypatch)
    try:
        told = walk(place)
    finally:
        place.home.close()
    assert told.get("error_category", told.get("category", "")) == category
    assert told["next_action"] == action
