"""Operator for a long time: it holds no more than at first, every incident ends once."""

from __future__ import annotations

import secrets
import signal
import statistics
import tempfile
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.clock import SystemClock
from operator_sre.ledger import KeyFile
from operator_sre.store import Store, open_store_at
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules
from tests.contract.postgres import shared_server
from tests.e2e.patients import SUBJECT, Patients, running_patients
from tests.e2e.soak import Replica, Sample, Wire, sample, wired
from tests.e2e.waiting import eventually

pytestmark = pytest.mark.slow
# Servers, checks, incidents, and how much more memory is allowed after the first quarter.
LONG, SHORT = (200, 2880, 100, 1.05), (40, 60, 6, 1.25)
INCIDENT_S_MAX = 300.0
CHECKS_S_MAX = 7200.0
# Each question to the store costs the machine something, for an hour.
POLL_S = 0.5
ENDS = (Kind.TICKET_RESOLVED, Kind.TICKET_ESCALATED)
SOCKET = ".s.PGSQL.5432"
# Rows that only belong to something that is going on.
TRANSIENT = ("sealed", "leases", "workflow_leases", "replies")
# As many rows after the last incident as after the first.
STEADY = ("conditions", "cursors", "watchers", "workers")


class Watched:
    """The store of the services, seen from the test."""

    def __init__(self, place: str, key: Path) -> None:
        self._database = database_at(place)
        self.store: Store = open_store_at(place, Rules(SystemClock(), signer=KeyFile(key)))

    def ask(self, question: str) -> float:
        """One number."""
        with closing(self._database.session()) as connection:
            (found,) = connection.execute(f"SELECT {question}").fetchone()
        return float(found)

    def checks(self) -> float:
        """How often the subject was checked, by monitors and by agents."""
        return self.ask(f"count(*) FROM observations WHERE subject = '{SUBJECT}'")

    def cycles(self) -> int:
        """How often the monitors that run checked the subject."""
        watches = [watch for watcher in self.store.watchers.find() for watch in watcher.watches]
        return sum(watch.looks for watch in watches if watch.subject == SUBJECT)

    def rows(self, table: str) -> float:
        """How many rows a table has now."""
        return self.ask(f"count(*) FROM {table}")

    def cured(self, count: int) -> bool:
        """So many tickets of the subject are resolved, and none of it is left."""
        states = Counter(ticket.state for ticket in self._tickets())
        return states == {TicketState.RESOLVED: count}

    def wait_cured(self, count: int) -> None:
        """Wait for the end of so many incidents; a failure shows the tickets."""
        try:
            eventually(
                lambda: self.cured(count), "the end", within_s=INCIDENT_S_MAX, every_s=POLL_S
            )
        except AssertionError as error:
            left = [each for each in self._tickets() if each.state is not TicketState.RESOLVED]
            raise AssertionError(f"incident {count} is not over: {left}") from error

    def is_in_work(self) -> bool:
        """A service works on one of them."""
        return any(ticket.state is TicketState.CLAIMED for ticket in self._tickets())

    def _tickets(self) -> list[Ticket]:
        # Slow checks open tickets about Operator itself.
        found = self.store.tickets.find(states=tuple(TicketState))
        return [ticket for ticket in found if ticket.subject == SUBJECT]

    def must_be_right(self, patients: Patients, incidents: int) -> None:
        """Every incident has one ticket, which ended once, and one cure."""
        assert patients.jammed() == []
        ours = [ticket.id for ticket in self._tickets()]
        entries = self.store.entries.after(0, limit=1_000_000)
        ends = Counter(entry.ticket for entry in entries if entry.kind in ENDS)
        assert [ends[ticket] for ticket in ours] == [1] * incidents
        assert patients.cures() == Counter(patients.names[:incidents])
        left = {table: self.rows(table) for table in TRANSIENT}
        assert set(left.values()) == {0}, left


@pytest.mark.timeout(9000)
@pytest.mark.parametrize(
    ("servers", "checks", "incidents", "growth"), [SHORT, LONG], ids=["short", "long"]
)
def test_one_service_holds_no_more_than_at_first(
    tmp_path: Path, servers: int, checks: int, incidents: int, growth: float
) -> None:
    with running_patients(tmp_path, servers) as patients:
        key = tmp_path / "ledger.key"
        _write_key(key)
        replica = Replica(
            tmp_path / "service", tmp_path / "farm.yaml", OPERATOR_LEDGER_KEY=str(key)
        )
        try:
            replica.start()
            eventually((replica.home / "operator.db").exists, "the home is made")
            watched = Watched(str(replica.home / "operator.db"), key)
            samples: list[Sample] = []
            rows: list[dict[str, float]] = []
            for number in range(incidents):
                due = checks * number // incidents
                eventually(
                    lambda due=due: watched.cycles() >= due,  # type: ignore[misc]
                    f"check {due}",
                    within_s=CHECKS_S_MAX,
                    every_s=POLL_S,
                )
                patients.jam(patients.names[number])
                watched.wait_cured(number + 1)
                samples.append(sample(replica))
                rows.append({table: watched.rows(table) for table in STEADY})
                print(f"check {watched.cycles()}: {samples[-1]}")  # noqa: T201 - of an hour
            eventually(
                lambda: watched.cycles() >= checks,
                "all checks",
                within_s=CHECKS_S_MAX,
                every_s=POLL_S,
            )
            samples.append(sample(replica))
            print(_figures(watched, samples))  # noqa: T201 - the figures of the run
            watched.must_be_right(patients, incidents)
            assert rows[-1] == rows[0]
            _must_not_grow(replica, samples, growth)
            watched.store.close()
            assert replica.end() == 128 + signal.SIGTERM
        finally:
            replica.close()


def _write_key(path: Path) -> None:
    path.write_bytes(secrets.token_bytes(32))
    path.chmod(0o600)


def _must_not_grow(replica: Replica, samples: list[Sample], growth: float) -> None:
    """Compare the last quarter with the second one; the first is the warm-up."""
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]

    def median(part: list[Sample]) -> float:
        return statistics.median(each.memory_kb for each in part)

    assert median(late) <= growth * median(early), (median(early), median(late))
    # Checks in progress hold connections; what is leaked never goes.
    fewest = min(each.descriptors for each in early)

    def is_as_before() -> bool:
        now = sample(replica)
        same = (now.processes, now.files) == (early[0].processes, early[0].files)
        return same and now.descriptors <= fewest

    eventually(is_as_before, f"{early[0]} again")


def _figures(watched: Watched, samples: list[Sample]) -> str:
    memory = [each.memory_kb // 1024 for each in samples]
    descriptors = [each.descriptors for each in samples]
    per_check = watched.ask(f"avg(length(body)) FROM observations WHERE subject = '{SUBJECT}'")
    per_incident = watched.ask("sum(length(body)) FROM entries") / (len(samples) - 1)
    cpu_ms = 1000 * samples[-1].cpu_s / watched.cycles()
    return (
        f"memory {memory} MB, descriptors {descriptors}, processes {samples[-1].processes}, "
        f"{cpu_ms:.0f} ms of processor time for each check, incidents included, "
        f"{per_check:.0f} bytes for each check, {per_incident:.0f} for each incident"
    )


@pytest.mark.timeout(9000)
@pytest.mark.parametrize(
    ("servers", "incidents", "trouble_every"), [(40, 6, 2), (200, 60, 5)], ids=["short", "long"]
)
def test_three_services_on_one_store_lose_and_repeat_nothing(
    tmp_path: Path, pytestconfig: pytest.Config, servers: int, incidents: int, trouble_every: int
) -> None:
    server = shared_server(pytestconfig)
    place = server.database(like=server.prepared())
    keys = {name: tmp_path / f"{name}.key" for name in ("ledger", "secrets")}
    for key in keys.values():
        _write_key(key)
    with ExitStack() as stack:
        stack.callback(server.drop, place)
        # The path of a Unix socket is short.
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wire-")))
        patients = stack.enter_context(running_patients(tmp_path, servers))
        wires, replicas = [], []
        for number in range(3):
            folder = short / str(number)
            folder.mkdir()
            wires.append(stack.enter_context(wired(folder / SOCKET, server.folder / SOCKET)))
            url = place.replace(quote(str(server.folder), safe=""), quote(str(folder), safe=""))
            replicas.append(
                Replica(
                    tmp_path / f"service-{number}",
                    tmp_path / "farm.yaml",
                    OPERATOR_STORE=url,
                    OPERATOR_LEDGER_KEY=str(keys["ledger"]),
                    OPERATOR_SECRETS_KEY=str(keys["secrets"]),
                )
            )
            stack.callback(replicas[-1].close)
            replicas[-1].start()
        watched = Watched(place, keys["ledger"])
        stack.callback(watched.store.close)
        for number in range(incidents):
            patients.jam(patients.names[number])
            if number % trouble_every == 1:
                _kill_one_and_cut_one_off(replicas, wires, watched, number)
            watched.wait_cured(number + 1)
            for wire in wires:
                wire.mend()
        assert {replica.end() for replica in replicas} == {128 + signal.SIGTERM}
        watched.must_be_right(patients, incidents)


def _kill_one_and_cut_one_off(
    replicas: list[Replica], wires: list[Wire], watched: Watched, number: int
) -> None:
    """Once a service works on the incident: whichever it is, one of the three goes on."""
    eventually(lambda: watched.is_in_work() or watched.cured(number + 1), "a service works on it")
    killed = replicas[number % 3]
    killed.end(signal.SIGKILL)
    killed.start()
    wires[(number + 1) % 3].cut()
