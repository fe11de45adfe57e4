"""psql: the backslash commands that only list."""

from __future__ import annotations

from operator_sre.gate.grammar.languages.sql import psql, psql_meta
from tests.every import every

LISTS = r"""
\d
\dt
\dt+
\dt *.*
\d+ orders
\d "Orders"
\di+ public.*
\dtS
\dtvi
\dn
\du
\dg+
\df
\df+ public.*
\dp
\dx
\dconfig work_mem
\l
\l+
\list
\z
\sf total(int)
\sv view_of_mine
\conninfo
\encoding
\x
\x on
\timing
\timing off
\x \dt
\x \l+ \conninfo
\h
\h SELECT
\?
\q
""".strip().splitlines()
REFUSED = [
    ("\\dconfig primary_conninfo", "?"),
    ("\\! id", "!"),
    ("\\!", "!"),
    ("\\dt \\! id", "!"),
    ("\\dt\\! id", "!"),
    ("\\copy t to 'x'", "!"),
    ("\\o out", "!"),
    ("\\o |sh", "!"),
    ("\\w out", "!"),
    ("\\i file", "!"),
    ("\\ir file", "!"),
    ("\\include file", "!"),
    ("\\g out", "The command"),
    ("\\gexec", "!"),
    ("\\gset", "The command"),
    ("\\e", "!"),
    ("\\edit", "!"),
    ("\\ef f", "The command"),
    ("\\password bob", "!"),
    ("\\set a `id`", "The command"),
    ("\\set a b", "The command"),
    ("\\d `id`", "What begins"),
    ("\\d :x", "What begins"),
    ("\\echo hi", "The command"),
    ("\\c other", "The command"),
    ("\\encoding utf8", "The command"),
    ("\\x on off", "There are too many"),
    ("\\pset pager always", "The command"),
    ("\\watch 1", "The command"),
    ("\\lo_import x", "The command"),
    ("\\getenv a HOME", "?"),
    ("\\deu+", "?"),
    ("\\dRs+", "?"),
    ("\\dt\n\\! id", "What begins"),
    ("\\dt; select 1", "What begins"),
    ("\\", "What begins"),
    ("select 1", "What begins"),
    ("", "There is no command."),
]


@every("text", LISTS)
def test_a_command_that_lists_is_proven(text: str) -> None:
    assert psql_meta(text) is None
    assert psql(text) is None


@every(("text", "start"), REFUSED)
def test_anything_else_has_a_reason(text: str, start: str) -> None:
    reason = psql_meta(text)
    assert reason is not None
    assert reason.startswith(start)


def test_what_has_no_backslash_is_sql() -> None:
    assert psql(" SELECT 1") is None
    assert psql("DROP TABLE t") == "!DROP removes an object from the database."
    assert psql("SELECT 1 \\! id") is not None
