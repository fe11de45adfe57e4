"""A command that may ask a Docker engine, the D-Bus or the records of users can only ask."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_sre.processes.confinement.relays import Relays

_BUS = """<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/><allow user="*"/></policy></busconfig>"""
ASKED = [b"GET /v1.43/containers/json HTTP/1.1", b"HEAD /_ping HTTP/1.1"]
REFUSED = [
    b"POST /v1.43/containers/create HTTP/1.1",
    b"DELETE /v1.43/containers/x HTTP/1.1",
    b"PUT /v1.43/containers/x/archive HTTP/1.1",
    b"get /v1.43/containers/json HTTP/1.1",
    b"GET /v1.43/containers/x/attach/ws HTTP/1.1",
    b"GET /a HTTP/1.1\r\nUpgrade: tcp",
    b"GET /a HTTP/1.1\r\nTransfer-Encoding: chunked",
    b"GET /a HTTP/1.1\r\nContent-Length: 4",
    b"GET http://x/a HTTP/1.1",
    b"POST /v1.43/containers/x/wait HTTP/1.1\r\nContent-Length: 2",
    b"\x00\x01",
]
# Questions whose answer is a secret or leads to one, and how a path can be spelled.
CLOSED_PATHS = (
    "containers/x/archive?path=/etc/shadow",
    "containers/x/attach/ws",
    "containers/x/export",
    "images/x/get",
    "swarm",
    "swarm/unlockkey",
    "configs/x",
    "distribution/registry.example/x/json",
)
SPELLINGS = (
    "/{}",
    "/v1.43/{}",
    "//{}",
    "/v1.43/containers/json/../../{}",
    "/v1.43/images/a/../../{}?/json",
    "/v1.43/./{}",
    "/v1.43/images/a//../../{}/json",
    "/{}#/_ping",
    "/_ping/../{}",
    "/_ping%2f..%2f{}",
)
# What one reader takes for the end of a line and another does not.
ENDS = (b"\n", b"\r", b"\n\r", b"\r\r\n", b"\x0b", b"\x0c", b"\x00\n", b" \n", b"\xc2\x85", b"\n ")
SMUGGLED = b"POST /v1.43/containers/create HTTP/1.1{e}Host: x{e}Content-Length: 2{e}{e}{{}}"
PLACES = (
    b"GET /_ping HTTP/1.1\r\nHost: x{e}{e}{s}",
    b"GET /_ping HTTP/1.1{e}Host: x{e}{e}{s}",
    b"GET /_ping HTTP/1.1\r\nHost: x\r\nUser-Agent: a{e}{e}{s}",
    b"GET /_ping?a=b HTTP/1.1{e}{e}{s} HTTP/1.1\r\nHost: x",
    b"GET /_ping HTTP/1.1\r\nHost: x{e}Content-Length: 3{e}{e}abc{s}",
    b"GET /_ping HTTP/1.1\r\nHost: x{e}Upgrade: h2c{e}Connection: Upgrade",
    b"GET /_ping HTTP/1.1\r\nHost: x\r\nAccept:{e}Transfer-Encoding: chunked",
)


class Engine:
    """Answers like an engine, and remembers what it was asked."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(await reader.read(65536))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        writer.close()


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    made = Engine()
    async with await asyncio.start_unix_server(made.serve, str(tmp_path / "docker.sock")):
        yield made


@pytest.fixture
def told() -> list[str]:
    return []


@pytest_asyncio.fixture
async def relays(tmp_path: Path, told: list[str]) -> AsyncIterator[Relays]:
    made = Relays(tmp_path / "relays", told.append)
    yield made
    made.close()


async def _ask(path: str | None, text: bytes) -> bytes:
    assert path is not None
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(text)
    try:
        async with asyncio.timeout(10):
            return await reader.read(65536)
    finally:
        writer.close()


@pytest.mark.parametrize("line", ASKED)
@pytest.mark.asyncio
async def test_a_question_is_passed_on_once(
    engine: Engine, relays: Relays, tmp_path: Path, line: bytes
) -> None:
    path = await relays.lead(str(tmp_path / "docker.sock"))
    more = b"POST /v1.43/containers/create HTTP/1.1\r\n\r\n"
    answer = await _ask(path, line + b"\r\nHost: x\r\nConnection: keep-alive\r\n\r\n" + more)
    assert answer.endswith(b"[]")
    assert engine.heard == [line + b"\r\nHost: x\r\nConnection: close\r\n\r\n"]


@pytest.mark.parametrize("line", REFUSED)
@pytest.mark.asyncio
async def test_whatever_else_is_refused(
    engine: Engine, relays: Relays, tmp_path: Path, told: list[str], line: bytes
) -> None:
    path = await relays.lead(str(tmp_path / "docker.sock"))
    answer = await _ask(path, line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403")
    assert engine.heard == []
    assert told[0].startswith("request to Docker")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.asyncio
async def test_no_request_hides_in_another(
    engine: Engine, relays: Relays, tmp_path: Path, end: bytes
) -> None:
    path = await relays.lead(str(tmp_path / "docker.sock"))
    for place in PLACES:
        text = place.replace(b"{s}", SMUGGLED).replace(b"{{}}", b"{}").replace(b"{e}", end)
        await _ask(path, text + b"\r\n\r\n")
    await _ask(path, b"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n")
    assert engine.heard
    for heard in engine.heard:
        for line in re.split(rb"[\r\n\x00\x0b\x0c]+", heard):
            assert re.match(rb"GET /_ping|Host:|User-Agent:|Accept:|Connection: close|$", line), (
                heard
            )
            assert b"POST" not in line


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.asyncio
async def test_no_spelling_opens_a_closed_path(
    engine: Engine, relays: Relays, tmp_path: Path, spelling: str
) -> None:
    path = await relays.lead(str(tmp_path / "docker.sock"))
    for closed in CLOSED_PATHS:
        letters = [closed, closed.replace("a", "%61"), closed.replace("/", "%2F")]
        for each in letters:
            line = f"GET {spelling.format(each)} HTTP/1.1\r\nHost: x\r\n\r\n"
            answer = await _ask(path, line.encode())
            assert answer.startswith(b"HTTP/1.1 403"), line
    assert engine.heard == []


@pytest.mark.parametrize(
    "path",
    [
        *("/_ping", "/v1.43/version", "/info", "/v1.43/containers/json?all=1&filters=%7B%7D"),
        *("/v1.43/containers/my-app_1/json", "/v1.43/containers/a.b/logs?stdout=1&tail=5"),
        *("/v1.43/containers/x/stats?stream=0", "/v1.43/containers/x/top?ps_args=aux"),
        *("/v1.43/images/json", "/v1.43/images/registry.example:5000/a/b:1.2@sha256:ab/json"),
        *("/v1.43/images/nginx:1/history", "/networks", "/networks/bridge", "/volumes/data"),
        *("/services", "/services/x/logs?stdout=1", "/tasks", "/nodes/self", "/system/df"),
        *("/events?since=1", "/v1.43/images/search?term=nginx", "/plugins"),
    ],
)
@pytest.mark.asyncio
async def test_what_diagnostics_ask_is_passed_on(
    engine: Engine, relays: Relays, tmp_path: Path, path: str
) -> None:
    led = await relays.lead(str(tmp_path / "docker.sock"))
    answer = await _ask(led, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert answer.endswith(b"[]")


@pytest.mark.asyncio
async def test_waiting_for_a_container_is_a_question(
    engine: Engine, relays: Relays, tmp_path: Path
) -> None:
    led = await relays.lead(str(tmp_path / "docker.sock"))
    text = b"POST /v1.43/containers/x/wait HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    assert (await _ask(led, text)).endswith(b"[]")


@pytest.mark.asyncio
async def test_other_sockets_are_not_led_anywhere(relays: Relays) -> None:
    assert await relays.lead("/run/postgresql/.s.PGSQL.5432") is None


def _call(serial: int, path: str, interface: str, member: str, body: bytes = b"") -> bytes:
    """A method call to the bus itself."""

    def field(code: int, kind: bytes, text: str) -> bytes:
        size = struct.pack("<I", len(text))
        return bytes((code, 1)) + kind + b"\0" + size + text.encode() + b"\0"

    fields = b""
    named = ((1, b"o", path), (2, b"s", interface), (3, b"s", member))
    for code, kind, text in (*named, (6, b"s", "org.freedesktop.DBus")):
        fields += b"\0" * (-len(fields) % 8) + field(code, kind, text)
    if body:
        kind = b"\x02su\0" if member == "RequestName" else b"\x01s\0"
        fields += b"\0" * (-len(fields) % 8) + b"\x08\x01g\0" + kind
    head = struct.pack("<BBBBII", 108, 1, 0, 1, len(body), serial)
    return head + struct.pack("<I", len(fields)) + fields + b"\0" * (-len(fields) % 8) + body


BEGINNINGS = (b"BEGIN x", b"BEGIN ", b"BEGIN\t", b"begin", b"BEGIN\n", b"AUTH EXTERNAL 30\nBEGIN")
PLACE, INTERFACE = "/org/freedesktop/DBus", "org.freedesktop.DBus"
# Methods that are not questions, or whose answers are secrets.
CHANGING = (
    *("RequestName", "StartUnit", "StartTransientUnit", "Set", "GetSecrets", "GetSecret"),
    *("GetPasswordHash", "SetHostname", "BecomeMonitor", "UpdateActivationEnvironment", ""),
)


async def _greet(
    bus: str, folder: Path, told: list[str], *lines: bytes
) -> tuple[Relays, asyncio.StreamReader, asyncio.StreamWriter]:
    relays = Relays(folder, told.append)
    led = await relays.lead(bus)
    assert led is not None
    reader, writer = await asyncio.open_unix_connection(led)
    uid = str(os.getuid()).encode().hex().encode()
    writer.write(b"\0AUTH EXTERNAL " + uid + b"\r\n" + b"".join(lines))
    return relays, reader, writer


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    """All until the relay hangs up."""
    heard = b""
    async with asyncio.timeout(10):
        while data := await reader.read(4096):
            heard += data
    return heard


def _request_name() -> bytes:
    name = b"x.y"
    body = struct.pack("<I", len(name)) + name + b"\0" + struct.pack("<I", 0)
    return _call(3, PLACE, INTERFACE, "RequestName", body)


async def _talk(bus: str, folder: Path) -> list[str]:
    told: list[str] = []
    relays, reader, writer = await _greet(bus, folder, told, b"BEGIN\r\n")
    assert (await reader.readline()).startswith(b"OK")
    writer.write(_call(1, PLACE, INTERFACE, "Hello"))
    writer.write(_call(2, PLACE, INTERFACE, "ListNames"))
    async with asyncio.timeout(10):
        heard = b""
        while heard.count(b"org.freedesktop.DBus\0") < 3:
            heard += await reader.read(4096)
    writer.write(_request_name())
    await _read_to_end(reader)
    writer.close()
    relays.close()
    return told


async def _begin_otherwise(bus: str, folder: Path, begin: bytes) -> list[str]:
    """A bus takes more for the end of a greeting than the relay may: what follows is read too."""
    told: list[str] = []
    relays, reader, writer = await _greet(bus, folder, told, begin + b"\r\n")
    # The number of the last message has the bytes of a line's end, so that it looks like a line.
    line = _call(0x0A0D, PLACE, INTERFACE, "ListNames")
    writer.write(_call(1, PLACE, INTERFACE, "Hello") + _request_name() + line)
    heard = await _read_to_end(reader)
    writer.close()
    relays.close()
    assert b"x.y" not in heard, begin
    return told


async def _change(bus: str, folder: Path, member: str) -> list[str]:
    told: list[str] = []
    relays, reader, writer = await _greet(bus, folder, told, b"BEGIN\r\n")
    writer.write(_call(1, PLACE, INTERFACE, "Hello") + _call(2, PLACE, INTERFACE, member))
    await _read_to_end(reader)
    writer.close()
    relays.close()
    return told


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "system_bus_socket"
    (tmp_path / "bus.conf").write_text(_BUS.format(path=path))
    words = ["dbus-daemon", f"--config-file={tmp_path}/bus.conf", "--nofork", "--print-address"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        yield str(path)
        daemon.kill()


needs_bus = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="no dbus-daemon")


@needs_bus
def test_only_methods_that_tell_are_called_on_the_bus(tmp_path: Path, bus: str) -> None:
    told = asyncio.run(_talk(bus, tmp_path / "relays"))
    assert told == ["call over D-Bus: RequestName"]
    for member in CHANGING:
        told = asyncio.run(_change(bus, tmp_path / "relays", member))
        assert told == [f"call over D-Bus: {member}"]


@needs_bus
def test_no_message_hides_in_a_greeting(tmp_path: Path, bus: str) -> None:
    for begin in BEGINNINGS:
        told = asyncio.run(_begin_otherwise(bus, tmp_path / "relays", begin))
        assert told == ["greeting over D-Bus"], begin


@needs_bus
def test_nobody_listens_to_what_others_say_on_the_bus(tmp_path: Path, bus: str) -> None:
    told = asyncio.run(_overhear(bus, tmp_path / "relays"))
    assert told == ["call over D-Bus: AddMatch"]


async def _overhear(bus: str, folder: Path) -> list[str]:
    told: list[str] = []
    relays, reader, writer = await _greet(bus, folder, told, b"BEGIN\r\n")
    rule = b"eavesdrop='true'"
    body = struct.pack("<I", len(rule)) + rule + b"\0"
    writer.write(_call(1, PLACE, INTERFACE, "Hello"))
    writer.write(_call(2, PLACE, INTERFACE, "AddMatch", body))
    await _read_to_end(reader)
    writer.close()
    relays.close()
    return told


class Users:
    """Answers like a service for records of users; `over` when all who asked have hung up."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.over = asyncio.Event()
        self._asking = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._asking += 1
        self.over.clear()
        while text := await reader.read(65536):
            self.heard.append(text)
            record = {"userName": "x", "privileged": {"hashedPassword": ["$6$word"]}}
            for goes_on in (True, False):
                told = {"parameters": {"record": record}, "continues": goes_on}
                writer.write(json.dumps(told).encode() + b"\0")
        writer.close()
        await writer.wait_closed()
        self._asking -= 1
        if not self._asking:
            self.over.set()


@pytest.mark.asyncio
async def test_records_of_users_come_without_their_passwords(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operator_sre.processes.confinement.relays._USERS", f"{tmp_path}/userdb/")
    (tmp_path / "userdb").mkdir()
    path, users = str(tmp_path / "userdb" / "io.systemd.Multiplexer"), Users()
    relays = Relays(tmp_path / "relays", told.append)
    async with await asyncio.start_unix_server(users.serve, path):
        led = await relays.lead(path)
        assert led is not None
        reader, writer = await asyncio.open_unix_connection(led)
        question = '{"method":"io.systemd.UserDatabase.GetUserRecord","parameters":{"uid":0}}'
        writer.write(question.encode() + b"\0")
        async with asyncio.timeout(10):
            records = [await reader.readuntil(b"\0") for _ in range(2)]
        assert all(b"userName" in each and b"$6$" not in each for each in records)
        writer.close()
        await writer.wait_closed()
        known = users.heard.copy()
        for change in ("io.systemd.Manager.Reboot", "io.systemd.service.SetLogLevel"):
            doubled = f'{{"method":"io.systemd.UserDatabase.GetUserRecord","method":"{change}"}}'
            reader, writer = await asyncio.open_unix_connection(led)
            writer.write(doubled.encode() + b"\0")
            assert await _read_to_end(reader) == b""
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(10):
            await users.over.wait()
        assert users.heard == known
    relays.close()
    assert told == [
        f"call over {path}: io.systemd.Manager.Reboot",
        f"call over {path}: io.systemd.service.SetLogLevel",
    ]
