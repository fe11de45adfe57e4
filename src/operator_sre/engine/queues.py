"""Queues of DBOS, in a schema of their own beside the store."""

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
# A process that is stopped while it takes from a queue delays the others no longer than this.
IDLE_S = 5
# The connections of the pollers and the dispatcher; workers hold none of them.
CONNECTIONS = 4
APPLICATION = "operator"
QUEUE = "tickets"
WORKFLOW = "work_ticket"
# The version of the queued data, not of our code: a newer release continues with it.
VERSION = "1"
QUEUE_POLL_S = 0.2
_WAITS, _RUNS = "ENQUEUED", "PENDING"


def must_be_installed() -> None:
    """Raise MissingExtraError when a package is missing; loads none of them."""
    if importlib.util.find_spec("dbos") is None or importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("cluster", needed_for="The engine dbos")


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue, with its poll interval and how many of its errands one process works on at once."""

    name: str
    at_once: int
    poll_s: float


@dataclass(slots=True)
class Membership:
    """The one DBOS of this process. Every method blocks.

    `version` is that of the queued data: errands of another version are left in the queue.
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
        """Create missing tables, and run the errands of these lanes in threads.

        A process that does not listen can still add errands.
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
            if not logger.handlers:  # a handler keeps it from adding its own beside ours
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
            # A lost outcome does no harm, but a thread that retries writing it would never end.
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
        """Stop taking errands, and close the connections."""
        from dbos import DBOS

        logging.getLogger("dbos").setLevel(logging.CRITICAL)  # threads that still run lose theirs
        try:
            DBOS.destroy(destroy_registry=True)
        finally:
            self._client = None
            self._is_closed = True
            if self._connections is not None:
                self._connections.dispose()

    @property
    def client(self) -> DBOSClient:
        """The client of the queues; StoreError when they are closed."""
        if self._client is None:
            raise StoreError("The engine's queue is closed.")
        return self._client

    @property
    def schema(self) -> str:
        """Where the tables of DBOS are."""
        return self._schema

    @property
    def connections(self) -> Connections:
        """The pool of connections; StoreError when it is closed."""
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
            connection.execute("SET synchronous_commit = off")  # the queue can be filled again
            connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_S}s'")
            connection.commit()
            return connection

        # A thread that ends late returns its connection to a pool that is already disposed of.
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
    """Raise StoreError with the first line of a driver's message; the others hold SQL."""
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
    """Reduces the log records of DBOS to one line each, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _first_line(record.getMessage()), ()
        record.exc_info = record.exc_text = None
        return True


@dataclass(frozen=True, slots=True)
class Errand:
    """One ticket number in the queue: which worker has taken it, and whether it has ended."""

    id: str
    executor: str
    waits: bool
    runs: bool


class TicketQueue:
    """A queue of ticket numbers that many processes share. Every method blocks.

    A process can have only one, because it can have only one DBOS.
    """

    def __init__(self, url: str, *, executor: str, at_once: int) -> None:
        self._at_once = at_once
        self._membership = Membership(url, APPLICATION, VERSION, executor, threads_max=at_once)

    def open(self, work: Callable[[int], str]) -> None:
        """Create missing tables, and call `work` for tickets, each in a thread."""

        def work_ticket(ticket: int) -> str:
            return work(ticket)

        lane = Lane(QUEUE, self._at_once, QUEUE_POLL_S)
        self._membership.open({WORKFLOW: work_ticket}, [lane])

    def add(self, errand: str, ticket: int, *, rank: int) -> None:
        """Add a ticket; adding an errand again does nothing. A smaller rank comes sooner."""
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
        """Errands with one of these prefixes, or all that have not ended."""
        if not begins and not live:
            return []
        with store_errors("The engine's queue cannot be read"):
            workflows = self._membership.client.list_workflows(
                workflow_id_prefix=list(begins) or None,
                status=[_WAITS, _RUNS] if live else None,
                queue_name=QUEUE,
                load_input=False,
                load_output=False,
            )
        return [
            Errand(
                id=workflow.workflow_id,
                executor=workflow.executor_id or "",
                waits=workflow.status == _WAITS,
                runs=workflow.status == _RUNS,
            )
            for workflow in workflows
        ]

    def drop(self, errands: Sequence[str]) -> None:
        """Delete errands."""
        if errands:
            with store_errors("The engine's queue cannot be tidied"):
                self._membership.client.delete_workflows(list(errands))

    def find_ended(self, *, before: str, limit: int) -> list[str]:
        """Errands that ended before this time (ISO 8601)."""
        with store_errors("The engine's queue cannot be read"):
            workflows = self._membership.client.list_workflows(
                status=["SUCCESS", "ERROR", "CANCELLED"],
                completed_before=before,
                queue_name=QUEUE,
                limit=limit,
                load_input=False,
                load_output=False,
            )
        return [workflow.workflow_id for workflow in workflows]

    def close(self) -> None:
        """Stop taking errands, and close the connections."""
        self._membership.close()
