"""A cluster of which only printed text is left: the same snapshot, and the same diagnosis."""

from __future__ import annotations

import pytest

from operator_protocols.domain.system_record import SystemRecord
from operator_protocols.errors import MissingPluginError
from operator_protocols.ports import RecordReader
from operator_sre.plugins import find_reader
from operator_sre.subjects.kubernetes.describe import (
    event_rows,
    parse_age,
    parse_description,
    table,
)
from operator_sre.subjects.kubernetes.objects import build_snapshot
from operator_sre.subjects.kubernetes.recorded import read_record

POD = """\
Name:             page-5d8f7c9b6d-x2k4p
Namespace:        bakery
Service Account:  default
Node:             one/192.0.2.1
Labels:           app=page
                  pod-template-hash=5d8f7c9b6d
Status:           Running
IP:               10.1.0.9
Controlled By:    ReplicaSet/page-5d8f7c9b6d
Containers:
  main:
    Image:          registry.example/bakery/page:1.4
    Ports:          8000/TCP, 9000/UDP
    State:          Running
      Started:      Mon, 02 Nov 2026 10:00:00 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Ready:          False
    Restart Count:  4
    Limits:
      memory:  128Mi
    Requests:
      cpu:      100m
      memory:   64Mi
    Liveness:   http-get http://:8000/live delay=5s timeout=2s period=10s #success=1 #failure=3
    Readiness:  grpc <pod>:9000 delay=0s timeout=1s period=10s #success=1 #failure=3
    Environment Variables from:
      menu  ConfigMap  Optional: false
    Environment:
      ORDERS_ADDR:  orders:7000
      HEAT:         <set to the key 'heat' in secret 'oven'>  Optional: false
Conditions:
  Type              Status
  Initialized       True
  Ready             False
Volumes:
  data:
    Type:       PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)
    ClaimName:  data
    ReadOnly:   false
Node-Selectors:  disk=fast
Tolerations:     node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
Events:
  Type     Reason     Age                  From     Message
  ----     ------     ----                 ----     -------
  Warning  BackOff    22s (x15 over 104s)  kubelet  Back-off restarting failed container main
  Normal   Pulled     2m54s                kubelet  Container image already present
"""
SERVICE = """\
Name:              orders
Namespace:         bakery
Labels:            <none>
Selector:          app=orders
Type:              ClusterIP
IP:                10.0.0.7
Port:              web  7000/TCP
TargetPort:        7007/TCP
Port:              admin  7001/UDP
TargetPort:        admin/UDP
Endpoints:         10.1.0.7:7007,10.1.0.8:7007
"""
NODE = """\
Name:               one
Labels:             disk=fast
Taints:             oven=hot:NoSchedule
                    node.kubernetes.io/unschedulable:NoSchedule
Unschedulable:      true
Conditions:
  Type   Status   LastHeartbeatTime  LastTransitionTime  Reason             Message
  ----   ------   -----------------  ------------------  ------             -------
  Ready  Unknown  Mon, 02 Nov 2026   Mon, 02 Nov 2026    NodeStatusUnknown  Kubelet stopped posting
Allocatable:
  cpu:     4
  memory:  8388608Ki
Allocated resources:
  Resource  Requests    Limits
  --------  --------    ------
  cpu       1125m (28%)  0 (0%)
  memory    2Gi (25%)    0 (0%)
"""
QUOTA = """\
Name:            rules
Namespace:       bakery
Resource         Used  Hard
--------         ----  ----
pods             3     10
requests.memory  1Gi   2Gi
"""
MANIFEST = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data  # somebody's remark
  namespace: bakery
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
---
apiVersion: v1
kind: Service
metadata: {name: orders, namespace: bakery}
"""
CLAIM = """\
Name:          data
Namespace:     bakery
StorageClass:
Status:        Pending
Volume:
Used By:       ledger-5d8f7c9b6d-x2k4p
"""
VOLUME = """\
Name:            disk
StorageClass:
Status:          Available
Claim:
Access Modes:    RWO
Capacity:        1Gi
"""


def test_a_described_pod_is_the_pod_of_the_api() -> None:
    (pod,) = build_snapshot([parse_description("pod", POD)]).pods
    (container,) = pod.spec.containers
    assert (pod.owner, pod.node, pod.phase, pod.ready) == ("page", "one", "Running", False)
    assert [(port.number, port.protocol) for port in container.ports] == [
        (8000, "TCP"),
        (9000, "UDP"),
    ]
    assert (container.exit_reason, container.exit_code, container.restarts) == ("OOMKilled", 137, 4)
    assert container.env["ORDERS_ADDR"] == "orders:7000"
    assert {(each.kind, each.name, each.key) for each in container.references} == {
        ("secret", "oven", "heat"),
        ("configmap", "menu", ""),
    }
    assert [(each.kind, each.how, each.port) for each in container.probes] == [
        ("liveness", "httpGet", "8000"),
        ("readiness", "grpc", "9000"),
    ]
    assert container.requests == {"cpu": 0.1, "memory": 64 * 1024**2}
    assert (pod.spec.claims, pod.spec.selector) == (("data",), {"disk": "fast"})
    assert pod.spec.tolerations[0].exists


def test_described_services_nodes_and_quotas_are_those_of_the_api() -> None:
    kinds = (("service", SERVICE), ("node", NODE), ("resourcequota", QUOTA))
    snapshot = build_snapshot([parse_description(kind, text) for kind, text in kinds])
    (service,), (node,), (quota,) = snapshot.services, snapshot.nodes, snapshot.quotas
    assert [(port.number, port.target, port.protocol) for port in service.ports] == [
        (7000, "7007", "TCP"),
        (7001, "admin", "UDP"),
    ]
    assert service.endpoints == ("10.1.0.7:7007", "10.1.0.8:7007")
    assert node.cordoned
    assert [(taint.key, taint.value) for taint in node.taints] == [
        ("oven", "hot"),
        ("node.kubernetes.io/unschedulable", ""),
    ]
    assert node.conditions["Ready"] == ("Unknown", "Kubelet stopped posting")
    assert (node.allocatable["memory"], node.requested) == (
        8 * 1024**3,
        {"cpu": 1.125, "memory": 2 * 1024**3},
    )
    assert (quota.hard["pods"], quota.used["pods"], quota.hard["requests.memory"]) == (
        10,
        3,
        2 * 1024**3,
    )


def test_events_have_their_object_and_age() -> None:
    (told,) = [
        event for event in parse_description("pod", POD)["events"] if event["type"] == "Warning"
    ]
    assert (told["reason"], told["age_s"], told["count"]) == ("BackOff", 22.0, 15)
    line = '37s  Warning  FailedCreate  replicaset/page-5d8f7c9b6d  pods "page-" is forbidden'
    (row,) = event_rows(f"LAST SEEN  TYPE  REASON  OBJECT  MESSAGE\n{line}\n")
    assert (row["kind"], row["name"], row["age_s"]) == ("replicaset", "page-5d8f7c9b6d", 37.0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("2m54s", 174.0), ("3d4h", 273_600.0), ("<unknown>", None), ("", None)]
)
def test_ages_are_seconds(text: str, seconds: float | None) -> None:
    assert parse_age(text) == seconds


def test_a_table_has_its_columns_by_name() -> None:
    text = "NAME    STATUS   RESTARTS      AGE\npage-1  Running  2 (30s ago)   90s\n"
    assert table(text) == [
        {"NAME": "page-1", "STATUS": "Running", "RESTARTS": "2 (30s ago)", "AGE": "90s"}
    ]
    assert table("Error from server (Forbidden): pods is forbidden") == []


def test_what_describe_does_not_print_comes_from_what_was_applied() -> None:
    commands = {
        "kubectl describe persistentvolumeclaims data -n bakery": CLAIM,
        "kubectl describe pv disk": VOLUME,
        "kubectl get deployments ledger -n bakery -o yaml": MANIFEST,
        "kubectl get services -n bakery": "",
    }
    snapshot = read_record(SystemRecord(commands))
    (claim,) = snapshot.claims
    assert (claim.phase, claim.modes, claim.storage_class) == ("Pending", ("ReadWriteMany",), "")
    # It was applied, and the list of services is empty.
    assert snapshot.services == ()
    assert ("service", "orders") in snapshot.declared


def test_logs_units_and_connections_are_read() -> None:
    status = "kubelet.service - Kubelet\n   Active: inactive (dead) since Mon\n"
    commands = {
        "ssh one systemctl status kubelet": status,
        "nc -z orders 7000": "Connection Failed",
        "nc -z page 8000": "page (10.0.0.8:8000) open",
        "kubectl logs deployment/page -n bakery": "error: one\nerror: two\n",
        "kubectl get pods -n bakery -l app=page": "NAME  STATUS\nstranger  Running\n",
        'kubectl get "': "not a command",
    }
    snapshot = read_record(SystemRecord(commands))
    assert snapshot.units == {("one", "kubelet"): "inactive (dead) since Mon"}
    assert snapshot.reached == {("orders", 7000): False, ("page", 8000): True}
    assert snapshot.logs == {"page": ("error: one", "error: two")}
    assert snapshot.pods == ()


def test_a_record_is_diagnosed_with_its_evidence_and_the_offered_name() -> None:
    reader = find_reader("kubernetes")
    assert isinstance(reader, RecordReader)
    record = SystemRecord(
        {
            "kubectl describe pods page-5d8f7c9b6d-x2k4p -n bakery": POD.replace(
                "heat' in", "heat' of"
            )
        }
    )
    diagnosis = reader.diagnose(record, ("short_of_memory", "killed_by_oom"))
    assert diagnosis is not None
    assert (diagnosis.cause, diagnosis.target) == ("killed_by_oom", "page")
    assert "OOMKilled" in diagnosis.evidence[0].sentence
    assert 0.0 < diagnosis.confidence <= 1.0
    assert all(each.why_rejected for each in diagnosis.alternatives)
    assert diagnosis.alternatives


def test_a_reader_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingPluginError, match="read records of 'abacus'"):
        find_reader("abacus")


def test_what_nothing_explains_is_unknown() -> None:
    reader = find_reader("kubernetes")
    assert reader.diagnose(SystemRecord({})) is None
    well = (
        POD.replace("OOMKilled", "Completed")
        .replace("False", "True")
        .replace("Count:  4", "Count:  0")
    )
    assert reader.diagnose(SystemRecord({"kubectl describe pod page-1 -n bakery": well})) is None
    # No name that is offered means what was found.
    record = SystemRecord({"kubectl describe pod page-1 -n bakery": POD})
    assert reader.diagnose(record, ("lost_secret",)) is None


@pytest.mark.parametrize("kind", ["pod", "service", "node", "resourcequota", "deployment", "thing"])
@pytest.mark.parametrize("text", ["", "Error from server (NotFound)", "Name:", "\x00:\n  :\n", POD])
def test_strange_text_is_no_error(kind: str, text: str) -> None:
    snapshot = build_snapshot([parse_description(kind, text)])
    assert snapshot.names.get(kind, frozenset()) <= {"page-5d8f7c9b6d-x2k4p"}
