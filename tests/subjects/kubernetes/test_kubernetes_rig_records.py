"""What the API of the real rig had when something was broken: the same finding, the same cause."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from operator_sre.subjects.kubernetes.analysis import explain, find_symptoms
from operator_sre.subjects.kubernetes.facts import facts_of
from operator_sre.subjects.kubernetes.resources import WATCHED
from operator_sre.subjects.kubernetes.store import ObjectStore, decode
from operator_sre.subjects.kubernetes.subject import target_name
from operator_sre.subjects.kubernetes.symptoms import Symptom
from tests.subjects.kubernetes.rig.cases import CASES

RECORDS = Path(__file__).parent / "rig" / "records"
BY_NAME = {case.name: case for case in CASES}
NAMES = sorted(path.name.removesuffix(".json.gz") for path in RECORDS.glob("*.json.gz"))
Record = dict[str, Any]


def read(name: str) -> Record:
    """One record."""
    found: Record = json.loads(gzip.decompress((RECORDS / f"{name}.json.gz").read_bytes()))
    return found


def fill(record: Record) -> ObjectStore:
    """A store with everything that was recorded."""
    store = ObjectStore(facts_of)
    for resource in WATCHED:
        keys = set()
        for item in record["objects"].get(resource.kind, ()):
            kept = dict(item)
            store.put(resource.kind, kept, received=0.0)
            metadata = item["metadata"]
            keys.add((str(metadata.get("namespace") or ""), str(metadata["name"])))
        if resource.kind != "serviceaccount":
            store.keep_only(resource.kind, keys)
    return store


def test_there_are_records_of_most_classes() -> None:
    assert len(NAMES) >= 30
    assert len({BY_NAME[name].group for name in NAMES}) >= 9


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_break_is_found_and_its_cause_named(name: str) -> None:
    case, record = BY_NAME[name], read(name)
    store, now = fill(record), datetime.fromisoformat(record["now"])
    symptoms = find_symptoms(store, now, record["logs"])
    hits = {
        target_name(each.kind, each.namespace, each.name)
        for each in symptoms
        if each.invariant == case.invariant
    }
    assert set(record["hits"]) <= hits
    explained = explain(store, symptoms, now, record["logs"])
    blamed = {
        (each.cause, target_name(each.kind, each.namespace, each.name).removeprefix(place))
        for each in explained.values()
        if (place := f"{record['namespace']}/")
    }
    wanted = case.blamed.replace("{namespace}", record["namespace"])
    assert any((cause, wanted) in blamed for cause in case.causes), blamed


@pytest.mark.parametrize("name", NAMES)
def test_no_record_has_a_secret_or_the_value_of_a_setting(name: str) -> None:
    record = read(name)
    assert "secret" not in record["objects"]
    assert all("data" not in each for each in record["objects"].get("configmap", ()))


@pytest.mark.parametrize("name", NAMES)
def test_a_store_gives_back_what_was_recorded(name: str) -> None:
    record = read(name)
    pods = [decode(stored) for stored in fill(record).of("pod").values()]
    assert pods == record["objects"].get("pod", [])


def test_what_calls_a_broken_workload_is_explained_by_it() -> None:
    record = read("dependency-root")
    store, now = fill(record), datetime.fromisoformat(record["now"])
    symptoms = find_symptoms(store, now, record["logs"])
    # Both callers stopped being ready in the same second; the record has them a moment before.
    detail = "container app runs and is not ready"
    callers = [
        Symptom("pods_ready", "deployment", record["namespace"], name, detail)
        for name in ("backend", "frontend")
    ]
    explained = explain(store, [*symptoms, *callers], now, record["logs"])
    assert {(explained[each].cause, explained[each].name) for each in callers} == {
        ("crash", "database")
    }
