"""The roles of the documentation suffice on a real server, and a missing right is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.health import Health
from operator_protocols.domain.target import Access, Target
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.plugins import find_plugin
from operator_sre.subjects.postgres.rights import missing_right, quote_role
from operator_sre.subjects.postgres.subject import SERVER, Postgres
from tests.contract.postgres import Server, shared_server

PAGE = Path(__file__).parents[3] / "docs" / "subjects" / "postgres.md"
DOCUMENTED = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.S | re.M)
ROLES = ("operator", "operator_acting", "guest", "shop")
_GRANT = re.compile(r"[Aa]s a superuser: (.+)$")


@pytest.fixture
def server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A real server without any of our roles, and a table that belongs to a shop."""
    found = shared_server(pytestconfig)
    _forget(found)
    found.ask("CREATE ROLE shop LOGIN")
    found.ask("CREATE TABLE orders (id int, note text)")
    found.ask("ALTER TABLE orders OWNER TO shop")
    yield found
    _forget(found)


def _forget(server: Server) -> None:
    server.ask("DROP TABLE IF EXISTS orders")
    for (name,) in server.ask("SELECT rolname FROM pg_roles"):
        if name in ROLES:
            server.ask(f"DROP OWNED BY {name}")
            server.ask(f"DROP ROLE {name}")


def _settings(server: Server, user: str) -> SubjectSettings:
    access = Access(user=user)
    target = Target("a", SERVER, host=str(server.folder), port=5432, access=access)
    return SubjectSettings("pg", lambda: (target,), SystemClock(), 3.0, {})


async def _unknown(server: Server, user: str) -> dict[str, str]:
    """Every invariant that cannot be checked by this role, and why."""
    subject = Postgres(_settings(server, user))
    seen = await subject.observe()
    assert seen.of("a").readings.get("up") is True, seen
    found = [finding for each in subject.invariants for finding in each.check(seen)]
    return {each.invariant: each.detail for each in found if each.health is Health.UNKNOWN}


async def _call(server: Server, user: str, tool: str, **arguments: Argument) -> Result:
    make = find_plugin("postgres").tools
    assert make is not None
    tools = make(_settings(server, user))
    chosen = next(each for each in tools if each.spec.name == tool)
    return await chosen.call({"target": "a", **arguments}, Job("test"))


def _named_grant(text: str) -> str:
    found = _GRANT.search(text)
    assert found is not None, text
    return found[1]


@pytest.mark.asyncio
async def test_the_documented_roles_check_and_act_with_nothing_missing(server: Server) -> None:
    for block in DOCUMENTED:
        server.ask(block)
    assert await _unknown(server, "operator") == {}
    superusers = server.ask("SELECT rolname FROM pg_roles WHERE rolsuper AND rolname ~ 'operator'")
    assert superusers == []
    for name in ("operator", "operator_acting"):
        # A role that checks or acts reads no rows.
        with (
            psycopg.connect(server.url("postgres", user=name)) as session,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            session.execute("SELECT * FROM orders")
    with psycopg.connect(server.url("postgres", user="shop"), autocommit=True) as shop:
        pid = shop.info.backend_pid
        calls: tuple[tuple[str, dict[str, Argument]], ...] = (
            ("reload", {}),
            ("terminate_backend", {"pid": pid}),
        )
        for tool, arguments in calls:
            result = await _call(server, "operator_acting", tool, **arguments)
            assert result.ok, f"{tool}: {result.stderr}"


@pytest.mark.asyncio
async def test_a_missing_right_is_named_in_the_finding_and_the_named_grant_cures_it(
    server: Server,
) -> None:
    server.ask("CREATE ROLE guest LOGIN")
    unknown = await _unknown(server, "guest")
    assert {"bad_configuration", "connections_near_limit", "locks_waiting"} <= set(unknown)
    for detail in unknown.values():
        server.ask(_named_grant(detail))
    assert await _unknown(server, "guest") == {}


@pytest.mark.asyncio
async def test_a_failed_action_names_the_missing_right_and_the_named_grant_cures_it(
    server: Server,
) -> None:
    server.ask("CREATE ROLE guest LOGIN")
    with psycopg.connect(server.url("postgres", user="shop"), autocommit=True) as shop:
        shop.execute("INSERT INTO orders VALUES (1, 'a')")
        pid = shop.info.backend_pid
        server.ask("SELECT pg_stat_force_next_flush()")
        calls: tuple[tuple[str, dict[str, Argument]], ...] = (
            ("reload", {}),
            ("terminate_backend", {"pid": pid}),
            ("vacuum_table", {"table": "public.orders"}),
            ("create_index", {"table": "public.orders", "column": "id"}),
        )
        for tool, arguments in calls:
            grants: list[str] = []
            result = await _call(server, "guest", tool, **arguments)
            while not result.ok and len(grants) < 3:
                assert result.category is FailureCategory.PERMISSION, result
                grants.append(_named_grant(result.stderr))
                server.ask(grants[-1])
                result = await _call(server, "guest", tool, **arguments)
            assert result.ok, f"{tool}: {result.stderr}"
            assert grants, f"{tool} needed no right, so this test proves nothing"


def test_a_role_is_written_as_sql_wants_it() -> None:
    assert [quote_role(name) for name in ("operator", "Ops", 'a"b', "a-b")] == [
        "operator",
        '"Ops"',
        '"a""b"',
        '"a-b"',
    ]
    assert missing_right("sizes", "a-b").endswith('GRANT pg_monitor TO "a-b"')
