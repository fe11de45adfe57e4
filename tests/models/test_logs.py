"""The decisive line of a log, from messages that real servers wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_sre.models.reasoner.logs import QUOTE_CHARS_MAX, read_log
from operator_sre.models.reasoner.outcomes import HEALTHY
from operator_sre.models.reasoner.symptoms import REASONS, SYMPTOMS

SINCE = datetime(2026, 11, 19, 6, 0, tzinfo=UTC)

# Outcome, what the quoted line must say, and what the server wrote.
ETCD = '{"level":"warn","ts":1795068366.28,"msg":"failed to verify flags","error":"unknown'
FATAL = '{"level":"fatal","ts":"2026-11-19T06:06:39.936Z","caller":"embed/etcd.go:644","msg":'
REAL = [
    ("config", "compaction-mode", ETCD + ' auto-compaction-mode \\"none\\""}'),
    ("config", "URL scheme", "unexpected error setting up peers: URL scheme must be http: none"),
    ("missing", "not a directory", FATAL + '"failed to list data","error":"not a directory",'
     '"stacktrace":"main.run\\n\\t/a.go:4"}'),
    ("files", "too low", FATAL + '"file descriptor limit of etcd process is too low","limit":10}'),
    ("removed", "permanently", '{"level":"warn","ts":"2026-11-19T06:06:39.936Z","msg":"server",'
     '"error":"the member has been permanently removed from the cluster"}'),
    ("config", "nosuch 1", "\n*** FATAL CONFIG FILE ERROR (Version 9.1.2) ***\n"
     "Reading the configuration file, at line 3\n>>> 'nosuch 1'\nBad directive or wrong number\n"),
    ("missing", "c.conf", "1:M 19 Nov 2026 06:06:42.480 # Fatal error, can't open config file"
     " '/srv/c.conf': No such file or directory"),
    ("corrupt", "incr.aof", "1:M 19 Nov 2026 06:06:44.598 # Bad file format reading the append only"
     " file a.incr.aof: make a backup of your AOF file"),
    ("address", "34011", "1:M 19 Nov 2026 06:06:47.279 # Warning: Could not create server TCP"
     " listening socket *:34011: bind: Address already in use\n"
     "1:M 19 Nov 2026 06:06:47.279 # Failed listening on port 34011 (tcp), aborting."),
    ("limit", "Background Jobs", "1:M 19 Nov 2026 06:06:49.954 # Fatal: Can't initialize Background"
     " Jobs. Error message: Resource temporarily unavailable"),
    ("config", "log_connections", "2026-11-19 06:06:51.730 GMT [1] FATAL:  parameter"
     ' "log_connections" requires a Boolean value'),
    ("config", "shared_buffers", "2026-11-19 06:06:51.946 UTC [1] LOG:  invalid value for parameter"
     ' "shared_buffers": "nonsense"\n2026-11-19 06:06:51.946 UTC [1] FATAL:  configuration file'
     ' "/srv/postgresql.conf" contains errors'),
    ("config", "log_connections", "2026-11-19 06:06:51 UTC [1] LOG:  invalid value for parameter"
     ' "log_connections": "127.0.0.1"\n2026-11-19 06:06:51 UTC [1] DETAIL:  Unrecognized key'
     ' word.\n2026-11-19 06:06:51 UTC [1] FATAL:  configuration file "/d/x" contains errors'),
    ("missing", "pg_control", "postgres: could not find the database system\nExpected to find it in"
     ' the directory "/d",\nbut could not open file "/d/global/pg_control": No such file'),
    ("corrupt", "valid checkpoint", "2026-11-19 06:06:56.117 UTC [2] PANIC:  could not locate a"
     " valid checkpoint record\n2026-11-19 06:06:56.117 UTC [1] LOG:  startup process (PID 2) was"
     " terminated by signal 6: Aborted\n2026-11-19 06:06:56.120 UTC [1] LOG:  database system is"
     " shut down"),
    ("corrupt", "of 296", '2026-11-19 06:06:56.151 UTC [1] PANIC:  could not read file "global/'
     'pg_control": read 100 of 296\nAborted'),
    ("denied", "pg_hba", '2026-11-19 06:06:56.151 UTC [1] FATAL:  could not open file "/d/pg_hba":'
     " Permission denied"),
    ("lock_file", "postmaster.pid", "2026-11-19 06:06:56.151 UTC [1] FATAL:  lock file"
     ' "postmaster.pid" already exists'),
    ("tls", "expired", "2026/11/19 06:06:56 error: x509: certificate has expired or not"),
    ("name", "no such host", "2026/11/19 06:06:56 error: dial tcp: lookup db.local: no such host"),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "quoted", "text"), REAL, ids=lambda value: str(value)[:20])
def test_the_reason_that_a_server_gives_is_found_and_quoted(
    outcome: str, quoted: str, text: str
) -> None:
    state, sentence = read_log(text, SINCE)
    assert state == outcome
    assert quoted.replace("\\", "") in sentence.replace("\\", "")
    assert SYMPTOMS[outcome].noun in sentence
    assert "stacktrace" not in sentence


def test_a_long_stack_trace_does_not_hide_the_reason() -> None:
    frames = "goroutine 1 [running]:\n" + "main.run(0x1)\n\t/srv/a.go:7 +0x1f8\n" * 80
    state, sentence = read_log(f"panic: freepages: failed to get all reachable pages\n\n{frames}")
    assert (state, "failed to get all" in sentence) == ("corrupt", True)


OLD = "2026-11-19T04:00:00Z PANIC could not write: No space left on device\n"


def test_what_was_logged_before_the_failure_began_does_not_count() -> None:
    assert read_log(OLD, SINCE) == ("quiet", "nothing was logged since the failure began")
    assert read_log(OLD)[0] == "no_space"
    undated = f"{OLD}  at write\n2026-11-19T06:00:01Z INFO serving\n"
    assert read_log(undated, SINCE)[0] == "quiet"
    # A failure begins shortly before the first check that finds it.
    soon = OLD.replace("04:00:00", f"{SINCE - timedelta(seconds=20):%H:%M:%S}")
    assert read_log(soon, SINCE)[0] == "no_space"


def test_the_last_words_without_a_time_count() -> None:
    text = f"{OLD}*** FATAL CONFIG FILE ERROR ***\n>>> 'nosuch 1'\n"
    state, sentence = read_log(text, SINCE)
    assert state == "config"
    assert "nosuch 1" in sentence


ZONES = [
    "2026-11-19T06:00:05Z",
    "2026-11-19 06:00:05.123 UTC",
    "2026-11-19T08:00:05+02:00",
    "2026/11/19 06:00:05.123 +00:00",
    '{"ts":1795068005.5}',
    '{"time":1795068005500}',
    "19/Nov/2026:06:00:05 +0000",
]


@pytest.mark.parametrize("stamp", ZONES)
def test_the_times_of_known_formats_are_read(stamp: str) -> None:
    text = f"{stamp} FATAL: No space left on device"
    assert read_log(text, SINCE)[0] == "no_space"
    assert read_log(text, SINCE + timedelta(hours=1))[0] == "quiet"


TRACES = [
    "2026-11-19 06:00:05 UTC [9] LOG:  invalid length of startup packet",
    "2026-11-19 06:00:05 UTC [9] FATAL:  the database system is starting up",
    '{"level":"warn","ts":"2026-11-19T06:00:05Z","msg":"rejected connection","error":"EOF"}',
    "2026-11-19 06:00:05 4 [Warning] Aborted connection 4 to db: 'unconnected' user:"
    " 'unauthenticated' host: '127.0.0.1' (This connection closed normally without authentication)",
    "2026-11-19 06:00:05 9 [Warning] Aborted connection 9 to db: 'shop' user: 'shop' host: 'web'"
    " (Got timeout reading communication packets)",
]


@pytest.mark.parametrize("trace", TRACES)
def test_traces_of_a_port_check_are_no_errors(trace: str) -> None:
    assert read_log(f"{trace}\n" * 5, SINCE)[0] == "quiet"


def test_a_login_that_mysql_rejects_is_no_trace() -> None:
    line = "2026-11-19 06:00:05 4 [Warning] Access denied for user 'shop'@'web' (using password)"
    assert read_log(f"{line}\n{TRACES[-1]}\n", SINCE)[0] != "quiet"


def test_a_reason_that_was_overcome_is_not_the_reason() -> None:
    text = "error: unknown flag --x\n" + "INFO serving\n" * 9
    assert read_log(text)[0] == "quiet"
    fatal = "FATAL: unknown option x\nnode stopped\n" + "node started\n"
    assert read_log(fatal)[0] == "quiet"


@given(st.text(), st.sampled_from([None, SINCE]))
def test_any_text_is_read_as_an_outcome_with_a_bounded_sentence(
    text: str, since: datetime | None
) -> None:
    state, sentence = read_log(text, since)
    assert state in HEALTHY["log"]
    assert 0 < len(sentence) < 3 * QUOTE_CHARS_MAX


def test_every_reason_of_a_log_has_a_probability_at_a_healthy_target() -> None:
    assert set(REASONS) <= set(HEALTHY["log"])
