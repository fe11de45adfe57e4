"""Packs against the real servers: each named failure ends as its own cause, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from operator_protocols.domain.diagnosis import Diagnosis
from operator_sre.subjects.declarative.evidence import BOOT_S
from tests.contract.servers import http, serving, unused_port
from tests.e2e.waiting import eventually
from tests.engines.debian import CACHE
from tests.models.world import DEAD, WELL
from tests.subjects.certificates import certificate
from tests.subjects.declarative.diagnosing import diagnose
from tests.subjects.declarative.test_packs import PACKS
from tests.subjects.declarative.test_redis import Server
from tests.subjects.declarative.trying import Tried, described

pytestmark = [pytest.mark.asyncio, pytest.mark.slow, pytest.mark.system]
NGINX = CACHE / "nginx" / "usr" / "sbin" / "nginx"
CONFIGURATION = """\
daemon on; master_process on; user root; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} {tls};
    location /nginx_status {{ stub_status; }}
    location / {{ {action} }}
  }}
}}
"""


@dataclass
class Nginx:
    """A real nginx with a configuration of one location."""

    folder: Path
    port: int

    def start(self, action: str, tls: str = "") -> None:
        text = CONFIGURATION.format(folder=self.folder, port=self.port, action=action, tls=tls)
        (self.folder / "nginx.conf").write_text(text)
        self.stop()
        subprocess.run([NGINX, "-c", self.folder / "nginx.conf"], check=True, timeout=20)
        eventually(lambda: bool(self.pid and self.workers), "nginx has started")

    def stop(self) -> None:
        if pid := self.pid:
            os.kill(pid, signal.SIGTERM)
            eventually(lambda: self.pid is None or None, "nginx has stopped")

    @property
    def pid(self) -> int | None:
        try:
            return int((self.folder / "pid").read_text())
        except (OSError, ValueError):
            return None

    @property
    def workers(self) -> list[int]:
        """The processes that its master has started."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in path.read_text().split()]

    def pack(self, more: str = "") -> Tried:
        text = (
            PACKS["nginx"].text.replace("@NAME@", "web").replace("port: 80", f"port: {self.port}")
        )
        text = text.replace("/run/nginx.pid", f"{self.folder}/pid").replace(
            "# access: {tls: true}", more
        )
        text = text.replace("/var/log/nginx/error.log", f"{self.folder}/error.log")
        return described(self.folder, text, timeout_s=10.0)


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    if not NGINX.exists():
        pytest.skip("there is no nginx; tests/tools/debian.sh fetches one on Debian")
    with unused_port() as port:
        made = Nginx(tmp_path, port)
    yield made
    made.stop()


async def find(tried: Tried) -> Diagnosis:
    return await diagnose(tried, **{"web-1": WELL})


async def test_nginx_that_serves_is_healthy_and_its_failures_have_their_names(
    nginx: Nginx, tmp_path: Path
) -> None:
    nginx.start("return 200 ok;")
    tried = nginx.pack()
    assert {one.health for one in await tried.findings()} == {"healthy"}
    nginx.start("return 500;")
    assert (await find(tried)).cause == "server_errors"
    with unused_port() as dead:
        nginx.start(f"proxy_pass http://127.0.0.1:{dead};")
        assert (await find(tried)).cause in ("upstream_wrong", "upstream_fails")
        assert (await tried.seen()).readings["cause.upstream_wrong"] is True
    assert "no live upstreams" not in (tmp_path / "error.log").read_text()

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 1.2)
        await http(200, {})(reader, writer)

    async with serving(slowly) as backend:
        nginx.start(f"proxy_pass http://127.0.0.1:{backend};")
        found = await find(tried)
        assert (found.cause, found.choice) == ("slow_answers", "escalate")


async def test_an_expired_certificate_of_nginx_is_called_that(nginx: Nginx, tmp_path: Path) -> None:
    expired = certificate(tmp_path, name="shop.test", days=-1)
    pair = f"ssl; ssl_certificate {expired}; ssl_certificate_key {expired}"
    nginx.start("return 200 ok;", pair)
    tried = nginx.pack(f"access: {{tls: true, ca_file: {expired}, server_name: shop.test}}")
    found = await find(tried)
    assert (found.cause, found.choice) == ("certificate_expired", "escalate")


async def test_a_killed_nginx_is_started_and_a_stopped_one_is_not(nginx: Nginx) -> None:
    nginx.start("return 200 ok;")
    tried = nginx.pack()
    await tried.findings()
    for pid in (nginx.pid, *nginx.workers):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    found = await diagnose(tried, **{"web-1": DEAD})
    assert (found.cause, found.choice) == ("process_dead", "start(web-1)")
    (nginx.folder / "pid").unlink()
    nginx.start("return 200 ok;")
    nginx.stop()
    has_just_booted = time.clock_gettime(time.CLOCK_BOOTTIME) < BOOT_S
    found = await diagnose(tried, **{"web-1": DEAD})
    cause = "not_started" if has_just_booted else "stopped_cleanly"
    assert (found.cause, found.choice) == (cause, "escalate")


async def test_a_wrong_password_of_redis_is_no_dead_server(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        (tmp_path / "wrong").write_text("guess")
        text = PACKS["redis"].text.replace("@NAME@", "cache").replace("6379", str(server.port))
        access = f"access: {{password_file: {tmp_path}/wrong}}"
        text = text.replace(
            "# access: {user: operator, password_file: /etc/operator/redis-password}", access
        )
        found = await diagnose(described(tmp_path, text), **{"cache-1": WELL})
        assert (found.cause, found.choice) == ("login_rejected", "escalate")
        (tmp_path / "wrong").write_text("open-sesame")
        tried = described(tmp_path, text)
        assert {one.health for one in await tried.findings()} == {"healthy"}
    finally:
        server.end()
