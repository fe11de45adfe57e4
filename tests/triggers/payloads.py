"""Notifications as they come, and triggers that take them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from operator_sre.triggers.trigger import FIELDS, Trigger, TriggerKind

__all__ = ["ALERTMANAGER", "JSON", "webhook", "webhook_alert"]

ALERTMANAGER = Trigger("prometheus", TriggerKind.ALERTMANAGER, target="instance")
JSON = Trigger("grafana", TriggerKind.JSON, fields=dict(FIELDS))


def webhook_alert(
    name: str = "HighLatency",
    instance: str = "node-1",
    *,
    status: str = "firing",
    severity: str = "critical",
    **more: Any,
) -> dict[str, Any]:
    """One alert in the words of Alertmanager."""
    over = status == "resolved"
    return {
        "status": status,
        "labels": {"alertname": name, "instance": instance, "job": "api", "severity": severity},
        "annotations": {"summary": f"{name} at {instance}", "runbook_url": "http://wiki/latency"},
        "startsAt": "2026-03-04T11:58:20.123456789Z",
        "endsAt": "2026-03-04T12:30:00Z" if over else "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus:9090/graph?g0.expr=up&g0.tab=1",
        "fingerprint": f"{zlib.crc32(f'{name} {instance}'.encode()):016x}",
        **more,
    }


def webhook(*alerts: Mapping[str, Any], **more: Any) -> bytes:
    """A whole notification, version 4, as Alertmanager documents it."""
    told = list(alerts) or [webhook_alert()]
    firing = any(one["status"] == "firing" for one in told)
    return json.dumps(
        {
            "version": "4",
            "groupKey": '{}:{alertname="HighLatency"}',
            "truncatedAlerts": 0,
            "status": "firing" if firing else "resolved",
            "receiver": "operator",
            "groupLabels": {"alertname": "HighLatency"},
            "commonLabels": {"alertname": "HighLatency", "job": "api"},
            "commonAnnotations": {},
            "externalURL": "http://alertmanager:9093",
            "alerts": told,
            **more,
        }
    ).encode()
