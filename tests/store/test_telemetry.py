"""Telemetry is kept for a while, for each subject alike."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Observation
from operator_sre.store import open_store
from operator_sre.store.reader import Reader
from operator_sre.store.telemetry import SqliteObservations
from operator_sre.store.writer import Writer
from tests.contract.clock import NOON, HeldClock

KEPT = 30
LOOKS = 220


@pytest.mark.asyncio
@pytest.mark.parametrize("subjects", [["shop"], ["shop", "bank"], ["a", "b", "c", "d", "e"]])
async def test_the_newest_looks_at_every_subject_are_kept(
    tmp_path: Path, subjects: list[str]
) -> None:
    path = tmp_path / "operator.db"
    open_store(path, clock=HeldClock()).close()
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader, writer = Reader(path, busy_s=1.0), Writer(connection, HeldClock())
    observations = SqliteObservations(reader, writer, kept=KEPT)
    for number in range(LOOKS):
        for subject in subjects:
            await observations.add(Observation(subject, NOON + timedelta(seconds=number)))
    for subject in subjects:
        kept = observations.newest(subject, limit=LOOKS)
        assert KEPT <= len(kept) < KEPT + 100
        newest = [NOON + timedelta(seconds=LOOKS - 1 - age) for age in range(KEPT)]
        assert [one.at for one in kept[:KEPT]] == newest
    writer.close()
    reader.close()
