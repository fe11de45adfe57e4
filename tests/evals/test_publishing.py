"""Published campaigns: others compute the same from them, and add nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_evals.app.views import analysis_of, compare_all, export_campaign, load_campaign
from operator_evals.database import (
    PUBLISHED,
    Published,
    must_be_written,
    publish_text,
    read_published,
)
from operator_protocols.errors import StoreError, UsageError
from tests.evals.samples import fill


def test_others_compute_the_same_from_what_is_published(tmp_path: Path) -> None:
    where = tmp_path / "eval.db"
    fill(where)
    text = export_campaign(where, None, "facts")
    place = tmp_path / f"campaign{PUBLISHED}"
    place.write_text(text, encoding="utf-8")
    found = read_published(place)
    assert isinstance(found, Published)
    assert publish_text(found) == text
    assert export_campaign(place, None, "facts") == text
    assert analysis_of(place, None) == analysis_of(where, None)
    assert compare_all(place, None) == compare_all(where, None)
    assert export_campaign(place, None, "csv") == export_campaign(where, None, "csv")
    view, trials = load_campaign(place, None)
    assert view == load_campaign(where, None)[0]
    assert not any(one.facts.before and one.facts.before.readings for one in trials)
    assert len(text) < len(export_campaign(where, None, "json"))


def test_nothing_is_added_and_nonsense_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be changed"):
        must_be_written(tmp_path / f"a{PUBLISHED}")
    must_be_written(tmp_path / "eval.db")
    place = tmp_path / f"a{PUBLISHED}"
    for text in ("", "{}", "[]\n", "not json\n", '{"campaign": 1}\n'):
        place.write_text(text)
        with pytest.raises(StoreError, match="does not hold trials"):
            analysis_of(place, None)
