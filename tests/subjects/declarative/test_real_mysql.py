"""The MySQL pack and its probe against a real MariaDB: what they read, and that it logs nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.errors import ConfigError
from tests.contract.servers import unused_port
from tests.e2e.waiting import eventually
from tests.models.world import WELL
from tests.subjects.bed import programs
from tests.subjects.bed.rig import MARIADB
from tests.subjects.declarative.diagnosing import diagnose
from tests.subjects.declarative.test_packs import PACKS
from tests.subjects.declarative.trying import Tried, described

pytestmark = [pytest.mark.asyncio, pytest.mark.slow, pytest.mark.system]
ACCESS = "access: {user: operator, password_file: /etc/operator/mysql-password}"


class MariaDb:
    """A private server with the accounts of the test bed."""

    def __init__(self, folder: Path) -> None:
        root = programs.mariadb()
        self.folder = folder
        with unused_port() as port:
            self.port = port
        (folder / "volume").mkdir()
        subprocess.run(
            ["cp", "-r", str(programs.mariadb_data()), str(folder / "volume/main")], check=True
        )
        text = MARIADB.replace("SHARE", str(root / "usr/share/mysql"))
        for blank, value in (("port", port), ("volume", folder / "volume"), ("dir", folder)):
            text = text.replace(f"{{{blank}}}", str(value))
        (folder / "my.cnf").write_text(text)
        self.process = subprocess.Popen(
            [str(root / "usr/sbin/mariadbd"), f"--defaults-file={folder}/my.cnf", "--user=root"],
            env={"LD_LIBRARY_PATH": programs.library_path(root)},
            stderr=subprocess.DEVNULL,
        )
        eventually(lambda: (folder / "mariadb.pid").exists() or None, "MariaDB has started")

    def admin(self, statement: str) -> None:
        with self.connect("admin") as session:
            session.cursor().execute(statement)

    def connect(self, user: str) -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=user, password=programs.PASSWORD
        )

    @property
    def warnings(self) -> list[str]:
        lines = (self.folder / "error.log").read_text().splitlines()
        return [line for line in lines if "Aborted" in line or "[ERROR]" in line]

    def pack(self, *, password: str = programs.PASSWORD) -> Tried:
        (self.folder / "password").write_text(password)
        text = PACKS["mysql"].text.replace("@NAME@", "mine").replace("3306", str(self.port))
        access = f"access: {{user: operator, password_file: {self.folder}/password}}"
        return described(self.folder, text.replace(ACCESS, access), timeout_s=20.0)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(30.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MariaDb]:
    if missing := programs.missing_programs():
        pytest.skip(missing)
    made = MariaDb(tmp_path)
    yield made
    made.stop()


async def test_the_pack_holds_on_a_real_server_and_leaves_no_trace(server: MariaDb) -> None:
    tried = server.pack()
    assert {one.health for one in await tried.findings()} == {"healthy"}
    readings = (await tried.seen()).readings
    assert readings["settings.max_connections"] == 40
    assert readings["status.threads_running"]
    assert server.warnings == []
    server.admin("SET GLOBAL read_only = 1")
    assert (await diagnose(tried, **{"mine-1": WELL})).cause == "database_read_only"


async def test_used_up_connections_and_a_wrong_password_have_their_names(server: MariaDb) -> None:
    tried = server.pack()
    server.admin("SET GLOBAL max_connections = 10")
    sessions = [server.connect("shop") for _ in range(10)]
    try:
        found = await diagnose(tried, **{"mine-1": WELL})
        assert (found.cause, found.choice) == ("connections_used_up", "escalate")
    finally:
        for session in sessions:
            session.close()
    found = await diagnose(server.pack(password="guess"), **{"mine-1": WELL})
    assert (found.cause, found.choice) == ("login_rejected", "escalate")


async def test_nothing_can_be_changed(server: MariaDb, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(programs.PASSWORD)
    text = (
        f"name: a\ntargets: {{t: {{kind: k, port: {server.port}, access: {{user: admin,"
        f" password_file: {tmp_path}/password}}}}}}\nprobes: {{it: {{mysql: {{query: QUERY}}}}}}\n"
        "invariants: {i: {holds: it.up}}\n"
    )
    for query in ("SELECT 1; DROP TABLE shop.orders", "SELECT 1 /*!; DROP TABLE shop.orders */"):
        tried = described(tmp_path, text.replace("QUERY", f'"{query}"'))
        if "/*!" in query:
            with pytest.raises(ConfigError, match="one SELECT"):
                await tried.seen()
        else:
            assert "not valid there" in (await tried.seen()).problem
    with server.connect("admin") as session:
        assert session.cursor().execute("SELECT * FROM shop.orders") == 0
