"""Telemetry is kept for a while, for each subject alike."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Observation, Seen
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
    newest = [NOON + timedelta(seconds=LOOKS - 1 - age) for age in range(KEPT)]
    kept = [observations.newest(subject, limit=LOOKS) for subject in subjects]
    assert [[one.at for one in looks[:KEPT]] for looks in kept] == [newest] * len(subjects)
    assert max(map(len, kept)) < KEPT + 100
    store.close()


@pytest.mark.asyncio
async def test_what_is_too_old_goes_however_few_there_are(tmp_path: Path) -> None:
    clock = HeldClock()
    store = open_store(tmp_path / "operator.db", clock=clock)
    store.observations.keep(kept=10_000, kept_s=3600.0)
    for number in range(100):
        await store.observations.add(Observation("shop", clock.now(), problem=str(number)))
        clock.advance(60.0)
    kept = store.observations.newest("shop", limit=1000)
    assert len(kept) == 61  # those of the last hour, the limit itself included
    assert kept[0].problem == "99"
    store.close()


@pytest.mark.asyncio
async def test_a_look_at_thousands_takes_little_room(tmp_path: Path) -> None:
    store = open_store(tmp_path / "operator.db", clock=HeldClock())
    seen = tuple(
        Seen(f"web-{number}", {"kind": "web", "page.up": True, "page.ms": number * 0.37})
        for number in range(2000)
    )
    look = Observation("shop", NOON, seen)
    await store.observations.add(look)
    ((size,),) = store.reader.rows("SELECT length(body) FROM observations")
    assert size < 30_000
    assert store.observations.newest("shop", limit=1)[0] == look
    store.close()
