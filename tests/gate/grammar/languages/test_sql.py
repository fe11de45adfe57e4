"""SQL: what only reads is proven, everything else has a reason."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_sre.gate.grammar.languages.sql import sql
from tests.contract.postgres import shared_server
from tests.every import every

# These run on a real PostgreSQL, which is asked to refuse whatever would write.
POSTGRES = [
    "SELECT 1",
    "select 1; select 2;",
    "SELECT version()",
    "SELECT now() - interval '1 hour'",
    "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'",
    "SELECT pid, now() - query_start AS age, left(query, 60) FROM pg_stat_activity ORDER BY 2 DESC",
    "SELECT pg_size_pretty(pg_database_size(current_database()))",
    "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()",
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')",
    "SELECT relname, n_dead_tup FROM pg_stat_user_tables ORDER BY n_dead_tup DESC LIMIT 10",
    "SELECT blocked.pid, pg_blocking_pids(blocked.pid) FROM pg_stat_activity blocked",
    "SELECT mode, count(*) FROM pg_locks GROUP BY mode HAVING count(*) > 0",
    "SELECT name, setting FROM pg_settings WHERE name LIKE '%mem%'",
    "SELECT extract(epoch FROM now())::int",
    "SELECT coalesce(max(age(datfrozenxid)), 0) FROM pg_database",
    "WITH t AS (SELECT 1 AS n) SELECT * FROM t",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(id, name)",
    "VALUES (1), (2)",
    "TABLE pg_database",
    "(SELECT 1) UNION (SELECT 2)",
    "SELECT CASE WHEN 1 > 0 THEN 'yes' ELSE 'no' END",
    "SELECT 'it''s; DELETE FROM x'",
    "SELECT 1 -- a remark",
    "SELECT /* a remark */ 1",
    "SELECT '{\"a\": 1}'::jsonb ->> 'a', '{\"a\": {\"b\": 2}}'::jsonb #>> '{a,b}'",
    'SELECT datname AS "the name" FROM pg_database',
    "SELECT row_number() OVER (PARTITION BY datallowconn ORDER BY datname) FROM pg_database",
    "SELECT count(*) FILTER (WHERE datallowconn) FROM pg_database",
    "SELECT to_char(now(), 'YYYY-MM-DD'), date_trunc('day', now())",
    "SELECT pg_catalog.pg_size_pretty(1024::bigint)",
    "SELECT 1 = ANY(ARRAY[1, 2]), string_agg(datname, ',') FROM pg_database",
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type <> 'VIEW'",
    "SELECT name, setting FROM pg_settings WHERE name IN ('work_mem', 'max_connections')",
    "SELECT slot_name, active FROM pg_replication_slots",
    "SELECT round(100.0 * 3 / nullif(7, 0), 2), 1e3, .5",
    "SELECT pg_get_indexdef(indexrelid) FROM pg_index LIMIT 3",
    "SELECT * FROM generate_series(1, 3) AS g(n)",
    "SHOW work_mem",
    "SELECT name FROM pg_settings WHERE pending_restart",
    "EXPLAIN SELECT * FROM pg_class",
    "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM pg_class",
    "EXPLAIN ANALYZE VERBOSE SELECT 1",
    "SELECT\n\t1\n",
]
OTHERS = [
    "SHOW PROCESSLIST",
    "show full processlist;",
    "SHOW REPLICA STATUS\\G",
    "SHOW GLOBAL VARIABLES LIKE 'max_conn%'",
    'SHOW STATUS LIKE "Innodb%"',
    "SHOW ENGINE INNODB STATUS\\G",
    "SHOW CREATE TABLE `orders`",
    "SHOW INDEX FROM orders",
    "SHOW TABLES; SHOW DATABASES;",
    "USE shop; SHOW TABLES",
    "DESCRIBE orders",
    "DESC shop.orders",
    "EXPLAIN FORMAT=JSON SELECT * FROM orders WHERE id = 5",
    "EXPLAIN FOR CONNECTION 5",
    "SELECT @@global.read_only, @@version",
    "SELECT ROUND(SUM(data_length) / 1024) FROM information_schema.tables GROUP BY table_schema",
    "SELECT IFNULL(a, 0) FROM `shop`.`orders` LIMIT 3",
    "SELECT REPLACE(name, 'a', 'b') FROM t",
    "SELECT name FROM sqlite_master WHERE type = 'table'",
    "PRAGMA table_info(orders)",
    "PRAGMA integrity_check",
    "EXPLAIN QUERY PLAN SELECT * FROM t",
]
REFUSED = [
    ("SELECT 1 delimiter zz\nzz\nsystem id", "!DELIMITER"),
    ("PRAGMA table_info(delimiter )", "!DELIMITER"),
    ("USE mysql; SELECT * FROM servers", "?"),
    ("SELECT * FROM system_auth.roles", "?"),
    ("SELECT * FROM global_priv", "?"),
    ("SELECT * FROM system.users", "?"),
    ("SHOW BACKUP 'http://a.example/x'", "SHOW BACKUP"),
    ("SHOW ACCESS", "?"),
    ("DELETE FROM t", "!DELETE"),
    ("UPDATE t SET a = 1", "UPDATE"),
    ("INSERT INTO t VALUES (1)", "INSERT"),
    ("REPLACE INTO t VALUES (1)", "!REPLACE"),
    ("TRUNCATE t", "!TRUNCATE"),
    ("drop table t", "!DROP"),
    ("ALTER SYSTEM SET work_mem = '1GB'", "!ALTER"),
    ("SELECT 1; DROP TABLE t", "!DROP"),
    ("SELECT 1;;DROP TABLE t", "!DROP"),
    ("SELECT 1\\GDROP TABLE t", "!DROP"),
    ("WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d", "!DELETE"),
    ("WITH d AS (UPDATE t SET a = 1) SELECT 1", "UPDATE"),
    ("SELECT * INTO u FROM t", "INTO"),
    ("SELECT 1 INTO @x", "INTO"),
    ("SELECT 'x' INTO DUMPFILE '/tmp/x'", "INTO"),
    ("SELECT * FROM t FOR UPDATE", "FOR"),
    ("SELECT * FROM t FOR KEY SHARE", "FOR"),
    ("SELECT * FROM t LOCK IN SHARE MODE", "LOCK"),
    ("SELECT NEXT VALUE FOR s", "FOR"),
    ("COPY t TO PROGRAM 'id'", "!COPY"),
    ("CALL p()", "!CALL"),
    ("DO $$ BEGIN END $$", "What begins at '$$"),
    ("SELECT $$a$$", "What begins at"),
    ("EXPLAIN ANALYZE DELETE FROM t", "!DELETE"),
    ("EXPLAIN (ANALYZE) INSERT INTO t VALUES (1)", "INSERT"),
    ("EXPLAIN ANALYZE EXECUTE p", "!EXECUTE"),
    ("DESC ANALYZE UPDATE t SET a = 1", "UPDATE"),
    ("SELECT pg_sleep(10)", "The function 'pg_sleep'"),
    ("SELECT pg_sleep (10)", "The function 'pg_sleep'"),
    ("SELECT pg_sleep/* */(10)", "The function 'pg_sleep'"),
    ('SELECT "pg_sleep"(10)', "The function '\"pg_sleep\"'"),
    ('SELECT U&"pg\\005fsleep"(10)', "A name in Unicode"),
    ("SELECT pg_catalog.pg_sleep(10)", "The function 'pg_sleep'"),
    ("SELECT mine.count(1)", "The function 'count' belongs"),
    ("SELECT pg_terminate_backend(5)", "!The function"),
    ("SELECT pg_read_file('/etc/hosts')", "?The function"),
    ("SELECT * FROM dblink('host=x', 'DROP TABLE t')", "!The function 'dblink'"),
    ("SELECT lo_import('/etc/hosts')", "!The function"),
    ("SELECT set_config('a.b', 'c', false)", "The function 'set_config'"),
    ("SELECT nextval('s')", "A sequence"),
    ("SELECT pg_stat_reset()", "The function"),
    ("SELECT pg_stat_get_mine()", "The function"),
    ("SELECT LOAD_FILE('/etc/hosts')", "?The function"),
    ("SELECT BENCHMARK(1000000, md5(1))", "The function"),
    ("SELECT SLEEP(5)", "The function"),
    ("SHOW TABLES WHERE SLEEP(5)", "The function"),
    ("SELECT f()", "The function 'f' is not known"),
    ("WITH sleep(3) AS x SELECT x", "The function 'sleep'"),
    ("SELECT passwd FROM pg_shadow", "?"),
    ("SELECT * FROM pg_authid", "?"),
    ('SELECT * FROM "pg_authid"', "?"),
    ("SELECT * FROM pg_user_mappings", "?"),
    ("SELECT user, host FROM mysql.user", "?"),
    ("SELECT * FROM `mysql`.`user`", "?"),
    ("SELECT * FROM user", "?"),
    ("SELECT authentication_string FROM t", "?"),
    ("SELECT api_key FROM accounts", "?"),
    ("SHOW GRANTS", "?"),
    ("SHOW CREATE USER root", "?"),
    ("SELECT current_setting('primary_conninfo')", "?"),
    ("SELECT 1 /*! INTO OUTFILE '/tmp/x' */", "This comment"),
    ("SELECT 1 /*!50000 + sleep(1) */", "This comment"),
    ("SELECT /*+ hint(x) */ 1", "This comment"),
    ("SELECT 1--1", "This comment"),
    ("SELECT 1 -- '\n; DROP TABLE t; -- '", "This comment"),
    ("SELECT 1 # '\n; DROP TABLE t; -- '", "This comment"),
    ("SELECT a #> '\n; DROP TABLE t; -- '", "A '#'"),
    ("SELECT 'a\\'; DROP TABLE t; -- '", "What begins at"),
    ("SELECT [' ] ; DROP TABLE t; -- ' ]", "What begins at"),
    ("SELECT `a;b`", "What begins at"),
    ("SELECT 1into t", "What begins at"),
    ("SELECT 1.e(1)", "What begins at"),
    ("SELECT 'open", "What begins at"),
    ("SELECT :x", "What begins at"),
    ("SELECT @a := 1", "What begins at"),
    ("SELECT 1 \\g /tmp/x", "The end of a statement"),
    ("\\! id", "What begins at"),
    ("system id", "!SYSTEM"),
    ("SET ROLE postgres; SELECT 1", "SET"),
    ("BEGIN", "A transaction"),
    ("PRAGMA journal_mode = WAL", "This PRAGMA"),
    ("PRAGMA writable_schema(1)", "This PRAGMA"),
    ("ATTACH 'x' AS y", "!ATTACH"),
    ("SEL/**/ECT 1", "A statement that begins with 'sel'"),
    ("ＳＥＬＥＣＴ 1", "A character outside"),
    ("SELECT 'é'", "A character outside"),
    ("SHOW", "SHOW needs"),
    ("(DELETE FROM t)", "A parenthesis"),
    ("", "There is no statement."),
    (";;", "There is no statement."),
]
_VERBS = st.sampled_from(
    [
        *("INSERT", "update", "Delete", "INTO", "DROP", "copy", "MERGE", "for", "create", "call"),
        *(
            "pg_sleep(1)",
            "sleep(1)",
            "; VACUUM",
            "; set x = 1",
            "RETURNING",
            "truncate",
            "/*! x */",
        ),
    ]
)
_BLANK_OUTSIDE_OF_QUOTES = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--.*|/\*.*?\*/|(?P<blank>\s)""")


@every("text", POSTGRES + OTHERS)
def test_a_read_is_proven(text: str) -> None:
    assert sql(text) is None


@every(("text", "start"), REFUSED)
def test_anything_else_has_a_reason(text: str, start: str) -> None:
    reason = sql(text)
    assert reason is not None
    assert reason.startswith(start)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(POSTGRES + OTHERS), _VERBS, st.data())
def test_a_verb_that_changes_is_found_wherever_it_stands(
    text: str, verb: str, data: st.DataObject
) -> None:
    blanks = [one.start() for one in _BLANK_OUTSIDE_OF_QUOTES.finditer(text) if one["blank"]]
    place = data.draw(st.sampled_from([*blanks, len(text)]))
    if "--" in text[:place]:
        return
    assert sql(f"{text[:place]} {verb} {text[place:]}") is not None


def test_a_real_server_finds_nothing_to_refuse_in_what_is_proven(
    request: pytest.FixtureRequest,
) -> None:
    server = shared_server(request.config)
    import psycopg

    url = server.database()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = on")
            for text in POSTGRES:
                connection.execute(text.encode())
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                connection.execute("CREATE TABLE t ()")
    finally:
        server.drop(url)


SETTINGS = (
    *("SHOW ALL", "show all;", "TABLE pg_settings", "SELECT * FROM pg_settings"),
    *("SELECT setting FROM pg_settings", "SELECT setting FROM pg_catalog.pg_settings ORDER BY 1"),
    *(
        "SELECT s.setting FROM pg_settings s WHERE s.name LIKE 'primary%'",
        "TABLE pg_hba_file_rules",
    ),
    *("SELECT setting FROM pg_settings WHERE name LIKE '%con%'", "SELECT * FROM pg_file_settings"),
    *("SELECT setting FROM pg_settings WHERE name LIKE '%'", 'SELECT * FROM "pg_hba_file_rules"'),
    *("SELECT setting FROM pg_settings WHERE name IN ('work_mem', 'primary_conninfo')",),
    *("SELECT setting FROM pg_settings WHERE name = setting", "SELECT * FROM pg_db_role_setting"),
    *("SELECT setting FROM pg_settings WHERE name ~ 'mem|conninfo'", "SHOW primary_conninfo"),
)


def test_settings_that_may_hold_a_password_are_not_shown_as_a_whole() -> None:
    reasons = {text: sql(text) for text in SETTINGS}
    assert [text for text, reason in reasons.items() if not (reason or "").startswith("?")] == []
