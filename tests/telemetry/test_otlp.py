"""Spans reach a real collector, and one that is not there is said, never raised."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest

from operator_protocols.domain.trace import span_id, trace_id
from operator_protocols.errors import MissingExtraError
from operator_sre.telemetry import spans
from operator_sre.telemetry.spans import Collector, Span, traces_url
from tests.contract.clock import NOON
from tests.contract.servers import unused_port
from tests.telemetry.collector import collecting

CLIENT, INTERNAL, FAILED = 3, 1, 2


def _span(seq: int, parent: str = "", **more: object) -> Span:
    ids = (trace_id("run-1"), span_id("run-1", seq), parent)
    late = NOON + timedelta(seconds=1.5)
    about = {"gen_ai.request.model": "claude", "n": 3, "usd": 0.25, "held": True}
    return Span(f"span {seq}", *ids, NOON, late, seq, seq, about, **more)  # type: ignore[arg-type]


def test_what_is_sent_is_what_comes() -> None:
    root = _span(1)
    with collecting() as inbox:
        collector = Collector(inbox.url, "1.2.3", "the-token")
        assert "the-token" not in repr(collector)
        assert collector.send([root, _span(2, root.id, calls=True, error="refused")]) == ""
        assert collector.send([_span(seq) for seq in range(3, 3 + spans.BATCH_MAX + 1)]) == ""
        collector.close()
        collector.close()
    first, second, *rest = inbox.spans
    assert (first.name, first.trace, first.id, first.parent) == (
        *("span 1", trace_id("run-1"), span_id("run-1", 1), ""),
    )
    assert (first.kind, first.status, first.took_ns) == (INTERNAL, 0, 1_500_000_000)
    assert first.attributes == {"gen_ai.request.model": "claude", "n": 3, "usd": 0.25, "held": True}
    assert first.service == "operator"
    assert (second.parent, second.kind, second.status) == (root.id, CLIENT, FAILED)
    assert len(rest) == spans.BATCH_MAX + 1
    assert set(inbox.paths) == {"/v1/traces"}
    assert len(inbox.paths) == 3
    assert inbox.headers[0]["authorization"] == "Bearer the-token"


def test_a_collector_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "SEND_S_MAX", 0.5)
    deafness = socket.create_server(("127.0.0.1", 0))
    with deafness as deaf, unused_port() as nobody, collecting() as inbox:
        inbox.status = 400
        for url in (
            f"http://127.0.0.1:{nobody}",
            f"http://127.0.0.1:{deaf.getsockname()[1]}",
            inbox.url,
        ):
            collector = Collector(url, "1")
            assert "does not answer" in collector.send([_span(1)])
            collector.close()
    assert inbox.spans == []


def test_an_endpoint_may_name_the_path_or_not() -> None:
    assert traces_url("http://h:1") == traces_url("http://h:1/") == "http://h:1/v1/traces"
    assert traces_url("http://h:1/v1/traces") == "http://h:1/v1/traces"
    assert traces_url("https://h/otlp") == "https://h/otlp/v1/traces"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtraError, match="telemetry"):
        Collector("http://127.0.0.1:1", "1").send([_span(1)])
