"""What a description may say, and that every mistake is told with its line and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.health import Severity
from operator_protocols.domain.target import Access
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConfigError, ObservationError
from operator_sre.app.description import KINDS
from operator_sre.plugins import find_plugin
from operator_sre.subjects.declarative.description import (
    Description,
    describe,
    read_description,
    speaks_of,
)
from tests.subjects.declarative.trying import described

WHOLE = """\
name: shop
targets:
  web-1: {kind: web, port: 80, endpoints: ["b:81", "[::1]:82"], depends_on: [db], log: web.log}
  db:
    kind: database
    host: db.example
    port: 5432
    runs_at: ssh://me@db
    access: {tls: true, ca_file: ca.pem, user: me, password_file: secret}
probes:
  page: {on: web, http: {read: {queue: stats.queue}}, timeout: 500ms}
  port: {tcp: {}}
invariants:
  fast: {on: web, holds: "page.queue < 5 && page.ok", for: 5m, severity: info, says: "{page.queue}"}
  up: {holds: port.up}
levers:
  restart: {on: web, command: [sh, restart.sh, "{target}"], risk: low, ends: [process_dead]}
  scale_up:
    on: web
    command: [scale, "{count}", "--at={host}:{port}"]
    parameters: {count: {type: integer, minimum: 1, maximum: 9, says: how many}}
    undo: scale_down
    reversible: true
    timeout: 2m
  scale_down: {on: web, command: ["true"]}
notes: Never lose an order.
"""


def whole() -> Description:
    return describe(WHOLE, "shop.yaml", folder="/srv/shop")


def test_a_description_says_all_that_it_is_read_for() -> None:
    found = whole()
    web, database = found.targets
    assert (web.name, web.kind, web.host, web.port) == ("web-1", "web", "127.0.0.1", 80)
    assert (web.endpoints, web.depends_on) == (("b:81", "[::1]:82"), ("db",))
    assert web.log == "/srv/shop/web.log"
    assert database.runs_at == "ssh://me@db"
    assert database.access == Access(
        tls=True, ca_file="/srv/shop/ca.pem", user="me", password_file="/srv/shop/secret"
    )
    page, port = found.probes
    assert (page.name, page.timeout_s) == ("page", 0.5)
    assert speaks_of(page.on, web)
    assert not speaks_of(page.on, database)
    assert speaks_of(port.on, database)
    fast, up = found.invariants
    assert (fast.name, fast.severity, fast.grace_s) == ("fast", Severity.INFO, 300.0)
    assert (up.severity, up.grace_s) == (Severity.WARNING, 0.0)
    restart, scale_up, scale_down = found.levers
    assert (restart.tool, restart.risk, restart.ends) == (
        "restart_node",
        Risk.LOW,
        ("process_dead",),
    )
    assert (scale_up.undo, scale_up.timeout_s, scale_up.reversible) == ("scale_down", 120.0, True)
    assert scale_down.risk is Risk.MEDIUM
    assert found.notes == "Never lose an order."


MISTAKES = [
    ("name: shop", "naem: shop", 1, "'naem' is not a valid key of the file. Did you mean 'name'?"),
    ("name: shop", "name: a/b", 1, "'a/b' is not a valid name for a subject."),
    ("port: 80,", "prot: 80,", 3, "'prot' is not a valid key of 'web-1' of 'targets' of the file."),
    ("port: 80,", "port: eighty,", 3, "'port' of the target 'web-1' must be the number of a"),
    ("port: 80,", "port: 70000,", 3, "must be the number of a port"),
    ("kind: web,", "kind: [web],", 3, "'kind' of the target 'web-1' must be a single value."),
    ("[db]", "[bd]", 3, "'web-1' depends on 'bd', which is not another target. Did you mean 'db'?"),
    ('"b:81"', '"b"', 3, "'b' is not a valid host:port."),
    ("ssh://me@db", "telnet://db", 8, "'telnet://db' is not a valid place. Write ssh://user@host"),
    ("password_file: secret", "password: secret", 9, "Did you mean 'password_file'?"),
    (
        "http: {read",
        "htpp: {read",
        11,
        "'htpp' is not a valid key of the probe 'page'. Did you mean 'ht",
    ),
    ("{read: {queue", "{raed: {queue", 11, "Did you mean 'read'?"),
    ("stats.queue}}", "'..'}}", 11, "'..' is not a valid path such as 'nodes[0].name'."),
    ("{queue: stats", "{status: stats", 11, "'status' is not a valid name for a value of its own."),
    ("500ms", "soon", 11, "must be a duration such as 30s, 5m or 1h."),
    ("tcp: {}", "tcp: {}, http: {}", 12, "needs one of: http, tcp, prometheus, loki, command"),
    ("{on: web, http", "{on: wbe, http", 11, "'wbe' is neither a kind nor a name of a target."),
    ("port: {tcp", "port: {on: web, tcp", 10, "no probe covers the target 'db'."),
    ("page.queue < 5", "page.queu < 5", 14, "has no value 'queu'. Did you mean 'queue'?"),
    ("page.queue < 5", "paeg.queue < 5", 14, "there is no probe 'paeg'. Did you mean 'page'?"),
    ("page.queue < 5", "page.queue <", 14, "'holds' of the invariant 'fast': at character"),
    ('"page.queue < 5 && page.ok"', '"1 < 2"', 14, "names no value of a probe."),
    ('holds: "page', 'hold: "page', 14, "Did you mean 'holds'?"),
    ("{on: web, holds", "{holds", 14, "the probe 'page' does not cover 'db'."),
    ('"{page.queue}"', '"{page.qeue}"', 14, "'says' of the invariant 'fast': the probe 'page'"),
    ("for: 5m", "for: 5m, grace: 1s", 14, "'for' and 'grace' are the same; write one."),
    ("for: 5m", "for: 2h", 14, "must be 0 to 3599 seconds."),
    ("severity: info", "severity: awful", 14, "It is one of: info, warning, critical."),
    ("  up: {holds", "  observable: {holds", 15, "'observable' is reserved for targets"),
    ("  up: {holds", "  Up: {holds", 15, "'Up' is not a valid name for an invariant"),
    ("risk: low", "risk: none", 17, "It is one of: low, medium, high, critical."),
    ("command: [sh", "comand: [sh", 17, "Did you mean 'command'?"),
    ('[sh, restart.sh, "{target}"]', '"sh restart.sh {target}"', 17, "Write the command as a list"),
    ('"{count}"', '"n={count}"', 20, "{count} must be a whole word."),
    ('"{count}", ', "", 20, "the parameter 'count' is not used in its command."),
    ("minimum: 1", "minimum: 10", 21, "the minimum 10 is above the maximum 9."),
    ("{count: {type", "{target: {type", 21, "'target' is built in; remove it."),
    ("undo: scale_down", "undo: scale_dwn", 22, "'scale_dwn' is not another lever. Did you mean"),
    (
        "  scale_down: {on",
        "  scale_down: {tool: restart_node, on",
        25,
        "two levers define the tool",
    ),
]


@pytest.mark.parametrize(("right", "mistake", "line", "told"), MISTAKES)
def test_a_mistake_is_told_with_its_line(right: str, mistake: str, line: int, told: str) -> None:
    assert WHOLE.count(right) >= 1
    with pytest.raises(ConfigError) as raised:
        describe(WHOLE.replace(right, mistake, 1), "shop.yaml")
    assert str(raised.value).startswith(f"Line {line} of 'shop.yaml': "), raised.value
    assert told in str(raised.value)


def test_without_invariants_nothing_could_ever_be_wrong() -> None:
    with pytest.raises(ConfigError, match="no invariants"):
        describe("name: a\ntargets: {b: {kind: c}}\nprobes: {d: {tcp: }}\n", "f")


def test_secrets_are_files_and_never_words() -> None:
    text = "name: a\nprobes: {p: {http: {headers: {%s: abc}}}}\ninvariants: {i: {holds: p.up}}\n"
    for name in ("Authorization", "cookie", "X-API-Key"):
        with pytest.raises(ConfigError, match="'header_files'"):
            describe(text % name, "f")
    query = "name: a\nprobes: {p: {prometheus: {server: 'http://me:pw@h:1', read: {v: up}}}}\n"
    with pytest.raises(ConfigError, match="a password must not be in this file") as raised:
        describe(query, "f")
    assert "pw" not in str(raised.value).replace("password", "")


def test_a_look_that_may_change_something_is_reviewed_first() -> None:
    text = "name: a\nprobes: {p: {http: {method: POST%s}}}\ninvariants: {i: {holds: p.up}}\n"
    with pytest.raises(ConfigError, match="reviewed: true"):
        describe(text % "", "f")
    assert describe(text % ", reviewed: true", "f").probes


@pytest.mark.parametrize("kind", KINDS)
def test_what_init_writes_is_a_description(kind: str) -> None:
    folder = Path(__file__).parents[3] / "src" / "operator_sre" / "app" / "descriptions"
    found = describe((folder / f"{kind}.yaml").read_text().replace("@NAME@", "mine"), "f")
    assert found.name == "mine"
    assert found.invariants


def test_a_file_that_is_not_there_or_no_text_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_description(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="it is not text"):
        read_description(tmp_path / "binary.yaml")


def test_a_plugin_reads_its_file_anew_when_it_changed(tmp_path: Path) -> None:
    tried = described(tmp_path, WHOLE)
    assert [target.name for target in tried.targets] == ["web-1", "db"]
    tried.file.write_text(WHOLE.replace("web-1", "web-2"))
    assert [target.name for target in tried.targets] == ["web-2", "db"]
    tried.file.write_text("nonsense")
    with pytest.raises(ConfigError, match="must be a table"):
        _ = tried.targets


def test_options_that_nobody_knows_are_errors() -> None:
    plugin = find_plugin("declarative")
    assert plugin.targets is not None
    for options in ({"flie": "x"}, {"file": 3}):
        with pytest.raises(ConfigError, match="file"):
            plugin.targets(options)


@pytest.mark.asyncio
async def test_nothing_to_look_at_is_not_health(tmp_path: Path) -> None:
    text = "name: a\nprobes: {p: {tcp: }}\ninvariants: {i: {holds: p.up}}\n"
    with pytest.raises(ObservationError):
        await described(tmp_path, text).look()
