"""A real etcd that wants TLS and a password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from operator_lab.ports import reserve_ports
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import MissingExtraError
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.etcd.client import Etcd
from operator_sre.subjects.etcd.members import KIND
from operator_sre.subjects.etcd.rig import server_path
from operator_sre.subjects.etcd.subject import EtcdCluster
from tests.processes.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]

PASSWORD = "correct horse"


@asynccontextmanager
async def _one_member(folder: Path) -> AsyncIterator[tuple[int, Path]]:
    """Its port, and the certificate that it made for itself."""
    try:
        server = server_path()
    except MissingExtraError as problem:
        pytest.skip(str(problem))
    reserved = reserve_ports(["client", "peer"])
    ports = reserved.ports
    client, peer = (f"//127.0.0.1:{ports[name]}" for name in ("client", "peer"))
    process = await asyncio.create_subprocess_exec(
        *(server, "--name", "a", "--data-dir", str(folder / "data"), "--auto-tls"),
        *("--listen-client-urls", f"https:{client}", "--advertise-client-urls", f"https:{client}"),
        *("--listen-peer-urls", f"http:{peer}", "--initial-advertise-peer-urls", f"http:{peer}"),
        *("--initial-cluster", f"a=http:{peer}", "--log-level", "error"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    certificate = folder / "data" / "fixtures" / "client" / "cert.pem"
    try:
        await eventually(certificate.exists)
        yield ports["client"], certificate
    finally:
        process.kill()
        await process.wait()
        reserved.release()


async def test_a_real_member_is_reached_by_certificate_and_password(tmp_path: Path) -> None:
    async with _one_member(tmp_path) as (port, certificate):
        trusting = Access(tls=True, ca_file=str(certificate))
        target = Target("a", KIND, port=port, access=trusting)
        targets = [target]
        settings = SubjectSettings(
            *("etcd", lambda: targets, SystemClock(), 60.0, {"canary": "shop/canary"}),
            secret={"pw": PASSWORD}.__getitem__,
        )
        subject = EtcdCluster(settings)
        etcd = Etcd(settings)
        ends = asyncio.get_running_loop().time() + 30.0
        while not (answer := await etcd.ask(target, "auth/role/add", {"name": "root"})).ok:
            assert asyncio.get_running_loop().time() < ends, answer.error
        user = {"name": "root", "password": PASSWORD}
        assert (await etcd.ask(target, "auth/user/add", user)).ok
        grant = {"user": "root", "role": "root"}
        assert (await etcd.ask(target, "auth/user/grant", grant)).ok
        assert (await etcd.ask(target, "auth/enable")).ok

        # It is up, and what we may not do is not taken for health.
        stranger = (await subject.observe()).of("a")
        assert stranger.problem or stranger.readings["read_error"]

        targets[:] = [
            Target("a", KIND, port=port, access=Access(
                tls=True, ca_file=str(certificate), user="root", password_file="pw"
            ))
        ]  # fmt: skip
        known = (await subject.observe()).of("a")
        assert (known.problem, known.readings["read_error"]) == ("", "")
        assert known.readings["write_error"] == ""
        assert known.readings["is_leader"] is True

        targets[:] = [Target("a", KIND, port=port, access=Access(tls=True))]
        doubted = (await subject.observe()).of("a")
        assert doubted.readings["reachable"] is False
        assert "certificate" in str(doubted.readings["error"])
