"""Word in and word out, by the real commands: alerts, notices, metrics and the heartbeat."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable, Coroutine
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.ticket import TicketState
from tests.contract.samples import violation
from tests.e2e.home import Home
from tests.e2e.waiting import eventually
from tests.notify.sink import sink
from tests.triggers.payloads import webhook

SUBJECT = """
[subjects.shop]
plugin = "ratelimiter"
[[subjects.shop.targets]]
name = "node-1"
kind = "node"
port = 1
"""
NOTIFY = '[notify]\nurls_file = "urls"\ngroup_s = 0\n'


def _scrape(port: int) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    except OSError:
        return ""
    finally:
        connection.close()


def _configured(home: Home, toml: str, *urls: str) -> None:
    (home.cwd / "operator.toml").write_text(toml)
    (home.cwd / "urls").write_text("\n".join(["# people", *urls]))


def _words_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def test_a_monitor_notifies_people_serves_its_figures_and_beats(
    home: Home, free_port: Callable[[], int]
) -> None:
    with sink() as people, sink() as heart:
        (home.cwd / "heart").write_text(f"http://127.0.0.1:{heart.port}/beat-s3cret\n")
        settings = 'heartbeat_url_file = "heart"\nheartbeat_s = 1\n'
        _configured(home, settings + SUBJECT + NOTIFY, people.url())
        port = free_port()
        monitor = home.fork("monitor", "run", "--metrics", f"127.0.0.1:{port}")
        eventually(lambda: people.came, "a message")
        assert re.match(r"Operator: ticket 1 opened \(critical\): node-1", people.titles[0])
        assert "operator tickets show 1" in people.came[0]["message"]

        def figure(line: str) -> str | None:
            found = re.search(rf"^{re.escape(line)} (\S+)$", _scrape(port), re.MULTILINE)
            return found[1] if found else None

        eventually(
            lambda: float(figure('operator_looks_total{subject="shop"}') or 0) >= 2, "two looks"
        )
        assert figure('operator_subject_health{health="broken",subject="shop"}') == "1.0"
        assert figure('operator_tickets{severity="critical",state="open"}') == "1.0"
        assert float(figure("operator_ledger_head_seq") or 0) >= 1
        assert float(figure('operator_look_last_timestamp_seconds{subject="shop"}') or 0) > 1e9
        assert 'outcome="sent"' in _scrape(port)
        assert 'operator_build_info{version="' in _scrape(port)
        eventually(lambda: len(heart.paths) >= 2, "two heartbeats")
        assert set(heart.paths) == {"/beat-s3cret"}
        assert "s3cret" not in _words_of(monitor.pid)
        assert monitor.end() == 128 + signal.SIGTERM
        assert "s3cret" not in monitor.said
        (channel,) = home.ask("notify", "status")["channels"]
        assert (channel["sent"], channel["failed"], channel["holder"]) == (1, 0, "")


@pytest.mark.slow
def test_a_notifier_that_is_killed_while_sending_tells_it_again_and_says_so(home: Home) -> None:
    with sink() as people:
        _configured(home, NOTIFY, people.url())
        home.path.mkdir()
        notifier = home.fork("notify", "run")
        eventually(lambda: home.store.cursors.find("notify/"), "a cursor")
        # It dies when the message has arrived, and before it hears so.
        people.hook = lambda: os.kill(notifier.pid, signal.SIGKILL)
        _open(home, "node-1")
        eventually(lambda: not notifier.runs, "its death")
        people.hook = lambda: None
        (cursor,) = home.store.cursors.find("notify/")
        assert cursor.note["pending"]
        _run(home.store.cursors.release(cursor))  # as if its lease had ended
        home.fork("notify", "run")
        eventually(lambda: len(people.came) >= 2, "the second message")
        _open(home, "node-2")
        eventually(lambda: len(people.came) >= 3, "the third message")
        assert [title.partition(" ticket")[0] for title in people.titles] == [
            "Operator:",
            "[again] Operator:",
            "Operator:",
        ]
        assert "may have been sent before" in people.came[1]["message"]
        assert "node-2" in people.titles[2]


@pytest.mark.slow
def test_a_notifier_that_fails_stops_no_ticket_and_is_seen(home: Home) -> None:
    with sink() as people:
        people.refuse = 1000
        _configured(home, SUBJECT + NOTIFY, people.url(), "nosuch://s3cret")
        monitor = home.fork("monitor", "run")
        home.new_ticket(0, TicketState.OPEN)
        home.looked(3, subject="shop")
        eventually(lambda: len(people.paths) >= 2, "another attempt")
        assert monitor.runs
        done = home.run("notify", "test")
        assert done.code == 1
        assert "the service rejected it" in done.out
        assert "the address is not valid" in done.out
        assert "s3cret" not in done.out + done.err + monitor.said
        people.refuse = 0
        _configured(home, NOTIFY, people.url())
        assert home.run("notify", "test").code == 0
        assert "Operator: test notification" in people.titles


def test_alerts_by_http_become_tickets_and_are_listed(home: Home) -> None:
    (home.cwd / "token").write_text("s3cret")
    toml = '[triggers.prometheus]\nkind = "alertmanager"\ntarget = "instance"\n'
    _configured(home, f'{toml}token_file = "token"\n')
    server = home.fork("alerts", "serve", "--listen", "127.0.0.1:0")
    told = eventually(lambda: re.search(r"http://127.0.0.1:(\d+)/", server.said), "its address")
    connection = HTTPConnection("127.0.0.1", int(told[1]), timeout=20)

    def post(token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        connection.request("POST", "/alerts/prometheus", webhook(), headers)
        answer = connection.getresponse()
        json.loads(answer.read())
        return answer.status

    try:
        assert (post("wrong"), post("s3cret"), post("s3cret")) == (401, 202, 200)
    finally:
        connection.close()
    ticket = home.new_ticket(0, TicketState.OPEN)
    assert (ticket.subject, ticket.target) == ("prometheus", "node-1")
    (alert,) = home.ask("alerts", "list")["alerts"]
    assert (alert["name"], alert["firing"]) == ("HighLatency", True)
    assert "HighLatency" in home.run("alerts", "list").out
    assert server.end() == 128 + signal.SIGTERM
    assert "Traceback" not in server.said
    assert "s3cret" not in server.said


def test_what_is_not_configured_is_said_in_a_sentence(home: Home) -> None:
    _configured(home, "")
    for words, sentence in (
        (("alerts", "serve"), "No triggers are configured."),
        (("notify", "run"), "Notifications are not configured."),
        (("notify", "test"), "Notifications are not configured."),
    ):
        done = home.run(*words)
        assert done.code == 2
        assert sentence in done.err


def _open(home: Home, target: str) -> None:
    _run(home.store.tickets.open([violation(target)]))


def _run(work: Coroutine[Any, Any, object]) -> None:
    asyncio.run(work)
