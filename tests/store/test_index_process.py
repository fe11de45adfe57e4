"""A process fills the index when much is waiting, and nobody has to end it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.ledger.history.query import parse_query
from operator_sre.store import Store, indexing, open_store
from operator_sre.store.index_process import IndexProcess
from operator_sre.store.indexing import APART_ENTRIES
from operator_sre.store.indexing_apart import fill
from tests.contract.clock import HeldClock
from tests.processes.waiting import eventually, gone, processes_in


def _run(path: Path, work: Callable[[Store], object]) -> None:
    store = open_store(path, clock=HeldClock())
    try:
        asyncio.run(_awaited(work(store)))
    finally:
        store.close()


async def _awaited(work: object) -> None:
    if asyncio.iscoroutine(work):
        await work


async def _write(store: Store, count: int) -> None:
    draft = Draft(Kind.REASONING, {"x": "apple"})
    for _ in range(0, count, 500):
        await asyncio.gather(*(store.journal.append(draft) for _ in range(min(count, 500))))


def test_much_is_left_to_a_process_that_ends_with_its_store(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        # The thread must find that much is waiting at once, however fast it is itself.
        with store.indexer._lock:
            await _write(store, APART_ENTRIES + 1000)
        await eventually(lambda: processes_in(tmp_path))
        await eventually(lambda: not store.search.behind())
        await _write(store, 500)
        await eventually(lambda: not store.search.behind())
        assert len(store.search.entries(parse_query("apple"), limit=9999)) == APART_ENTRIES + 1500

    _run(tmp_path / "operator.db", work)
    assert processes_in(tmp_path) == []


def test_few_entries_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operator_sre.store.store.IndexProcess", _never)

    async def work(store: Store) -> None:
        await _write(store, 3)
        await eventually(lambda: not store.search.behind())

    _run(tmp_path / "operator.db", work)


def _never(path: Path) -> IndexProcess:
    raise AssertionError(path)


def test_one_that_cannot_start_or_dies_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "APART_ENTRIES", 0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))

    async def work(store: Store) -> None:
        await _write(store, 3)
        await eventually(lambda: not store.search.behind())

    _run(tmp_path / "one.db", work)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    _run(tmp_path / "other.db", work)
    monkeypatch.setattr(IndexProcess, "tell", lambda self: True)  # told just before it died
    monkeypatch.setattr(indexing, "PROCESS_IDLE_S", 0.1)
    _run(tmp_path / "third.db", work)


def test_an_idle_one_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "APART_ENTRIES", 0)
    monkeypatch.setattr(indexing, "PROCESS_IDLE_S", 0.01)

    async def work(store: Store) -> None:
        await _write(store, 3)
        await eventually(lambda: not store.search.behind())
        await eventually(lambda: not processes_in(tmp_path))
        await _write(store, 3)
        await eventually(lambda: not store.search.behind())

    _run(tmp_path / "operator.db", work)


OWNER = """
import sys, time
from pathlib import Path
from operator_sre.store.index_process import IndexProcess
one = IndexProcess(Path(sys.argv[1]))
one.tell()
print(one.id, flush=True)
time.sleep(600)
"""


def test_it_is_gone_when_its_owner_is_killed(tmp_path: Path) -> None:
    open_store(tmp_path / "operator.db", clock=HeldClock()).close()
    argv = [sys.executable, "-c", OWNER, str(tmp_path / "operator.db")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        assert not gone([child])
        os.kill(owner.pid, signal.SIGKILL)
    asyncio.run(eventually(lambda: gone([child])))


def test_it_has_no_secret_of_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPERATOR_TEST_TOKEN", "hunter2")
    open_store(tmp_path / "operator.db", clock=HeldClock()).close()
    one = IndexProcess(tmp_path / "operator.db")
    try:
        assert b"hunter2" not in Path(f"/proc/{one.id}/environ").read_bytes()
        assert one.tell()
    finally:
        assert one.close()
    assert not one.tell()
    assert not one.close()


def test_it_fills_until_its_input_ends(tmp_path: Path) -> None:
    path = tmp_path / "operator.db"
    store = open_store(path, clock=HeldClock())
    store.writer._committed = lambda: None
    asyncio.run(_write(store, 3))
    told, tell = os.pipe()
    filling = threading.Thread(target=fill, args=(path, told))
    filling.start()
    os.write(tell, b".")
    asyncio.run(eventually(lambda: not store.search.behind()))
    os.close(tell)
    filling.join(30.0)
    assert not filling.is_alive()
    os.close(told)
    store.close()
