"""A script reaches the listed hosts and nothing else, and what was refused is told."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import ErrorCategory, FailureCategory
from operator_sre.executor.sandbox import Language, forward
from operator_sre.executor.sandbox.egress import Egress
from tests.executor.sandbox.boxes import Boxed, bubblewrap


class Greets(BaseHTTPRequestHandler):
    """Says hello, and which path was asked for."""

    def do_GET(self) -> None:
        body = f"hello {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: object) -> None:
        """Nobody listens."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Greets) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def boxed(tmp_path: Path) -> Iterator[Boxed]:
    with bubblewrap(tmp_path) as made:
        yield made
        assert made.left() == []


ASK = """
import urllib.request
try:
    print(urllib.request.urlopen("http://127.0.0.1:@PORT@/a?b=c", timeout=9).read().decode())
except OSError as error:
    raise SystemExit(str(error))
"""
TUNNEL = """
import http.client
way = http.client.HTTPConnection("127.0.0.1", 3128, timeout=9)
way.set_tunnel("127.0.0.1", @PORT@)
way.request("GET", "/tunnel")
print(way.getresponse().read().decode())
"""


@pytest.mark.parametrize(("text", "said"), [(ASK, "hello /a?b=c"), (TUNNEL, "hello /tunnel")])
@pytest.mark.asyncio
async def test_a_listed_host_is_reached(boxed: Boxed, port: int, text: str, said: str) -> None:
    text = text.replace("@PORT@", str(port))
    result = await boxed.run(Language.PYTHON, text, hosts=(f"127.0.0.1:{port}",))
    assert (result.stdout, result.exit_code) == (f"{said}\n", 0), result.stderr
    assert "error_category" not in result.data


@pytest.mark.parametrize("text", [ASK, TUNNEL])
@pytest.mark.asyncio
async def test_another_host_is_refused_and_told(boxed: Boxed, port: int, text: str) -> None:
    text = text.replace("@PORT@", str(port))
    result = await boxed.run(Language.PYTHON, text, hosts=("127.0.0.1:9", "192.0.2.7"))
    assert not result.ok
    assert "hello" not in result.stdout
    assert result.data["error_category"] == ErrorCategory.NETWORK_SANDBOX_FAILED
    assert result.data["refused_hosts"] == f"127.0.0.1:{port}"
    assert result.category is FailureCategory.NETWORK


@pytest.mark.asyncio
async def test_bash_has_the_same_way_out(boxed: Boxed, port: int) -> None:
    text = f"""
exec 9<>/dev/tcp/127.0.0.1/3128
printf 'GET http://127.0.0.1:{port}/bash HTTP/1.0\\r\\n\\r\\n' >&9
cat <&9
exit 5
"""
    result = await boxed.run(Language.BASH, text, hosts=(f"127.0.0.1:{port}",))
    assert result.stdout.endswith("hello /bash")
    assert result.exit_code == 5


@pytest.mark.asyncio
async def test_there_is_no_way_around_the_proxy(boxed: Boxed, port: int) -> None:
    text = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)"
    result = await boxed.run(Language.PYTHON, text, hosts=(f"127.0.0.1:{port}",))
    assert not result.ok


@asynccontextmanager
async def connected(
    egress: Egress, tmp_path: Path
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the proxy itself."""
    async with egress.serve(tmp_path / "way"):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "way"))
        try:
            yield reader, writer
        finally:
            writer.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("CONNECT example.org:443 HTTP/1.1", b"403"),
        ("CONNECT 127.0.0.1:22 HTTP/1.1", b"403"),
        ("CONNECT [::1]:22 HTTP/1.1", b"403"),
        ("CONNECT 0x7f.1:9 HTTP/1.1", b"403"),
        ("CONNECT 2130706433:9 HTTP/1.1", b"403"),
        ("GET http://example.org@127.0.0.1:22/ HTTP/1.1", b"403"),
        ("GET http://127.0.0.1:22/ HTTP/1.1", b"403"),
        ("CONNECT 127.0.0.1 HTTP/1.1", b"400"),
        ("CONNECT 127.0.0.1:99999 HTTP/1.1", b"400"),
        ("CONNECT a b:9 HTTP/1.1", b"400"),
        ("GET file:///etc/passwd HTTP/1.1", b"400"),
        ("GET / HTTP/1.1", b"400"),
        ("\x00", b"400"),
        ("GET http://" + "a" * 20_000 + "/ HTTP/1.1", b"400"),
    ],
    ids=lambda value: str(value)[:30],
)
@pytest.mark.asyncio
async def test_what_is_not_listed_gets_a_refusal(
    tmp_path: Path, request_line: str, status: bytes
) -> None:
    egress = Egress(("127.0.0.1:9",))
    async with connected(egress, tmp_path) as (reader, writer):
        writer.write(request_line.encode() + b"\r\nHost: 127.0.0.1:9\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), 20)
    assert line.split(b" ")[1] == status
    assert bool(egress.refused) is (status == b"403")


@pytest.mark.parametrize(
    ("address", "listed", "allowed"),
    [
        ("93.184.215.14", (), True),
        ("2606:2800:21f:cb07::1", (), True),
        ("127.0.0.1", (), False),
        ("10.1.2.3", (), False),
        ("169.254.169.254", (), False),
        ("::1", (), False),
        ("::ffff:127.0.0.1", (), False),
        ("64:ff9b::7f00:1", (), False),
        ("2002:7f00:1::", (), False),
        ("fe80::1", (), False),
        ("fd00::1", (), False),
        ("224.0.0.1", (), False),
        ("0.0.0.0", (), False),  # noqa: S104 - an address that is refused
        ("10.1.2.3", ("10.1.2.3:443",), True),
        ("10.1.2.3", ("10.1.2.3:444",), False),
    ],
)
@pytest.mark.asyncio
async def test_a_name_that_leads_inside_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str, listed: tuple[str, ...], allowed: bool
) -> None:
    async def leads(host: str, port: int, **more: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", leads)
    egress = Egress(("name.example:443", *listed))
    assert await egress.resolve("name.example", 443) == ((address,) if allowed else ())
    assert await egress.resolve("name.example", 80) == ()


@pytest.mark.parametrize("host", ["", "a b", "a:99999", "*", "http://a", "a/b", "a:b"])
@pytest.mark.asyncio
async def test_what_is_no_host_cannot_be_listed(host: str, boxed: Boxed) -> None:
    with pytest.raises(ValueError, match="is no"):
        Egress((host,))
    result = await boxed.run(Language.BASH, "echo ran", hosts=(host,))
    assert (result.outcome, result.stdout) == (Outcome.REFUSED, "")
    assert "is no" in result.stderr


def test_the_forwarder_carries_both_ways(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX) as door,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        door.bind(str(tmp_path / "door"))
        door.listen()
        args = (listener, str(tmp_path / "door"))
        thread = threading.Thread(target=forward.serve, args=args, daemon=True)
        thread.start()
        with socket.create_connection(listener.getsockname()) as near:
            far, _ = door.accept()
            with far:
                near.sendall(b"there")
                near.shutdown(socket.SHUT_WR)
                assert far.makefile("rb").read() == b"there"
                far.sendall(b"back")
                far.shutdown(socket.SHUT_WR)
            assert near.makefile("rb").read() == b"back"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)
        assert not thread.is_alive()


def test_carry_ends_when_both_have_said_all() -> None:
    one, near = socket.socketpair()
    other, far = socket.socketpair()
    with one, near, other, far:
        for end in (one, other):
            end.sendall(b"x")
            end.shutdown(socket.SHUT_WR)
        forward.carry(near, far)
        assert (one.recv(9), other.recv(9)) == (b"x", b"x")


def test_the_forwarder_ends_as_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "PORT", 0)
    assert forward.main(["/bin/sh", "-c", "exit 5"]) == 5
    assert forward.main(["/bin/sh", "-c", "kill -9 $$"]) == 137
