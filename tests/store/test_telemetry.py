"""Telemetry is kept for a while, for each subject alike."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Observation
from operator_sre.store import open_store
from operator_sre.store.telemetry import StoredObservations
from tests.contract.clock import NOON, HeldClock

KEPT = 30
LOOKS = 220


@pytest.mark.asyncio
@pytest.mark.parametrize("subjects", [["shop"], ["shop", "bank"], ["a", "b", "c", "d", "e"]])
async def test_the_newest_looks_at_every_subject_are_kept(
    tmp_path: Path, subjects: list[str]
) -> None:
    store = open_store(tmp_path / "operator.db", clock=HeldClock())
    observations = StoredObservations(store.reader, store.writer, kept=KEPT)
    for number in range(LOOKS):
        for subject in subjects:
            await observations.add(Observation(subject, NOON + timedelta(seconds=number)))
    for subject in subjects:
        kept = observations.newest(subject, limit=LOOKS)
        assert KEPT <= len(kept) < KEPT + 100
        newest = [NOON + timedelta(seconds=LOOKS - 1 - age) for age in range(KEPT)]
        assert [one.at for one in kept[:KEPT]] == newest
    store.close()
