"""`operator workers`: who joins is seen by everybody, and leaves politely."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.watcher import Worker
from operator_sre.app.listeners import WorkerView
from tests.contract.postgres import database_in
from tests.e2e.home import Home, Json
from tests.e2e.waiting import eventually


@pytest.fixture
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store in PostgreSQL."""
    with database_in("postgresql", tmp_path, request.config) as url:
        yield url


def _listed(home: Home, **environ: str) -> list[Json]:
    done = home.run("workers", "list", "--json", **environ)
    assert done.code == 0, done
    found: list[Json] = done.json["workers"]
    return found


def test_nobody_works_on_an_empty_home(home: Home) -> None:
    assert home.run("workers", "list").out.startswith("No workers.")
    assert _listed(home) == []


def test_a_worker_is_seen_while_it_works_and_leaves_when_it_is_stopped(home: Home) -> None:
    running = home.fork("workers", "run", "--name", "crane")
    (view,) = eventually(lambda: _listed(home), "a worker")
    assert set(view) == set(WorkerView.__slots__)
    worker = view["worker"]
    assert set(worker) == set(Worker.__slots__)
    assert (worker["name"], worker["host"]) == ("crane", socket.gethostname())
    assert (worker["pid"], worker["engine"]) == (running.pid, "local")
    assert (view["speaks"], view["tickets"]) == (True, [])
    head, row = home.run("workers", "list").out.splitlines()
    assert head.split()[:5] == ["NAME", "HOST", "PID", "ENGINE", "ROLE"]
    assert row.split()[:5] == ["crane", socket.gethostname(), str(running.pid), "local", "worker"]
    assert running.end() == 128 + signal.SIGTERM
    assert _listed(home) == []


def test_workers_of_many_machines_meet_in_postgresql(home: Home, where: str) -> None:
    running = home.fork("workers", "run", "--engine", "dbos", OPERATOR_STORE=where)
    (view,) = eventually(lambda: _listed(home, OPERATOR_STORE=where), "a worker")
    assert view["worker"]["engine"] == "dbos"
    assert running.runs
    assert running.end() == 128 + signal.SIGTERM, running.said
    assert "Traceback" not in running.said
    assert _listed(home, OPERATOR_STORE=where) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--engine", "dbos"), "The engine dbos needs a store in PostgreSQL"),
        (("--engine", "celery"), "There is no engine 'celery'. Choose one of: local, dbos."),
        (("--name", "a:b"), "'a:b' is not a valid name of a worker."),
    ],
)
def test_what_makes_no_sense_is_told_in_a_sentence(
    home: Home, words: tuple[str, ...], sentence: str
) -> None:
    done = home.run("workers", "run", *words)
    assert done.code == 2
    assert sentence in done.err
    assert len(done.err.strip().splitlines()) == 1
