"""What real failures of servers are called: by messages, values, a pid file and a log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.executor.transports.shells import Remotes, Shells
from operator_sre.executor.transports.ssh import SshSettings
from operator_sre.subjects.declarative.evidence import BOOT_S
from operator_sre.subjects.declarative.symptom import find_symptoms, quote_reason
from tests.contract.servers import hangs, http, serving, unused_port
from tests.executor.transports.sshd import Sshd, serving_ssh
from tests.models.world import DEAD, TAKEN
from tests.subjects.certificates import certificate
from tests.subjects.declarative.diagnosing import diagnose
from tests.subjects.declarative.test_http import _secure, web
from tests.subjects.declarative.trying import Tried, described

pytestmark = pytest.mark.asyncio

MESSAGES = [
    ("1.1.1.1:443: its certificate is not trusted: certificate has expired", "certificate_expired"),
    ("Hostname mismatch, certificate is not valid for 'a'.", "certificate_name_differs"),
    ("its certificate is not trusted: self-signed certificate", "certificate_untrusted"),
    ("db: its host name cannot be resolved", "name_not_resolved"),
    ("the host name 'db' cannot be resolved", "name_not_resolved"),
    ("FATAL: sorry, too many clients already", "connections_used_up"),
    ("it answered ERR max number of clients reached", "connections_used_up"),
    ("(1040, 'Too many connections')", "connections_used_up"),
    ("login rejected: WRONGPASS invalid username-password pair", "login_rejected"),
    ("(1045, \"Access denied for user 'op'@'10.0.0.1' (using password: YES)\")", "login_rejected"),
    ("df did not run there: ssh://op@db-1:22 cannot be reached: timed out", "host_unreachable"),
    ("it took 3121 ms, more than 2000 ms", "slow_answers"),
]


@pytest.mark.parametrize(("message", "cause"), MESSAGES)
async def test_a_message_of_a_server_means_one_cause(message: str, cause: str) -> None:
    shown = find_symptoms({"page.error": message}, "", ())
    assert [name for name, is_shown in shown.items() if is_shown] == [cause]
    assert find_symptoms({}, message, ())[cause]


# What clients of other systems say, as applications put it into their pages and logs.
REASONS = [
    (
        "(2003, \"Can't connect to MySQL server on 'db' ([Errno 24] Too many open files)\")",
        "files_used_up",
        "Too many open files",
    ),
    ("FATAL ERROR: Reached heap limit - JavaScript heap out of memory", "memory_used_up", ""),
    ("java.lang.OutOfMemoryError: Java heap space", "memory_used_up", ""),
    (
        "OperationalError: (2003, \"Can't connect to MySQL server on 'db.invalid'"
        ' ([Errno -2] Name or service not known)")',
        "name_not_resolved",
        "db.invalid",
    ),
    ("dial tcp: lookup cache.internal on 10.0.0.2:53: no such host", "name_not_resolved", "lookup"),
    ("Error: getaddrinfo ENOTFOUND db.internal", "name_not_resolved", "db.internal"),
    ("java.net.UnknownHostException: broker-1", "name_not_resolved", "broker-1"),
    (
        'could not translate host name "pg" to address: Name or service not known',
        "name_not_resolved",
        "",
    ),
    (
        "failed to resolve host 'db.invalid': [Errno -2] Name or service not known",
        "name_not_resolved",
        "",
    ),
    (
        "(1045, &quot;Access denied for user &#x27;shop&#x27;@&#x27;10.0.0.1&#x27; (using password:"
        " YES)&quot;)",
        "credential_refused",
        "Access denied for user 'shop'@'10.0.0.1'",
    ),
    (
        'connection failed: FATAL:  password authentication failed for user \\"shop\\"',
        "credential_refused",
        "shop",
    ),
    (
        "psycopg.errors.InsufficientPrivilege: permission denied for table orders",
        "credential_refused",
        "orders",
    ),
    (
        "redis.exceptions.AuthenticationError: WRONGPASS invalid username-password pair",
        "credential_refused",
        "",
    ),
    (
        "(403) ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN",
        "credential_refused",
        "",
    ),
    (
        "botocore: An error occurred (InvalidAccessKeyId) when calling PutObject",
        "credential_refused",
        "",
    ),
    (
        "(2003, \"Can't connect to MySQL server on '127.0.0.1' ([Errno 111] Connection refused)\")",
        "dependency_down",
        "127.0.0.1",
    ),
    ("connect ECONNREFUSED 127.0.0.1:6379", "dependency_down", "127.0.0.1:6379"),
    (
        'connection to server at "10.0.0.5", port 5432 failed: Connection refused',
        "dependency_down",
        "10.0.0.5",
    ),
    ("dial tcp 10.0.0.5:5432: connect: connection refused", "dependency_down", ""),
    ("(2006, 'MySQL server has gone away')", "dependency_down", ""),
    ("FATAL: sorry, too many clients already", "dependency_rejects", ""),
    ("MISCONF Redis is configured to save RDB snapshots", "dependency_rejects", ""),
    ("cannot execute INSERT in a read-only transaction", "dependency_rejects", ""),
    (
        "(1290, 'The MySQL server is running with the --read-only option so it cannot')",
        "dependency_rejects",
        "",
    ),
    ("OOM command not allowed when used memory > 'maxmemory'.", "dependency_rejects", ""),
    ("READONLY You can't write against a read only replica.", "dependency_rejects", ""),
    (
        "QueuePool limit of size 5 overflow 10 reached, connection timed out",
        "dependency_rejects",
        "",
    ),
    ('relation "orders" does not exist', "schema_missing", "orders"),
    ("(1054, \"Unknown column 'price' in 'field list'\")", "schema_missing", "price"),
    ("sqlite3.OperationalError: no such table: orders", "schema_missing", "orders"),
    ("canceling statement due to statement timeout", "dependency_slow", ""),
    ("requests.exceptions.ReadTimeout: Read timed out. (read timeout=3)", "dependency_slow", ""),
    ("rpc error: code = DeadlineExceeded desc = context deadline exceeded", "dependency_slow", ""),
    (
        "ssl.SSLCertVerificationError: certificate verify failed: unable to get",
        "certificate_rejected",
        "",
    ),
    ("x509: certificate signed by unknown authority", "certificate_rejected", ""),
]


@pytest.mark.parametrize(("text", "cause", "quoted"), REASONS)
async def test_an_application_that_names_why_another_system_fails_it_is_believed(
    tmp_path: Path, text: str, cause: str, quoted: str
) -> None:
    assert quoted in quote_reason(text)
    readings = {"page.status": 500, "page.ok": False}
    for shown in (
        find_symptoms({**readings, "page.reason": quote_reason(text)}, "", ()),
        find_symptoms(readings, "", (), log=f"12:00:01 ERROR Traceback ...\n{text}\n"),
        find_symptoms({**readings, "page.status": 503, "page.reason": text}, "", ()),
    ):
        assert [name for name, is_shown in shown.items() if is_shown] == [cause]
    # What a server logs of its clients is no symptom of its own while it answers them.
    well = find_symptoms({"page.status": 200, "page.ok": True}, "", (), log=text)
    assert not any(well.values())


async def test_a_page_of_an_application_with_a_fault_of_its_own_names_no_other_system() -> None:
    for text in (
        "TypeError: 'NoneType' object has no attribute 'price'",
        "IndexError: list index out of range",
        "panic: runtime error: invalid memory address or nil pointer dereference",
        "<h1>500 Internal Server Error</h1><p>Our host server on duty cannot help.</p>",
        "connected to the server on 'db', 3 rows",
    ):
        assert quote_reason(text) == "", text
        shown = find_symptoms({"page.status": 500, "page.ok": False}, "", (), log=text)
        assert [name for name, is_shown in shown.items() if is_shown] == ["server_errors"]


async def test_only_the_reason_is_kept_of_an_error_page_and_never_the_secret_beside_it(
    tmp_path: Path,
) -> None:
    page = {
        "error": 'postgres://shop:hunter2@db/shop: password authentication failed for user "shop"',
        "token": "hunter2",
    }
    async with serving(http(500, page)) as port:
        tried = web(tmp_path, port)
        seen = await tried.seen()
        found = await diagnose(tried)
    reason = 'password authentication failed for user "shop"'
    assert seen.readings["page.reason"] == reason
    assert seen.readings["page.error"] == f"it answered 500, not 2xx or 3xx: {reason}"
    assert "hunter2" not in str(seen)
    assert (found.cause, found.choice) == ("credential_refused", "escalate")


async def test_the_log_of_an_application_names_the_reason_that_its_page_hides(
    tmp_path: Path,
) -> None:
    log = tmp_path / "app.log"
    log.write_text("ERROR connect ECONNREFUSED 127.0.0.1:6379\n")
    answers = {"status": 200}

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await http(answers["status"], {})(reader, writer)

    async with serving(page) as port:
        tried = web(tmp_path, port, more=f", log: {log}")
        await tried.seen()
        answers["status"] = 500
        readings = (await tried.seen()).readings
        assert readings["cause.server_errors"] is True, "that line is older"
        assert readings["cause.dependency_down"] is False
        with log.open("a") as opened:
            opened.write("ERROR Error: getaddrinfo ENOTFOUND db.internal\n    at Socket (a.js:1)\n")
        readings = (await tried.seen()).readings
    assert readings["cause.name_not_resolved"] is True
    assert readings["cause.server_errors"] is False


async def test_what_a_proxy_passes_on_is_the_trouble_of_the_application_behind_it(
    tmp_path: Path,
) -> None:
    body = {"error": "Error: getaddrinfo ENOTFOUND db.internal"}
    async with serving(http(500, body)) as port:
        text = (
            "name: a\n"
            f"targets: {{edge: {{kind: p, port: {port}, depends_on: [shop]}},"
            f" shop: {{kind: w, port: {port}}}}}\n"
            "probes: {page: {http: }}\ninvariants: {i: {holds: page.ok}}\n"
        )
        tried = described(tmp_path, text)
        observation = await tried.look()
        found = await diagnose(tried)
    shown = {each.target: each.readings["cause.name_not_resolved"] for each in observation.seen}
    assert shown == {"edge": False, "shop": True}
    assert (found.cause, found.target) == ("name_not_resolved", "shop")


async def test_slowness_does_not_explain_a_certificate_of_what_depends_on_it(
    tmp_path: Path,
) -> None:
    expired = certificate(tmp_path, name="shop.test", days=-1)
    text = (
        "name: a\n"
        "targets:\n"
        f"  door: {{kind: tls, port: {{tls}}, depends_on: [shop], access: {{tls: true,"
        f" ca_file: {expired}, server_name: shop.test}}}}\n"
        "  shop: {kind: w, port: {port}}\n"
        "probes: {page: {on: w, http: }, handshake: {on: tls, certificate: {name: shop.test}}}\n"
        "invariants:\n  fast: {on: w, holds: page.latency_ms < 0}\n"
        "  trusted: {on: tls, holds: handshake.ok}\n"
    )
    async with _secure(expired) as tls, serving(http(200, {})) as port:
        text = text.replace("{tls}", str(tls)).replace("{port}", str(port))
        tried = described(tmp_path, text)
        observation = await tried.look()
        found = await diagnose(tried)
        alone = described(tmp_path, text.replace(", depends_on: [shop]", ""))
        beside = await alone.look()
    assert (found.cause, found.target) == ("certificate_expired", "door")
    assert observation.of("shop").readings["cause.slow_answers"] is False
    assert beside.of("shop").readings["cause.slow_answers"] is True


@pytest.mark.parametrize(
    ("status", "cause"), [(500, "server_errors"), (502, "upstream_fails"), (401, "login_rejected")]
)
async def test_a_status_means_a_cause_and_never_a_silence(
    tmp_path: Path, status: int, cause: str
) -> None:
    async with serving(http(status, {})) as port:
        found = await diagnose(web(tmp_path, port))
    assert (found.cause, found.choice) == (cause, "escalate")


async def test_an_expired_certificate_is_no_password_and_a_wrong_name_no_expiry(
    tmp_path: Path,
) -> None:
    expired = certificate(tmp_path, name="shop.test", days=-1)
    good = certificate(tmp_path, name="other.test", days=40)
    access = ", access: {{tls: true, ca_file: {}, server_name: shop.test}}"
    async with _secure(expired) as port:
        found = await diagnose(web(tmp_path, port, more=access.format(expired)))
        assert found.cause == "certificate_expired"
        assert "its certificate has expired" in found.summary
    async with _secure(good) as port:
        found = await diagnose(web(tmp_path, port, more=access.format(good)))
        assert found.cause == "certificate_name_differs"
        found = await diagnose(web(tmp_path, port, more=", access: {tls: true}"))
        assert found.cause == "certificate_untrusted"


async def test_slow_is_measured_and_a_server_that_accepts_is_not_cut_off(tmp_path: Path) -> None:
    async with serving(http(200, {})) as port:
        found = await diagnose(web(tmp_path, port, "{expect: {latency: 0ms}}"))
        assert found.cause == "slow_answers"

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(mute) as port:
        tried = web(tmp_path, port)
        tried.timeout_s = 0.3
        seen = await tried.seen()
        assert seen.readings["page.connected"] is True
        assert "accepts connections" in str(seen.readings["page.error"])
        assert seen.readings["cause.cut_off"] is False
        assert "reachable" not in seen.readings


async def test_a_name_that_nobody_knows_is_the_cause(tmp_path: Path) -> None:
    tried = web(tmp_path, 80, more=", host: no-such-host.invalid")
    assert (await diagnose(tried)).cause == "name_not_resolved"


async def test_the_only_cause_of_an_invariant_is_what_it_shows(tmp_path: Path) -> None:
    text = (
        "name: a\ntargets: {t: {kind: k}}\n"
        "probes: {f: {file: {path: f, matches: '(?P<n>[0-9]+)'}}}\n"
        "invariants: {i: {holds: f.n < 10, causes: [queue_full]}}\n"
    )
    (tmp_path / "f").write_text("12")
    assert (await diagnose(described(tmp_path, text))).cause == "queue_full"


async def test_a_line_of_the_log_counts_if_it_is_newer_than_the_last_good_check(
    tmp_path: Path,
) -> None:
    text = (
        "name: a\ntargets: {t: {kind: k, log: log}}\nprobes: {f: {file: {path: f}}}\n"
        "invariants: {i: {holds: f.exists, causes: [odd]}}\n"
        "causes: {odd: {says: it broke oddly, log: 'odd [0-9]+'}}\n"
    )
    log, file = tmp_path / "log", tmp_path / "f"
    log.write_text("odd 1\n")
    tried = described(tmp_path, text)
    assert (await tried.seen()).readings["cause.odd"] is False, "how old the line is, is not known"
    file.touch()
    await tried.seen()
    file.unlink()
    assert (await tried.seen()).readings["cause.odd"] is False
    with log.open("a") as opened:
        opened.write("odd 2\n")
    assert (await tried.seen()).readings["cause.odd"] is True
    log.write_text("odd")
    assert (await tried.seen()).readings["cause.odd"] is False, "it was rotated"


PID = """\
name: a
targets: {{t: {{kind: k, port: {port}, pid_file: {folder}/pid{more}}}}}
probes:
  port: {{tcp: }}
  file: {{file: {{path: {folder}/pid}}}}
  own: {{process: {{pid_file: {folder}/pid}}}}
invariants: {{i: {{holds: port.up}}}}
levers: {{restart: {{command: [sh, r.sh], risk: low, repairs: [process_dead]}}}}
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as made:
        yield made
        made.kill()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving_ssh(tmp_path_factory.mktemp("sshd")) as one:
        yield one


@pytest_asyncio.fixture(params=["here", "ssh"])
async def placed(
    request: pytest.FixtureRequest, sshd: Sshd, tmp_path: Path
) -> AsyncIterator[Tried]:
    """A target with a pid file, on this machine and on another one, where nothing listens."""
    more = f", runs_at: '{sshd.address}'" if request.param == "ssh" else ""
    tried = described(tmp_path, PID.format(port=9, folder=tmp_path, more=more), timeout_s=10.0)
    programs = Programs(Spool(tmp_path / "spool"))
    settings = SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,))
    remotes = Remotes(programs, Spool(tmp_path / "spool"), ssh=settings)
    shells = Shells(LocalShell(programs), lambda: tried.targets, remotes)
    tried.commands = shells
    yield tried
    await shells.aclose()


async def test_a_pid_file_tells_killed_from_stopped_wherever_the_target_runs(
    placed: Tried, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (tmp_path / "pid").write_text(f"{process.pid}\n")
    readings = (await placed.seen()).readings
    assert (readings["own.alive"], readings["own.pid"]) == (True, process.pid)
    assert (readings["file.exists"], readings["cause.process_dead"]) == (True, False)
    process.kill()
    await asyncio.to_thread(process.wait)
    readings = (await placed.seen()).readings
    assert (readings["own.alive"], readings["cause.process_dead"]) == (False, True)
    found = await diagnose(placed, t=DEAD)
    assert (found.cause, found.choice) == ("process_dead", "restart_node(t)")
    (tmp_path / "pid").unlink()
    has_just_booted = time.clock_gettime(time.CLOCK_BOOTTIME) < BOOT_S
    cause = "not_started" if has_just_booted else "stopped_cleanly"
    found = await diagnose(placed, t=DEAD)
    assert (found.cause, found.choice) == (cause, "escalate")
    readings = (await placed.seen()).readings
    assert readings["cause.stopped_cleanly"] is not readings["cause.not_started"]
    assert readings["cause.process_dead"] is False
    assert readings["file.exists"] is False


async def test_a_host_that_cannot_be_reached_is_no_dead_process(sshd: Sshd, tmp_path: Path) -> None:
    with unused_port() as port:
        place = f"ssh://{sshd.user}@127.0.0.1:{port}"
        text = (
            f"name: a\ntargets: {{box: {{kind: host, runs_at: '{place}'}}}}\n"
            "probes: {disk: {disk: {path: /}}}\n"
            "invariants: {room: {holds: disk.used_percent < 90}}\n"
        )
        tried = described(tmp_path, text, timeout_s=10.0)
        programs = Programs(Spool(tmp_path / "spool"))
        settings = SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,))
        remotes = Remotes(programs, Spool(tmp_path / "spool"), ssh=settings)
        shells = Shells(LocalShell(programs), lambda: tried.targets, remotes)
        tried.commands = shells
        try:
            found = await diagnose(tried)
        finally:
            await shells.aclose()
    assert (found.cause, found.target, found.choice) == ("host_unreachable", "box", "escalate")


async def test_an_invariant_that_could_not_be_checked_shows_no_cause(tmp_path: Path) -> None:
    async with serving(hangs) as port:
        tried = described(
            tmp_path,
            f"name: a\ntargets: {{t: {{kind: k, port: {port}}}}}\n"
            "probes: {it: {redis: {info: {clients: connected_clients, clients_max: maxclients}}}}\n"
            "invariants:\n  answers: {holds: it.up}\n"
            "  room: {holds: '!has(it.clients) || it.clients / it.clients_max < 1',"
            " causes: [connections_used_up]}\n",
            timeout_s=0.5,
        )
        readings = (await tried.seen()).readings
    assert (readings["it.up"], readings["cause.connections_used_up"]) == (False, False)


async def test_a_stranger_at_the_port_is_no_clean_stop(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text("999999999\n")
    async with serving(http(404, {})) as port:
        tried = described(
            tmp_path,
            f"name: a\ntargets: {{t: {{kind: k, port: {port}, pid_file: pid}}}}\n"
            "probes: {page: {http: }}\ninvariants: {i: {holds: page.ok}}\n",
            timeout_s=30.0,
        )
        assert (await tried.seen()).readings["cause.port_occupied"] is True
        (tmp_path / "pid").unlink()
        found = await diagnose(tried, t=TAKEN)
        assert (found.cause, found.choice) == ("port_occupied", "escalate")
        # The process of the pid file answers, and only its answer is wrong.
        (tmp_path / "pid").write_text(f"{os.getpid()}\n")
        readings = (await tried.seen()).readings
        assert readings["cause.port_occupied"] is False
