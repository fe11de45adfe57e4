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

__all__ = ["SCHEMA", "Joined", "Lane", "must_be_installed", "told"]

SCHEMA = "operator_engine"
CONNECT_S = 10
# Whoever is stopped while it takes from a queue holds nobody up for longer.
IDLE_S = 5
# What polls and what dispatches; those who work hold no connection of these.
CONNECTIONS = 4


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
class Joined:
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
        from dbos import DBOS, DBOSClient

        with told("The engine dbos cannot start"):
            self._is_closed = False
            self._connections = self._connected()
            self._schema = self._named()
            for name, work in workflows.items():
                DBOS.workflow(name=name)(work)
            _hush()
            DBOS(config=self._settings())
            DBOS.listen_queues([lane.name for lane in lanes] if listens else [])
            DBOS.launch()
            _never_wait_for_a_server()
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
                serializer=_serializer(),
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

    def _settings(self) -> Any:
        return {
            "name": self.application,
            "application_version": self.version,
            "executor_id": self.executor,
            "system_database_engine": self._connections,
            "dbos_system_schema": self._schema,
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

        made = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=connect,
            pool_size=CONNECTIONS,
            max_overflow=self.threads_max,
            pool_pre_ping=True,
        )
        sqlalchemy.event.listen(made, "checkin", self._given_back)
        return made

    def _given_back(self, connection: Any, record: object) -> None:
        """Whoever ends after us gives a connection back to a pool that nobody closes any more."""
        if self._is_closed and connection is not None:
            connection.close()

    def _named(self) -> str:
        """Beside the schema of the store, so that two stores in one database do not meet."""
        from sqlalchemy import text

        with self.connections.connect() as connection:
            mine = connection.execute(text("SELECT current_schema()")).scalar()
        return SCHEMA if mine in (None, "public") else f"{SCHEMA}_{mine}"


@contextmanager
def told(what: str) -> Iterator[None]:
    """What a driver says has lines of SQL; the first is for people."""
    import psycopg
    import sqlalchemy.exc
    from dbos import error as dbos_error

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, psycopg.Error, dbos_error.DBOSException) as error:
        raise StoreError(f"{what}: {_first_line(str(error))}.") from None


def _serializer() -> Any:
    from dbos import DBOSPortableJSONSerializer

    return DBOSPortableJSONSerializer()


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
