"""A case as a record of commands, and the built-in reasoner that reads it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from operator_evals.app.replays import replay_cases, tally
from operator_evals.case_record import record_of
from operator_evals.cases import CASE, Case
from operator_protocols.domain.system_record import Reading
from operator_sre.app.wiring import open_app
from operator_sre.config import load_config

POD = """\
Name:           page-5d8f7c9b6d-x2k4p
Namespace:      bakery
Node:           one/192.0.2.1
Status:         Running
Controlled By:  ReplicaSet/page-5d8f7c9b6d
Containers:
  main:
    State:          Waiting
      Reason:       ErrImagePull
    Ready:          False
    Restart Count:  0
Events:
  Type     Reason  Age  From     Message
  ----     ------  ---  ----     -------
  Warning  Failed  9s   kubelet  Failed to pull image "page:9": manifest unknown
"""
ALERTS = {
    "alerts": [
        {
            "name": "page",
            "evidence": [
                "SLOW [Slow Response] | p90latency: Normal=4.0ms -> Current=900.0ms (+1 %)",
                "FULL [cpu_cfs] | Val: 0.8s (Throttled)",
                "LATENCY [Data Vanished] | Metrics dropped to zero/NaN",
                "something without a number",
            ],
        }
    ]
}


def _case() -> Case:
    logs = {"patterns": [{"count": 2, "sample": "error: rare"}, {"count": 9, "sample": "a\nb"}]}
    tree = "page\n├── orders\n│   └── ledger\n└── ovens   <-- (hot)\n"
    named = {"namespace": "bakery", "name": "page-1", "resource_type": "pods"}
    return Case(
        name="1",
        namespace="bakery",
        query="Some pages fail.",
        cause="wrong_tag",
        hit="page",
        kind="app",
        answers=(
            ("GetResources", {**named, "name": "", "output_wide": True}, "NAME  STATUS"),
            ("GetResources", {**named, "show_labels": True}, "left out"),
            ("DescribeResource", named, "Name: old"),
            ("GetAppYAML", {"app_name": "page"}, "kind: Service"),
            ("GetErrorLogs", {"service_name": "page"}, json.dumps(logs)),
            ("CheckNodeServiceStatus", {"node_name": "one", "service_name": "kubelet"}, "dead"),
            ("CheckServiceConnectivity", {"service_name": "page", "port": 80}, "Failed"),
            ("GetServiceDependencies", {"service_name": "page"}, tree),
            ("GetAlerts", {}, json.dumps(ALERTS)),
            ("GetAlerts", {}, "no JSON"),
        ),
        printed={"kubectl describe pods page-1 -n bakery": "Name: new"},
    )


def test_every_answer_becomes_what_a_command_prints() -> None:
    record = record_of(_case())
    assert record.commands == {
        "kubectl get pods -n bakery -o wide": "NAME  STATUS",
        "kubectl describe pods page-1 -n bakery": "Name: new",
        "kubectl get deployments page -n bakery -o yaml": "kind: Service",
        "kubectl logs deployment/page -n bakery": "a b\nerror: rare\n",
        "ssh one systemctl status kubelet": "dead",
        "nc -z page 80": "Failed",
    }
    assert record.calls == {"page": ("orders", "ovens")}
    assert record.readings == (
        Reading("page", "latency_p90", 900.0, 4.0),
        Reading("page", "throttled", 0.8),
        Reading("page", "latency_missing", 0.0),
    )


def test_the_reasoner_diagnoses_a_case_from_its_record(tmp_path: Path) -> None:
    causes = {"1": ("wrong_image_tag", "app/page"), "2": ("lost_secret", "app/orders")}
    for name, (cause, hit) in causes.items():
        folder = tmp_path / "benchmark" / name
        folder.mkdir(parents=True)
        result = {"root_cause": cause, "fault_object": hit}
        metadata = {"namespace": "bakery", "query": "Some pages fail.", "result": result}
        (folder / CASE).write_text(json.dumps(metadata))
        pod = 'DescribeResource:{"resource_type":"pods","name":"page-1","namespace":"bakery"}'
        parts = {'GetAppYAML:{"app_name":"page"}': "", 'GetAppYAML:{"app_name":"orders"}': ""}
        (folder / "tool_cache.json").write_text(json.dumps({pod: POD, **parts}))
    home = tmp_path / "home"
    home.mkdir()
    with open_app(load_config(flags={"home": str(home)}, environ={}, cwd=home)) as app:
        right, wrong = asyncio.run(replay_cases(app, tmp_path / "benchmark", "reasoner"))
    assert (right.said[0].cause, right.said[0].target) == ("wrong_image_tag", "page")
    assert 0.0 < right.said[0].confidence <= 1.0
    assert (right.score.component_at_1, right.score.cause_right) == (True, True)
    assert wrong.score.cause_right is False
    counted = tally((right, wrong))
    assert (counted.joint.count, counted.tokens, counted.failed) == (1, 0, 0)
