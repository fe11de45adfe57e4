"""Whole looks: several at once, many targets, and servers that answer anything at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.promises import broken_promises
from operator_sre.plugins import find_plugin
from tests.contract.servers import Crowd, hangs, http, says, serving, until, unused_port
from tests.processes.waiting import eventually
from tests.subjects.declarative.trying import described


@pytest.mark.asyncio
async def test_two_looks_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with serving(http(200, {})) as quick, serving(hangs) as silent:
        text = f"""\
name: a
targets:
  quick: {{kind: k, port: {quick}}}
  silent: {{kind: k, port: {silent}}}
probes: {{page: {{http: {{}}}}}}
invariants: {{i: {{holds: page.ok}}}}
"""
        tried = described(tmp_path, text, timeout_s=0.5)
        looks = await asyncio.gather(*(tried.look() for _ in range(4)))
    for look in looks:
        assert look.of("quick").readings["page.ok"] is True
        assert "in time" in str(look.of("silent").readings["page.error"])


@pytest.mark.asyncio
async def test_many_targets_are_looked_at_together(tmp_path: Path) -> None:
    crowd, together = Crowd(), asyncio.Event()
    behave = until(together, crowd.behave)
    async with serving(http(200, {})) as good, serving(behave) as silent:
        with unused_port() as dead:
            ports = [good, silent, dead]
            targets = "".join(f"  t{n}: {{kind: k, port: {ports[n % 3]}}}\n" for n in range(240))
            text = f"name: a\ntargets:\n{targets}probes: {{page: {{http: {{}}}}}}\n"
            text += "invariants: {i: {holds: page.up}}\n"
            tried = described(tmp_path, text, timeout_s=60.0)
            looking = asyncio.create_task(tried.look())
            # Those that say nothing are waited for together; then they hang up.
            await eventually(lambda: crowd.most == 80)
            together.set()
            observation = await looking
    (invariant,) = tried.subject.invariants
    found = [finding.health for finding in invariant.check(observation)]
    assert (found.count(Health.HEALTHY), found.count(Health.BROKEN)) == (80, 160)


ALL = """\
name: a
targets: {t: {kind: k, port: PORT}}
probes:
  page: {http: {expect: {json: {a: 1}, body: 'x=(?P<x>.*)'}, read: {v: 'a[0].b', w: a}}}
  cache: {redis: {info: {c: used_memory}, length: {l: key}}}
  numbers: {prometheus: {read: {m: m_total, r: {metric: m_total, rate: true}}}}
  queried: {prometheus: {server: "http://127.0.0.1:PORT", read: {q: up}}}
  port: {tcp: {send: x, expect: 'y'}}
invariants: {i: {holds: "page.ok && cache.ok && numbers.ok && queried.ok && port.ok"}}
"""
_PIECES = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 99 \r\n", b"content-length: 5\r\n", b"\r\n", b"+PONG"),
        *(b"content-length: 99999999999999\r\n", b"transfer-encoding: chunked\r\n", b"ff\r\n"),
        *(b"content-encoding: gzip\r\n", b"$-1\r\n", b"$5\r\nhello\r\n", b":1\r\n", b"-ERR x\r\n"),
        *(b'{"a": [{"b": 1e999}]}', b'{"a": ' + b"9" * 500 + b"}", b"[" * 3000, b"x=\xff\xfe\r\n"),
        *(b'm_total{a="b"} NaN\n', b"m_total 1e999\n", b"m_total{ 1\n", b"m_total -Inf\n", b"\0"),
        *(b'{"data": {"resultType": "vector", "result": [{"value": [1, "x"]}]}}', b"used_memory:"),
        *(b"location: http://127.0.0.1:1/\r\n", b"HTTP/1.1 302 X\r\n", b"set-cookie: a=b\r\n"),
    ]
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_PIECES, max_size=6).map(b"".join))
def test_whatever_a_server_answers_is_seen_and_never_healthy(tmp_path: Path, said: bytes) -> None:
    async def looked() -> Observation:
        async with serving(says(said)) as port:
            tried = described(tmp_path, ALL.replace("PORT", str(port)), timeout_s=1.0)
            observation = await tried.look()
            (invariant,) = tried.subject.invariants
            (finding,) = invariant.check(observation)
            assert finding.health is not Health.HEALTHY
            return observation

    (seen,) = asyncio.run(looked()).seen
    assert "broke" not in seen.problem, seen


@pytest.mark.asyncio
async def test_a_description_keeps_the_promises_of_every_plugin(tmp_path: Path) -> None:
    text = """\
name: a
probes: {page: {http: {}}}
invariants: {i: {holds: page.ok}}
levers: {restart: {command: ["true"]}, scale: {command: [x, "{n}"], parameters: {n: {}}}}
"""
    options = described(tmp_path, text).options
    assert await broken_promises(find_plugin("declarative"), options=options) == []
    assert await broken_promises(find_plugin("declarative")) == []


@pytest.mark.asyncio
async def test_a_value_that_may_be_missing_is_unknown_where_nothing_answers(tmp_path: Path) -> None:
    text = (
        "name: a\ntargets: {{t: {{kind: k, port: {port}{more}}}}}\n"
        "probes: {{page: {{http: {{read: {{queue: queue}}}}}}}}\n"
        "invariants:\n  short: {{holds: '!has(page.queue) || page.queue < 100'}}\n"
        "  up: {{holds: page.up}}\n"
    )

    async def healths(port: int, more: str = "") -> dict[str, Health]:
        tried = described(tmp_path, text.format(port=port, more=more))
        observation = await tried.look()
        found = [each for one in tried.subject.invariants for each in one.check(observation)]
        return {each.invariant: each.health for each in found}

    for body, health in (
        ({}, Health.HEALTHY),
        ({"queue": 7}, Health.HEALTHY),
        ({"queue": 700}, Health.BROKEN),
    ):
        async with serving(http(200, body)) as port:
            assert await healths(port) == {"short": health, "up": Health.HEALTHY}
    assert await healths(port) == {"short": Health.UNKNOWN, "up": Health.BROKEN}
    # It could not even be asked.
    missing = ", access: {token_file: /nowhere/token}"
    assert await healths(port, missing) == {"short": Health.UNKNOWN, "up": Health.UNKNOWN}
