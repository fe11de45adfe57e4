"""DBOS as a queue of ticket numbers, in a schema of its own beside the store.

Nothing else lies there: no command, no secret, no result. All of it may be lost at any time.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError, StoreError

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import Engine as Connections

__all__ = ["Errand", "TicketQueue", "must_be_installed"]

APPLICATION = "operator"
QUEUE = "tickets"
WORKFLOW = "work_ticket"
# Of what lies in the queue, not of our code: whoever is deployed next goes on with it.
VERSION = "1"
SCHEMA = "operator_engine"
QUEUE_POLL_S = 0.2
CONNECT_S = 10
# Whoever is stopped while it takes from the queue holds nobody up for longer.
IDLE_S = 5
# What polls and what dispatches; those who work hold no connection of these.
CONNECTIONS = 4
_WAITS, _RUNS = "ENQUEUED", "PENDING"
log = logging.getLogger(__name__)


def must_be_installed() -> None:
    """Say what to install where it is missing; finding that out loads nothing."""
    if importlib.util.find_spec("dbos") is None or importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("cluster", needed_for="The engine dbos")


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
        self._url = url
        self._executor = executor
        self._at_once = at_once
        self._connections: Connections | None = None
        self._client: DBOSClient | None = None

    def open(self, work: Callable[[int], str]) -> None:
        """Make what is missing in the database, and call `work` for tickets, each in a thread."""
        from dbos import DBOS, DBOSClient

        with _told("The engine dbos cannot start"):
            self._connections = self._connected()
            schema = self._schema()
            _register(work)
            _hush()
            DBOS(config=self._settings(schema))
            DBOS.listen_queues([QUEUE])
            DBOS.launch()
            _never_wait_for_a_server()
            DBOS.register_queue(
                QUEUE,
                worker_concurrency=self._at_once,
                polling_interval_sec=QUEUE_POLL_S,
                on_conflict="always_update",
            )
            self._client = DBOSClient(
                system_database_engine=self._connections,
                dbos_system_schema=schema,
                serializer=_serializer(),
                retry_connection_errors=False,
                application_name=APPLICATION,
            )

    def add(self, errand: str, ticket: int, *, rank: int) -> None:
        """Put a ticket in; the same errand twice is one. The smaller the rank, the sooner."""
        with _told("The engine's queue cannot be written"):
            self._asked().enqueue(
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
        with _told("The engine's queue cannot be read"):
            found = self._asked().list_workflows(
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
            with _told("The engine's queue cannot be tidied"):
                self._asked().delete_workflows(list(errands))

    def over(self, *, before: str, limit: int) -> list[str]:
        """Errands that are over and older than this moment, in ISO 8601."""
        with _told("The engine's queue cannot be read"):
            found = self._asked().list_workflows(
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
        from dbos import DBOS

        logging.getLogger("dbos").setLevel(logging.CRITICAL)  # whoever still ends is cut off now
        try:
            DBOS.destroy(destroy_registry=True)
        finally:
            self._client = None
            if self._connections is not None:
                self._connections.dispose()

    def _asked(self) -> DBOSClient:
        if self._client is None:
            raise StoreError("The engine's queue is closed.")
        return self._client

    def _settings(self, schema: str) -> Any:
        return {
            "name": APPLICATION,
            "application_version": VERSION,
            "executor_id": self._executor,
            "system_database_engine": self._connections,
            "dbos_system_schema": schema,
            "serializer": _serializer(),
            "use_listen_notify": False,
            "enable_otlp": False,
            "log_level": "WARNING",
            "scheduler_polling_interval_sec": 3600.0,
            "notification_listener_polling_interval_sec": 0.5,
        }

    def _connected(self) -> Connections:
        import psycopg
        import sqlalchemy

        # The driver reads the address itself, so that no password comes near a log line.
        def connect() -> Any:
            connection = psycopg.connect(
                self._url, application_name="operator-engine", connect_timeout=CONNECT_S
            )
            connection.execute("SET synchronous_commit = off")  # nothing here is worth a wait
            connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_S}s'")
            connection.commit()
            return connection

        return sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=connect,
            pool_size=CONNECTIONS,
            max_overflow=self._at_once,
            pool_pre_ping=True,
        )

    def _schema(self) -> str:
        """Beside the schema of the store, so that two stores in one database do not meet."""
        from sqlalchemy import text

        assert self._connections is not None
        with self._connections.connect() as connection:
            mine = connection.execute(text("SELECT current_schema()")).scalar()
        return SCHEMA if mine in (None, "public") else f"{SCHEMA}_{mine}"


def _register(work: Callable[[int], str]) -> None:
    from dbos import DBOS

    def work_ticket(ticket: int) -> str:
        return work(ticket)

    DBOS.workflow(name=WORKFLOW)(work_ticket)


def _serializer() -> Any:
    from dbos import DBOSPortableJSONSerializer

    return DBOSPortableJSONSerializer()


@contextmanager
def _told(what: str) -> Iterator[None]:
    """What a driver says has lines of SQL; the first is for people."""
    import psycopg
    import sqlalchemy.exc
    from dbos import error as dbos_error

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, psycopg.Error, dbos_error.DBOSException) as error:
        raise StoreError(f"{what}: {_first_line(str(error))}.") from None


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")[:300]


class _OneLine(logging.Filter):
    """Its log lines as ours: one each, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _first_line(record.getMessage()), ()
        record.exc_info = record.exc_text = None
        return True


def _hush() -> None:
    logger = logging.getLogger("dbos")
    if not logger.handlers:  # with one it adds none of its own, and what it says comes to ours
        logger.addHandler(logging.NullHandler())
        logger.addFilter(_OneLine())


def _never_wait_for_a_server() -> None:
    """An outcome that cannot be written is no loss; a thread that waits for that cannot end."""
    from dbos._dbos import _get_dbos_instance

    _get_dbos_instance()._sys_db._retry_connection_errors = False
