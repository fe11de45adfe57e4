"""This process as one of those that DBOS hands work to, in a schema of its own beside the store."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError, StoreError

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import Engine as Connections

__all__ = [
    "SCHEMA",
    "Errand",
    "Lane",
    "Membership",
    "TicketQueue",
    "must_be_installed",
    "store_errors",
]

SCHEMA = "operator_engine"
CONNECT_S = 10
# Whoever is stopped while it takes from a queue holds nobody up for longer.
IDLE_S = 5
# What polls and what dispatches; those who work hold no connection of these.
CONNECTIONS = 4
APPLICATION = "operator"
QUEUE = "tickets"
WORKFLOW = "work_ticket"
# Of what lies in the queue, not of our code: whoever is deployed next goes on with it.
VERSION = "1"
QUEUE_POLL_S = 0.2
_WAITS, _RUNS = "ENQUEUED", "PENDING"


def must_be_installed() -> None:
    """Say what to install where it is missing; finding that out loads nothing."""
    if importlib.util.find_spec("dbos") is None or importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("cluster", needed_for="The engine dbos")


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue: how often it is looked at, and how much of it one process does at once."""

    name: str
    at_once: int
    poll_s: float


@dataclass(slots=True)
class Membership:
    """DBOS in this process, of which there can be one. Every verb blocks.

    `version` is of what lies in the queues: others than of this version are left to others.
    """

    url: str
    application: str
    version: str
    executor: str
    threads_max: int
    _connections: Connections | None = None
    _client: DBOSClient | None = None
    _schema: str = field(default=SCHEMA)
    _is_closed: bool = False

    def open(
        self,
        workflows: dict[str, Callable[..., str]],
        lanes: Sequence[Lane],
        *,
        listens: bool = True,
    ) -> None:
        """Make what is missing in the database, and do what is in these lanes, each in a thread.

        Whoever does not listen can still put something in.
        """
        import dbos._dbos
        from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer
        from sqlalchemy import text

        with store_errors("The engine dbos cannot start"):
            self._is_closed = False
            self._connections = self._connect()
            # Beside the schema of the store, so that two stores in one database do not meet.
            with self._connections.connect() as connection:
                mine = connection.execute(text("SELECT current_schema()")).scalar()
            self._schema = SCHEMA if mine in (None, "public") else f"{SCHEMA}_{mine}"
            for name, work in workflows.items():
                DBOS.workflow(name=name)(work)
            logger = logging.getLogger("dbos")
            if not logger.handlers:  # with one it adds none of its own, and uses ours
                logger.addHandler(logging.NullHandler())
                logger.addFilter(_OneLine())
            serializer = DBOSPortableJSONSerializer()
            DBOS(
                config={
                    "name": self.application,
                    "application_version": self.version,
                    "executor_id": self.executor,
                    "system_database_engine": self._connections,
                    "dbos_system_schema": self._schema,
                    "serializer": serializer,
                    "use_listen_notify": False,
                    "enable_otlp": False,
                    "log_level": "WARNING",
                    "scheduler_polling_interval_sec": 3600.0,
                    "notification_listener_polling_interval_sec": 0.5,
                }
            )
            DBOS.listen_queues([lane.name for lane in lanes] if listens else [])
            DBOS.launch()
            # An outcome that cannot be written is no loss; a thread that waits for it cannot end.
            dbos._dbos._get_dbos_instance()._sys_db._retry_connection_errors = False
            for lane in lanes:
                DBOS.register_queue(
                    lane.name,
                    worker_concurrency=lane.at_once,
                    polling_interval_sec=lane.poll_s,
                    on_conflict="always_update",
                )
            self._client = DBOSClient(
                system_database_engine=self._connections,
                dbos_system_schema=self._schema,
                serializer=serializer,
                retry_connection_errors=False,
                application_name=self.application,
            )

    def close(self) -> None:
        """Take nothing more up, and let go of the database."""
        from dbos import DBOS

        logging.getLogger("dbos").setLevel(logging.CRITICAL)  # whoever still ends is cut off now
        try:
            DBOS.destroy(destroy_registry=True)
        finally:
            self._client = None
            self._is_closed = True
            if self._connections is not None:
                self._connections.dispose()

    @property
    def client(self) -> DBOSClient:
        """What asks the queues; StoreError when they are closed."""
        if self._client is None:
            raise StoreError("The engine's queue is closed.")
        return self._client

    @property
    def schema(self) -> str:
        """Where the tables of DBOS are."""
        return self._schema

    @property
    def connections(self) -> Connections:
        """What leads to the database; StoreError when it is closed."""
        if self._connections is None:
            raise StoreError("The engine's queue is closed.")
        return self._connections

    def _connect(self) -> Connections:
        import psycopg
        import sqlalchemy
        import sqlalchemy.event

        # The driver reads the address itself, so that no password comes near a log line.
        def connect() -> Any:
            connection = psycopg.connect(
                self.url, application_name="operator-engine", connect_timeout=CONNECT_S
            )
            connection.execute("SET synchronous_commit = off")  # nothing here is worth a wait
            connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_S}s'")
            connection.commit()
            return connection

        # Whoever ends after us gives a connection back to a pool that nobody closes any more.
        def close_late(connection: Any, record: object) -> None:
            if self._is_closed and connection is not None:
                connection.close()

        engine = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=connect,
            pool_size=CONNECTIONS,
            max_overflow=self.threads_max,
            pool_pre_ping=True,
        )
        sqlalchemy.event.listen(engine, "checkin", close_late)
        return engine


@contextmanager
def store_errors(failure: str) -> Iterator[None]:
    """What a driver says has lines of SQL; the first is for people."""
    import psycopg
    import sqlalchemy.exc
    from dbos import error as dbos_error

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, psycopg.Error, dbos_error.DBOSException) as error:
        raise StoreError(f"{failure}: {_first_line(str(error))}.") from None


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")[:300]


class _OneLine(logging.Filter):
    """Its log lines as ours: one each, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _first_line(record.getMessage()), ()
        record.exc_info = record.exc_text = None
        return True


@dataclass(frozen=True, slots=True)
class Errand:
    """One ticket number in the queue: who has taken it, and whether it is over."""

    id: str
    executor: str
    waits: bool
    runs: bool


class TicketQueue:
    """A queue of ticket numbers that many processes share. Every verb blocks.

    There can be one of them in a process, because there can be one DBOS in a process.
    """

    def __init__(self, url: str, *, executor: str, at_once: int) -> None:
        self._at_once = at_once
        self._membership = Membership(url, APPLICATION, VERSION, executor, threads_max=at_once)

    def open(self, work: Callable[[int], str]) -> None:
        """Make what is missing in the database, and call `work` for tickets, each in a thread."""

        def work_ticket(ticket: int) -> str:
            return work(ticket)

        lane = Lane(QUEUE, self._at_once, QUEUE_POLL_S)
        self._membership.open({WORKFLOW: work_ticket}, [lane])

    def add(self, errand: str, ticket: int, *, rank: int) -> None:
        """Put a ticket in; the same errand twice is one. The smaller the rank, the sooner."""
        with store_errors("The engine's queue cannot be written"):
            self._membership.client.enqueue(
                {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": errand,
                    "app_version": VERSION,
                    "priority": rank,
                },
                ticket,
            )

    def find(self, *, begins: Sequence[str] = (), live: bool = False) -> list[Errand]:
        """Errands whose names begin so, or all that are not over."""
        if not begins and not live:
            return []
        with store_errors("The engine's queue cannot be read"):
            found = self._membership.client.list_workflows(
                workflow_id_prefix=list(begins) or None,
                status=[_WAITS, _RUNS] if live else None,
                queue_name=QUEUE,
                load_input=False,
                load_output=False,
            )
        return [
            Errand(
                id=one.workflow_id,
                executor=one.executor_id or "",
                waits=one.status == _WAITS,
                runs=one.status == _RUNS,
            )
            for one in found
        ]

    def drop(self, errands: Sequence[str]) -> None:
        """Forget these."""
        if errands:
            with store_errors("The engine's queue cannot be tidied"):
                self._membership.client.delete_workflows(list(errands))

    def over(self, *, before: str, limit: int) -> list[str]:
        """Errands that are over and older than this moment, in ISO 8601."""
        with store_errors("The engine's queue cannot be read"):
            found = self._membership.client.list_workflows(
                status=["SUCCESS", "ERROR", "CANCELLED"],
                completed_before=before,
                queue_name=QUEUE,
                limit=limit,
                load_input=False,
                load_output=False,
            )
        return [one.workflow_id for one in found]

    def close(self) -> None:
        """Take nothing more up, and let go of the database."""
        self._membership.close()
