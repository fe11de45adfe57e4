"""What every listening face does alike: a taken place, TLS, names, an end that is waited for."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from operator_protocols.domain.entry import Kind
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.listeners import Listener, exposure_of
from operator_sre.app.tokens import Refusals
from operator_sre.faces.servers.admission import (
    STRANGER_BURST,
    STRANGER_PER_S,
    UNKNOWN_HOST,
    BodyError,
    has_secret,
    is_ours,
    names_of,
    read_bounded,
    source_of,
)
from operator_sre.faces.servers.server import (
    address_of,
    bind_socket,
    bounded_server,
    serve_home,
    work,
)
from tests.app.home import SUBJECTS, opened

HERE = Listener("127.0.0.1", 0)


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_place_that_is_taken_is_told_with_the_way_out() -> None:
    with bind_socket(HERE) as place:
        host, port = place.getsockname()
        assert address_of(place) == f"{host}:{port}"
        with pytest.raises(OperatorError, match="in use") as caught:
            bind_socket(Listener(host, port), options="--listen")
    assert "--listen" in caught.value.next_step
    if socket.has_ipv6:
        with bind_socket(Listener("[::1]", 0)) as place:
            assert address_of(place).startswith("[::1]:")


def test_a_certificate_that_is_none_is_told_before_anything_listens(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    listener = Listener("127.0.0.1", 0, nonsense, nonsense)
    assert (listener.scheme, HERE.scheme) == ("https", "http")
    with pytest.raises(UsageError, match="cannot be used"):
        bounded_server(_answer, listener, connections_max=1)


def test_an_address_is_ours_and_a_name_only_when_we_were_told() -> None:
    names = names_of(["Ops.Example"])
    for place in ("localhost", "ops.example:80", "OPS.EXAMPLE.", "10.0.0.1:1", "[::1]:1"):
        assert is_ours(place, names), place
    for place in ("", "evil.example", "ops.example.evil", "[::1", "127.0.0.1.evil:80"):
        assert not is_ours(place, names), place
    assert STRANGER_PER_S < STRANGER_BURST


def test_a_yes_to_one_face_opens_no_other() -> None:
    listener = Listener("10.0.0.1", 1, insecure=True)
    api, minds = exposure_of(listener), exposure_of(listener, "the MCP server")
    assert api is not None
    assert minds is not None
    assert api.change != minds.change


@pytest.mark.asyncio
async def test_it_serves_until_what_is_beside_it_ends_and_tells_why() -> None:
    stop = asyncio.Event()

    async def beside() -> None:
        await stop.wait()
        raise OperatorError("It broke.")

    heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with bind_socket(HERE) as place:
        server = bounded_server(_answer, HERE, connections_max=5)
        working = asyncio.ensure_future(
            work(server, place, beside(), ready=lambda: heard.set_result(None))
        )
        await asyncio.wait_for(heard, 30)
        async with httpx2.AsyncClient(timeout=30) as client:
            assert (await client.get(f"http://{address_of(place)}/")).status_code == 204
        assert not working.done()
        stop.set()
        with pytest.raises(OperatorError, match="It broke"):
            await asyncio.wait_for(working, 30)
    assert server.should_exit


@pytest.mark.parametrize(
    ("path", "query", "found", "without_names"),
    [
        ("/v1/tickets", b"limit=5", False, False),
        ("/v1/tickets", b"access_token=x", True, False),
        ("/v1/tickets", b"q=operator_abc", True, False),
        ("/v1/tickets", b"q=operator_" + b"x" * 20, True, True),
        ("/v1/tickets", b"q=operator%5f" + b"x" * 20, True, True),
        ("/v1/tokens/operator_" + "x" * 20, b"", True, True),
        ("/subjects/operator_db", b"", False, False),
    ],
)
def test_a_secret_in_a_url_is_found(
    path: str, query: bytes, *, found: bool, without_names: bool
) -> None:
    scope = {"path": path, "query_string": query}
    assert has_secret(scope) is found
    assert has_secret(scope, by_name=False) is without_names


def test_a_refused_host_says_what_to_do_and_every_request_has_a_source() -> None:
    assert "--host" in UNKNOWN_HOST
    assert source_of({"client": ("10.0.0.1", 5)}) == "10.0.0.1"
    assert source_of({}) == "somebody"


@pytest.mark.asyncio
async def test_a_body_is_bounded_in_size_and_time_whether_its_length_is_declared_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def request_of(*parts: bytes, length: str = "", ends: bool = True) -> Request:
        messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        messages += [{"type": "http.request", "body": b""}] if ends else []

        async def receive() -> Any:
            return messages.pop(0) if messages else await asyncio.Event().wait()

        headers = [(b"content-length", length.encode())] if length else []
        return Request({"type": "http", "headers": headers}, receive)

    assert await read_bounded(request_of(b"ab", b"cd"), bytes_max=4) == b"abcd"
    for request in (request_of(b"ab", b"cde"), request_of(b"", length="5", ends=False)):
        with pytest.raises(BodyError) as large:
            await read_bounded(request, bytes_max=4)
        assert large.value.status == 413
    monkeypatch.setattr("operator_sre.faces.servers.admission.BODY_S_MAX", 0.01)
    with pytest.raises(BodyError) as slow:
        await read_bounded(request_of(b"ab", ends=False), bytes_max=4)
    assert slow.value.status == 408


@pytest.mark.asyncio
async def test_a_home_records_its_address_and_the_refusals_that_were_counted(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, SUBJECTS) as app, bind_socket(HERE) as place:
        refusals, urls = Refusals(app), asyncio.Queue[str]()
        server = bounded_server(_answer, HERE, connections_max=4)
        serving = asyncio.ensure_future(
            serve_home(
                app,
                HERE,
                place,
                server,
                refusals=(refusals,),
                ready=urls.put_nowait,
                path="/there",
            )
        )
        address = address_of(place)
        assert await urls.get() == f"http://{address}/there"
        for _ in range(3):
            await refusals.record_refusal("10.0.0.9", "role")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        entries = app.store.entries.after(0, limit=100)
        opening = [entry.payload for entry in entries if entry.kind is Kind.LISTENER_OPENED]
        assert [payload["address"] for payload in opening] == [address]
        counted = [entry.payload["count"] for entry in entries if entry.kind is Kind.ACCESS_REFUSED]
        assert counted == [1, 2]
