"""Named ways to break the bed, and which component and cause a diagnosis must name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operator_protocols.errors import OperatorError
from tests.subjects.bed.bed import Bed
from tests.subjects.bed.programs import PASSWORD
from tests.subjects.certificates import certificate

__all__ = ["WAYS", "Way"]

Inject = Callable[[Bed, contextlib.ExitStack], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Way:
    """One way. `touches` are the components that it stops or changes, beside its own."""

    name: str
    component: str
    causes: tuple[str, ...]
    inject: Inject
    repaired: bool = False
    touches: tuple[str, ...] = ()

    @property
    def has_box(self) -> bool:
        """Whether the host over ssh is broken."""
        return self.name.startswith("box_")


def _kill(*parts: str) -> Inject:
    async def inject(bed: Bed, kept: contextlib.ExitStack) -> None:
        await asyncio.gather(*(bed.rig.kill(part) for part in parts))

    return inject


def _signal(part: str, number: int) -> Inject:
    async def inject(bed: Bed, kept: contextlib.ExitStack) -> None:
        bed.rig.signal(part, number)

    return inject


def _behave(part: str, **behaviour: float) -> Inject:
    """A bad release of an application."""

    async def inject(bed: Bed, kept: contextlib.ExitStack) -> None:
        (bed.home_of(part) / "behaviour.json").write_text(json.dumps(behaviour))

    return inject


def _edit(part: str, file: str, pattern: str, text: str, then: str) -> Inject:
    """Change the settings of a part; `then` it reads them, or is killed."""

    async def inject(bed: Bed, kept: contextlib.ExitStack) -> None:
        path = bed.home_of(part) / file
        changed, count = re.subn(pattern, text, path.read_text(), count=1)
        assert count, f"{pattern} is not in {path}"
        path.write_text(changed)
        match then:
            case "reload":
                bed.rig.signal(part, signal.SIGHUP)
            case "kill":
                await bed.rig.kill(part)
            case _:
                # It may not become ready with these settings.
                with contextlib.suppress(OperatorError, TimeoutError):
                    await asyncio.wait_for(bed.rig.restart(part), 10.0)

    return inject


def _mysql(*statements: str) -> Inject:
    async def inject(bed: Bed, kept: contextlib.ExitStack) -> None:
        import pymysql

        place = {"host": "127.0.0.1", "port": bed.port("db"), "user": "admin"}
        with pymysql.connect(**place, password=PASSWORD, autocommit=True) as session:
            for statement in statements:
                session.cursor().execute(statement)

    return inject


def _postgres(*statements: str) -> Inject:
    async def inject(bed: Bed, kept: contextlib.ExitStack) -> None:
        with _postgres_session(bed, "postgres") as session:
            for statement in statements:
                session.execute(statement)

    return inject


def _postgres_session(bed: Bed, user: str) -> Any:
    import psycopg

    return psycopg.connect(
        host="127.0.0.1",
        port=bed.port("ledger"),
        user=user,
        password=PASSWORD,
        dbname="postgres",
        autocommit=True,
        sslmode="disable",
    )


def _cache(*words: str) -> Inject:
    async def inject(bed: Bed, kept: contextlib.ExitStack) -> None:
        with _cache_session(bed) as session:
            assert b"-ERR" not in _ask(session, *words)

    return inject


@contextlib.contextmanager
def _cache_session(bed: Bed) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", bed.port("cache")), timeout=10) as session:
        assert _ask(session, "AUTH", PASSWORD).startswith(b"+OK")
        yield session


def _ask(session: socket.socket, *words: str) -> bytes:
    parts = [word.encode() for word in words]
    command = b"*%d\r\n" % len(parts)
    session.sendall(command + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
    return session.recv(65536)


async def _use_up_mysql(bed: Bed, kept: contextlib.ExitStack) -> None:
    import pymysql

    place = {"host": "127.0.0.1", "port": bed.port("db"), "user": "shop"}
    for _ in range(60):
        with contextlib.suppress(pymysql.MySQLError):
            kept.enter_context(pymysql.connect(**place, password=PASSWORD, connect_timeout=3))


async def _use_up_postgres(bed: Bed, kept: contextlib.ExitStack) -> None:
    import psycopg

    for _ in range(40):
        with contextlib.suppress(psycopg.Error):
            kept.enter_context(_postgres_session(bed, "shop"))


async def _expire_certificate(bed: Bed, kept: contextlib.ExitStack) -> None:
    expired = certificate(bed.folder, name="shop.test", days=-1)
    (bed.home_of("edge") / "shop.pem").write_bytes(expired.read_bytes())
    (bed.folder / "trusted.pem").write_bytes(expired.read_bytes())
    bed.rig.signal("edge", signal.SIGHUP)


async def _other_certificate(bed: Bed, kept: contextlib.ExitStack) -> None:
    other = certificate(bed.folder, name="other.test", days=60)
    (bed.home_of("edge") / "shop.pem").write_bytes(other.read_bytes())
    (bed.folder / "trusted.pem").write_bytes(other.read_bytes())
    bed.rig.signal("edge", signal.SIGHUP)


async def _fill_cache_disk(bed: Bed, kept: contextlib.ExitStack) -> None:
    await bed.rig.fill("cache")
    with contextlib.suppress(OSError), _cache_session(bed) as session:
        _ask(session, "SET", "filler", "x" * 200_000)
        _ask(session, "BGSAVE")


async def _fill_cache_memory(bed: Bed, kept: contextlib.ExitStack) -> None:
    with _cache_session(bed) as session:
        _ask(session, "CONFIG", "SET", "maxmemory", "3mb")
        for number in range(40):
            _ask(session, "SET", f"filler:{number}", "x" * 50_000)


async def _close_data(bed: Bed, kept: contextlib.ExitStack) -> None:
    """The data folder of a database belongs to somebody else after a restore."""
    await bed.rig.kill("ledger")
    target = next(each for each in bed.rig.targets() if each.name == "ledger")
    os.chown(Path(target.data_dir) / "main", 0, 0)
    with contextlib.suppress(OperatorError, TimeoutError):
        await asyncio.wait_for(bed.rig.restart("ledger"), 15.0)


async def _few_files(bed: Bed, kept: contextlib.ExitStack) -> None:
    await bed.rig.limit("shop", files=6)


async def _take_port(bed: Bed, kept: contextlib.ExitStack) -> None:
    await bed.rig.occupy("pay")


async def _kill_worker(bed: Bed, kept: contextlib.ExitStack) -> None:
    os.kill(bed.box.worker, signal.SIGKILL)


async def _stop_worker(bed: Bed, kept: contextlib.ExitStack) -> None:
    os.kill(bed.box.worker, signal.SIGTERM)


async def _end_sshd(bed: Bed, kept: contextlib.ExitStack) -> None:
    """The server and the sessions that it has open, as when the host is gone."""
    ending = [bed.box.sshd.pid]
    for pid in ending:
        with contextlib.suppress(OSError):
            ending += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    for pid in ending:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def _fill_box(bed: Bed, kept: contextlib.ExitStack) -> None:
    (bed.box.disk / "dump").write_bytes(bytes(7_900_000))


async def _age_result(bed: Bed, kept: contextlib.ExitStack) -> None:
    os.utime(bed.box.folder / "result", (1_700_000_000, 1_700_000_000))


async def _log_errors(bed: Bed, kept: contextlib.ExitStack) -> None:
    with (bed.box.folder / "app.log").open("a") as log:
        log.writelines(f"ERROR payment {number} failed\n" for number in range(50))


PARTS = ("db", "ledger", "cache", "shop", "pay", "edge")
_DEAD = ("process_dead",)
WAYS = (
    Way("web_killed", "shop", _DEAD, _kill("shop"), repaired=True),
    Way("web_stopped_cleanly", "shop", ("stopped_cleanly",), _signal("shop", signal.SIGTERM)),
    Way("web_paused", "shop", ("process_paused",), _signal("shop", signal.SIGSTOP), repaired=True),
    Way("web_slow", "shop", ("slow_answers",), _behave("shop", delay_s=2)),
    Way("web_fails", "pay", ("server_errors",), _behave("pay", fails=1)),
    Way("web_leaks", "pay", ("memory_leak",), _behave("pay", leak_mb=60)),
    Way("queue_full", "shop", ("queue_full",), _behave("shop", workers=0)),
    Way("descriptors_used_up", "shop", ("files_used_up",), _few_files),
    Way(
        "name_not_resolved",
        "shop",
        ("name_not_resolved",),
        _edit("shop", "app.json", '"host": "127.0.0.1"', '"host": "db.invalid"', "restart"),
    ),
    Way(
        "application_password",
        "shop",
        ("login_rejected", "credential_refused"),
        _mysql("ALTER USER shop@'127.0.0.1' IDENTIFIED BY 'changed'"),
        touches=("db",),
    ),
    Way("port_taken", "pay", ("port_occupied",), _take_port),
    Way(
        "upstream_wrong",
        "edge",
        ("upstream_wrong",),
        _edit(
            "edge",
            "nginx.conf",
            r"proxy_pass http://127.0.0.1:\d+/",
            "proxy_pass http://127.0.0.1:9/",
            "reload",
        ),
    ),
    Way("certificate_expired", "door", ("certificate_expired",), _expire_certificate),
    Way("certificate_of_another", "door", ("certificate_name_differs",), _other_certificate),
    Way(
        "nginx_stopped_cleanly",
        "edge",
        ("stopped_cleanly",),
        _signal("edge", signal.SIGTERM),
        touches=("door",),
    ),
    Way(
        "configuration_prevents_start",
        "edge",
        ("configuration_rejected", "start_fails"),
        _edit("edge", "nginx.conf", "worker_processes 1;", "worker_procesess 1;", "kill"),
        touches=("door",),
    ),
    Way("mariadb_killed", "db", _DEAD, _kill("db"), repaired=True),
    Way("mariadb_paused", "db", ("process_paused",), _signal("db", signal.SIGSTOP), repaired=True),
    Way("mariadb_connections", "db", ("connections_used_up",), _use_up_mysql),
    Way("mariadb_read_only", "db", ("db_read_only",), _mysql("SET GLOBAL read_only = 1")),
    Way(
        "mariadb_own_password",
        "db",
        ("login_rejected", "credential_refused"),
        _mysql("ALTER USER operator@'127.0.0.1' IDENTIFIED BY 'changed'"),
    ),
    Way("postgres_dependency_killed", "ledger", _DEAD, _kill("ledger"), repaired=True),
    Way(
        "postgres_stopped_cleanly", "ledger", ("stopped_cleanly",), _signal("ledger", signal.SIGINT)
    ),
    Way("postgres_connections", "ledger", ("connections_used_up",), _use_up_postgres),
    Way("postgres_permission", "ledger", ("files_denied", "start_fails"), _close_data),
    Way("cache_killed", "cache", _DEAD, _kill("cache"), repaired=True),
    Way(
        "cache_out_of_memory", "cache", ("cache_memory_full", "memory_used_up"), _fill_cache_memory
    ),
    Way("cache_disk_full", "cache", ("save_fails", "disk_full"), _fill_cache_disk),
    Way(
        "cache_replication_broken",
        "cache",
        ("primary_unreachable",),
        _cache("REPLICAOF", "127.0.0.1", "9"),
    ),
    Way("box_worker_killed", "worker", _DEAD, _kill_worker, repaired=True),
    Way("box_worker_stopped", "worker", ("stopped_cleanly",), _stop_worker),
    Way("box_disk_full", "box", ("disk_nearly_full", "disk_full"), _fill_box),
    Way("box_job_late", "nightly", ("job_late",), _age_result),
    Way("box_log_errors", "nightly", ("log_errors",), _log_errors),
    Way("box_unreachable", "box", ("host_unreachable",), _end_sshd, touches=("worker", "nightly")),
    Way("everything_killed", "db", _DEAD, _kill(*PARTS), repaired=True, touches=(*PARTS, "door")),
)
