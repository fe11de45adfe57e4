"""A connection to a server is bounded, and every way in which it fails means the right thing."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Seen, Trouble
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ConfigError, MissingExtraError
from operator_protocols.kit.access import addresses_of
from operator_protocols.ports import SubjectSettings
from operator_sre.app.secret_store import read_secret
from operator_sre.clock import SystemClock
from operator_sre.monitor import findings_of
from operator_sre.subjects.postgres.rig import CANARY
from operator_sre.subjects.postgres.sections import OF_OTHERS
from operator_sre.subjects.postgres.session import (
    Login,
    Refusal,
    RefusedError,
    Session,
    connection_words,
    driver,
    open_session,
)
from operator_sre.subjects.postgres.subject import CLIENT, SERVER, Postgres
from tests.contract.servers import serving, unused_port
from tests.subjects.certificates import certificate
from tests.subjects.postgres.watching import QUICK, Watch

pytestmark = pytest.mark.asyncio

TIMEOUT_S = 2.0
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _refusing(code: str, message: str) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        fields = f"SFATAL\0C{code}\0M{message}\0\0".encode()
        writer.write(b"E" + struct.pack("!I", len(fields) + 4) + fields)
        await writer.drain()

    return answer


async def _garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1024)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 1000)
    await writer.drain()


async def _silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _mute_after_login(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Lets everybody in, and never answers a statement."""
    await reader.read(1024)
    version = b"server_version\x0018.1\x00"
    writer.write(b"R" + struct.pack("!II", 8, 0))
    writer.write(b"S" + struct.pack("!I", len(version) + 4) + version)
    writer.write(b"K" + struct.pack("!III", 12, 5, 6))
    writer.write(b"Z" + struct.pack("!I", 5) + b"I")
    await writer.drain()
    await asyncio.Event().wait()


async def _refusal(port: int | None, *, timeout_s: float = 30.0, **more: object) -> RefusedError:
    target = Target("a", SERVER, port=port, **more)  # type: ignore[arg-type]
    with pytest.raises(RefusedError) as caught:
        async with open_session(target, Login("u", "s3cret"), timeout_s=timeout_s):
            pass
    assert "s3cret" not in caught.value.sentence
    return caught.value


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("53300", "lo siento, ya hay demasiados clientes", Refusal.FULL),
        ("53300", "sorry, too many clients already", Refusal.FULL),
        ("53300", 'too many connections for role "app"', Refusal.DENIED),
        ("57P03", "das Datenbanksystem startet", Refusal.NOT_NOW),
        ("28P01", "authentification par mot de passe", Refusal.DENIED),
        ("28000", "no pg_hba.conf entry", Refusal.DENIED),
        ("3D000", 'database "x" does not exist', Refusal.DENIED),
        ("53200", "out of memory", Refusal.GONE),
    ],
)
async def test_a_refusal_means_what_its_code_says_in_every_language(
    code: str, message: str, kind: Refusal
) -> None:
    async with serving(_refusing(code, message)) as port:
        assert (await _refusal(port)).kind is kind


async def test_whoever_is_not_there_is_gone() -> None:
    with unused_port() as dead:
        refused = await _refusal(dead)
        assert (refused.kind, "refused" in refused.sentence) == (Refusal.GONE, True)
    assert (await _refusal(None)).kind is Refusal.GONE
    for answer in (_garbage, _silence):
        async with serving(answer) as port:
            assert (await _refusal(port, timeout_s=TIMEOUT_S)).kind is Refusal.GONE


async def test_a_server_that_falls_silent_delays_nobody() -> None:
    async with serving(_mute_after_login) as port:
        targets = (Target("a", SERVER, port=port), Target("b", CLIENT))
        settings = SubjectSettings("pg", lambda: targets, SystemClock(), 0.5, {})
        seen = await Postgres(settings).observe()
    assert seen.of("a").readings["up"] is False
    assert "in time" in str(seen.of("a").readings["error"])
    assert seen.of("b").problem


async def test_the_next_address_is_tried_when_the_first_is_dead(watch: Watch) -> None:
    alive = watch.target("primary")
    with unused_port() as dead:
        moved = Target(
            "a",
            SERVER,
            port=dead,
            endpoints=("nonsense", f"127.0.0.1:{alive.port}"),
            data_dir=alive.data_dir,
        )
        assert addresses_of(moved) == [("127.0.0.1", dead), ("127.0.0.1", alive.port)]
        settings = SubjectSettings(
            "pg", lambda: (moved,), SystemClock(), 5.0, QUICK, secret=read_secret
        )
        seen = await Postgres(settings).observe()
    assert seen.of("a").readings["role"] == "primary"


async def test_what_a_server_says_counts_for_more_than_silence_elsewhere() -> None:
    async with serving(_refusing("53300", "full")) as full:
        with unused_port() as dead:
            refused = await _refusal(full, endpoints=(f"127.0.0.1:{dead}",))
    assert refused.kind is Refusal.FULL


@asynccontextmanager
async def _secured(port: int, own: Path) -> AsyncIterator[int]:
    """A door with TLS before a server whose build has none: its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(8) == struct.pack("!II", 8, 80877103)
        writer.write(b"S")
        with contextlib.suppress(OSError):  # whoever does not trust us goes away
            await writer.start_tls(context)
            inside, out = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pass_on(reader, out), pass_on(inside, writer))

    async with serving(answer) as door:
        yield door


async def test_who_a_server_says_that_it_is_is_checked(watch: Watch, tmp_path: Path) -> None:
    primary = watch.target("primary")
    good = certificate(tmp_path, name="127.0.0.1", days=40)
    stranger = certificate(tmp_path, name="127.0.0.1", days=41)
    other = certificate(tmp_path, name="elsewhere.test", days=40)
    assert primary.port is not None

    async def seen_by(port: int, ca_file: Path) -> Seen:
        there = replace(primary, port=port, access=Access(tls=True, ca_file=str(ca_file)))
        settings = SubjectSettings(
            "pg", lambda: (there,), SystemClock(), 5.0, QUICK, secret=read_secret
        )
        return (await Postgres(settings).observe()).of("primary")

    async with _secured(primary.port, good) as door:
        assert (await seen_by(door, good)).readings["role"] == "primary"
        refused = await seen_by(door, stranger)
        assert "certificate" in f"{refused.problem} {refused.readings.get('error')}"
    async with _secured(primary.port, other) as door:
        refused = await seen_by(door, other)
        assert refused.readings.get("role") is None
    plain = await seen_by(primary.port, good)
    assert plain.readings.get("role") is None, "without TLS nothing is said"


async def test_a_wrong_password_is_not_a_dead_server(watch: Watch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    access = Access(user="operator", password_file=str(secret))
    target = Target("a", SERVER, port=watch.target("primary").port, access=access)
    settings = SubjectSettings("pg", lambda: (target,), SystemClock(), 5.0, {}, secret=read_secret)
    subject = Postgres(settings)
    seen = await subject.observe()
    assert "login rejected" in seen.of("a").problem
    assert "hunter2" not in repr(seen)
    told = [one for each in subject.invariants for one in each.check(seen)]
    assert {one.health for one in told} == {Health.UNKNOWN}


async def test_a_role_that_may_little_sees_little_and_says_so(watch: Watch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pw\n")
    async with watch.owner("primary") as owner:
        await owner.do("CREATE ROLE guest LOGIN PASSWORD 'pw'")
    try:
        access = Access(user="guest", password_file=str(secret))
        target = Target("a", SERVER, port=watch.target("primary").port, access=access)
        settings = SubjectSettings(
            "pg", lambda: (target,), SystemClock(), 5.0, {}, secret=read_secret
        )
        subject = Postgres(settings)
        seen = await subject.observe()
        readings = seen.of("a").readings
        assert (readings["up"], readings["role"]) == (True, "primary")
        assert "pg_file_settings" in str(readings["blind_files"])
        found = {
            one.invariant: one.health for each in subject.invariants for one in each.check(seen)
        }
        assert found["server_down"] is Health.HEALTHY
        assert found["bad_configuration"] is Health.UNKNOWN
        for name in ("idle_in_transaction", "locks_waiting", "connections_near_limit"):
            assert found[name] is Health.UNKNOWN
        assert all(f"blind_{name}" in readings for name in OF_OTHERS)
        async with watch.hurt("connections_exhausted", "primary"):
            full = await Postgres(settings).observe()
            assert full.of("a").readings["exhausted"] is True
            assert full.of("a").readings["up"] is True
    finally:
        async with watch.owner("primary") as owner:
            await owner.do("DROP ROLE guest")
    await watch.healthy()


async def test_whoever_looks_cannot_write(watch: Watch) -> None:
    target = watch.target("primary")
    from operator_sre.subjects.postgres.session import login_of

    login = login_of(watch.settings, target)
    assert login.user == "operator"
    async with open_session(target, login, timeout_s=5.0) as session:
        assert isinstance(session, Session)
        assert await session.ask("SHOW application_name") == "operator"
        assert await session.ask("SHOW statement_timeout") == "5s"
        with pytest.raises(driver().Error):
            await session.do("UPDATE accounts SET balance = 0")
        with pytest.raises(driver().Error):
            await session.do("CREATE TEMP TABLE x (y int)")


async def test_encryption_is_asked_for_by_name() -> None:
    access = Access(
        tls=True, ca_file="/ca", certificate_file="/c", key_file="/k", server_name="db.example"
    )
    words = await connection_words("127.0.0.1", 5432, Login("u", "p", "d", access), 3.0)
    assert words["sslmode"] == "verify-full"
    assert (words["sslrootcert"], words["sslcert"], words["sslkey"]) == ("/ca", "/c", "/k")
    assert (words["host"], words["hostaddr"]) == ("db.example", "127.0.0.1")
    plain = await connection_words("h", 1, Login("u"), 3.0)
    assert plain["sslmode"] == "disable"
    assert "password" not in plain


async def test_without_the_driver_it_is_said_which_extra_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match="postgres"):
        driver()
    settings = SubjectSettings("pg", lambda: (Target("a", SERVER, port=1),), SystemClock(), 1.0, {})
    seen = await Postgres(settings).observe()
    assert "extra 'postgres'" in seen.of("a").problem


async def test_the_canary_writes_only_where_it_was_configured(watch: Watch) -> None:
    async def beat() -> int:
        async with watch.owner("primary") as owner:
            return int(await owner.ask(f"SELECT sum(beat) FROM {CANARY}") or 0)  # noqa: S608

    before = await beat()
    seen, _ = await watch.look()
    assert await beat() == before + 1
    assert seen.of("primary").readings["client_view"] == "reads and writes checked"
    assert "client_view" not in seen.of("replica").readings
    quiet = Watch(watch.rig, {name: value for name, value in QUICK.items() if name != "canary"})
    seen, found = await quiet.look()
    assert await beat() == before + 1
    assert seen.of("primary").readings["client_view"] == "reads checked, writes not checked"
    assert found["writes_rejected", "primary"].health is Health.HEALTHY  # a note, not UNKNOWN
    with pytest.raises(ConfigError, match="canary"):
        Watch(watch.rig, {"canary": "t; DROP TABLE x"})


async def test_rejected_writes_and_a_missing_grant_are_found(watch: Watch) -> None:
    async with watch.owner("primary") as owner:
        await owner.do("ALTER DATABASE postgres SET default_transaction_read_only = on")
        try:
            _, finding = await watch.broken("writes_rejected", "primary")
            assert finding.detail == "all writes rejected (default_transaction_read_only = on)"
        finally:
            await owner.do("SET default_transaction_read_only = off")
            await owner.do("ALTER DATABASE postgres RESET default_transaction_read_only")
        await watch.healthy()
        await owner.do(f"ALTER TABLE {CANARY} ADD CONSTRAINT stuck CHECK (beat < 0) NOT VALID")
        try:
            _, finding = await watch.broken("writes_rejected", "primary")
            assert "violates check constraint" in finding.detail
        finally:
            await owner.do(f"ALTER TABLE {CANARY} DROP CONSTRAINT stuck")
        await owner.do(f"REVOKE UPDATE ON {CANARY} FROM operator")
        try:
            seen, found = await watch.look()
            assert found["writes_rejected", "primary"].health is Health.UNKNOWN
            blind = next(each for each in findings_of((), seen) if each.health is Health.BROKEN)
            assert (blind.invariant, blind.target) == ("observable", "primary")
            assert "permission denied" in blind.detail
        finally:
            await owner.do(f"GRANT UPDATE ON {CANARY} TO operator")
    await watch.healthy()


async def test_logins_that_clients_fail_at_are_found_and_ours_are_not(watch: Watch) -> None:
    async def knock(user: str) -> None:
        for _ in range(6):
            with pytest.raises(RefusedError):
                async with open_session(
                    watch.target("primary"), Login(user, "wrong"), timeout_s=5.0
                ):
                    pass

    await knock("operator")
    _, found = await watch.look()
    assert found["client_errors", "primary"].health is Health.HEALTHY
    await knock("shop")
    seen, finding = await watch.broken("client_errors", "primary")
    assert "logins rejected" in finding.detail
    assert 'user "shop"' in finding.detail
    assert finding.trouble is Trouble.CREDENTIAL
    assert seen.of("primary").readings["client_errors_kind"] == "login"


async def test_a_replica_that_follows_no_server_is_told_from_one_that_cannot(watch: Watch) -> None:
    async with watch.owner("replica") as owner:
        await owner.do("ALTER SYSTEM SET primary_conninfo = ''")
        await owner.do("SELECT pg_reload_conf()")
        try:
            seen, _ = await watch.broken("replica_detached", "replica")
            assert seen.of("replica").readings["follows_upstream"] is False
        finally:
            await owner.do("ALTER SYSTEM RESET primary_conninfo")
            await owner.do("SELECT pg_reload_conf()")
    await watch.healthy()
    assert (await watch.look())[0].of("replica").readings["follows_upstream"] is True
