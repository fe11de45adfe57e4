"""TCP probes against real listeners."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from tests.contract.servers import closes, hangs, says, serving, unused_port
from tests.subjects.declarative.trying import Tried, described

pytestmark = pytest.mark.asyncio


def listener(folder: Path, port: int, probe: str = "{}", *, timeout_s: float = 3.0) -> Tried:
    text = f"""\
name: a
targets: {{t: {{kind: k, port: {port}}}}}
probes: {{port: {{tcp: {probe}}}}}
invariants: {{i: {{holds: port.ok}}}}
"""
    return described(folder, text, timeout_s=timeout_s)


async def test_who_accepts_is_up_and_who_refuses_is_not(tmp_path: Path) -> None:
    async with serving(hangs) as port:
        assert await listener(tmp_path, port).health() is Health.HEALTHY
    with unused_port() as dead:
        seen = await listener(tmp_path, dead).seen()
        assert seen.readings["port.up"] is False
        assert seen.readings["port.error"] == f"127.0.0.1:{dead}: connection refused"


async def test_what_is_said_has_to_match(tmp_path: Path) -> None:
    probe = '{send: "HELLO\\\\r\\\\n", expect: "^220 (ready|steady)"}'
    async with serving(says(b"220 ready\r\n")) as port:
        readings = (await listener(tmp_path, port, probe).seen()).readings
    assert readings["port.matched"] is True
    assert readings["port.answer"] == "220 ready\r\n"
    async with serving(says(b"500 gone\r\n")) as port:
        readings = (await listener(tmp_path, port, probe).seen()).readings
    assert readings["port.up"] is True
    assert readings["port.ok"] is False
    assert "500 gone" in str(readings["port.error"])


async def test_who_says_nothing_is_waited_for_only_so_long(tmp_path: Path) -> None:
    probe = '{expect: "^220"}'
    async with serving(hangs) as port:
        readings = (await listener(tmp_path, port, probe, timeout_s=0.3).seen()).readings
    assert readings["port.up"] is False
    assert "in time" in str(readings["port.error"])
    async with serving(closes) as port:
        readings = (await listener(tmp_path, port, probe).seen()).readings
    assert readings["port.ok"] is False
