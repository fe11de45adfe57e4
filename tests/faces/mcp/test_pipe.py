"""`serve_pipe`: only messages on stdout, nonsense ends nothing, the end of the pipe ends us."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from operator_sre.faces.mcp import listener
from operator_sre.faces.mcp.listener import Lines
from tests.faces.mcp.world import Place
from tests.processes.waiting import eventually

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
NONSENSE = (
    b"\n",
    b"hello\n",
    b"{\n",
    b"[]\n",
    b"\xff\xfe\x00\n",
    b'{"jsonrpc": "2.0"}\n',
    b'{"jsonrpc": "2.0", "id": 7, "method": "nope"}\n',
    b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}\n',
    b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": 3}}\n',
    b'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": []}\n',
    b"[" * 100_000 + b"\n",
)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _call(number: int, name: str, **given: Any) -> bytes:
    params = {"name": name, "arguments": given}
    return _line({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def test_nonsense_ends_nothing_and_the_end_of_the_pipe_ends_us(place: Place) -> None:
    long = b'{"x": "' + b"y" * (listener.LINE_BYTES_MAX + 10) + b'"}\n'
    said = [*NONSENSE, long, _line(HELLO), _line(READY), *NONSENSE, long]
    said += [_call(50, "show_health"), _call(51, "list_tickets", limit="many")]
    with place.started("--log-level", "debug") as server:
        server.say(b"".join(said))
        told: dict[Any, Any] = {}
        while not {50, 51} <= set(told):
            message = json.loads(server.hear())
            assert message["jsonrpc"] == "2.0"
            told[message.get("id")] = message
        code, rest = server.end()
    assert told[1]["result"]["serverInfo"]["name"] == "operator"
    assert told[50]["result"]["structuredContent"]["schema_version"] == "1.0.0"
    assert told[51]["result"]["isError"] is True
    assert told[7]["error"]["code"] == -32601
    assert rest == b"", "nothing but messages is said on stdout"
    assert code == 0, server.errors
    assert "Traceback" not in server.errors


def test_a_signal_ends_us_while_the_pipe_is_open(place: Place) -> None:
    with place.started() as server:
        server.say(_line(HELLO))
        assert json.loads(server.hear())["id"] == 1
        assert server.end(signal.SIGTERM) == (128 + signal.SIGTERM, b"")
    assert "Traceback" not in server.errors


@pytest.mark.asyncio
async def test_lines_are_bounded_and_end_with_the_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "LINE_BYTES_MAX", 10)
    reading, writing = os.pipe()
    found: list[str] = []

    async def read() -> None:
        async for line in Lines(reading):
            found.append(line)

    task = asyncio.ensure_future(read())
    os.write(writing, b"short\n" + b"x" * 100 + b"\nlast\n" + b"y" * 11)
    await eventually(lambda: len(found) == 3)
    os.write(writing, b"yyy\nmore")
    await eventually(lambda: len(found) == 4)
    assert found == ["short", "x" * 100, "last", listener.TOO_LONG]
    os.close(writing)
    await asyncio.wait_for(task, 30)
    os.close(reading)
    assert found[4:] == ["more"]
