"""The OpenAPI document says what is true: every answer that requests bring forth fits it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from operator_sre.faces.api import schema as api_schema
from operator_sre.faces.api.schema import document_of
from tests.every import expect_each
from tests.faces.api.world import World, operations
from tests.leaks import outlives_test

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"
# A cursor that we did not give out, or a time that is none, fits every schema and makes no sense.
LEFT_OUT = ["positive_data_acceptance"]


def _probe(
    world: World, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode, examples: int
) -> None:
    load_all_checks()
    without: list[Any] = [CHECKS.get_one(name) for name in LEFT_OUT]
    headers = {"Authorization": f"Bearer {world.secrets['admin']}"}

    @seed(1)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(
            app=world.api, base_url="http://localhost", headers=headers, excluded_checks=without
        )

    try:
        run()
    except FailureGroup as found:
        raise AssertionError("\n".join(str(one) for one in found.exceptions)) from None


def _has_parts(world: World, operation: APIOperation[Any, Any, Any, Any]) -> bool:
    told = world.api.openapi()["paths"][operation.path][operation.method.lower()]
    return bool(told.get("parameters") or told.get("requestBody"))


def _probe_all(world: World, examples: int) -> None:
    schema = schemathesis.openapi.from_dict(world.api.openapi())
    schema.app = world.api
    # Every request has our token; what becomes of one without is a test of its own.
    schema.config.generation.with_security_parameters = False
    found: list[Any] = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    assert len(found) == len(operations(world.api))
    cases = [
        (one.label, mode.value)
        for one in found
        for mode in GenerationMode
        # Nothing can be wrong with a request that has no parts.
        if mode is GenerationMode.POSITIVE or _has_parts(world, one)
    ]
    by_label = {one.label: one for one in found}
    with outlives_test():  # Schemathesis keeps its client, with a thread, until the process ends
        expect_each(
            cases,
            lambda label, mode: _probe(world, by_label[label], GenerationMode(mode), examples),
        )


def test_no_request_brings_forth_what_is_not_in_the_document(world: World) -> None:
    _probe_all(world, examples=2)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_no_request_of_very_many_brings_forth_what_is_not_in_the_document(world: World) -> None:
    _probe_all(world, examples=100)


def test_the_document_in_docs_is_fresh(world: World) -> None:
    made = json.dumps(document_of(world.api), indent=1, sort_keys=True) + "\n"
    assert DOCUMENT.read_text() == made, "write it anew with: python -m tests.faces.api.writing"


def test_the_server_shows_its_document(world: World) -> None:
    shown = world.call("GET", "/v1/openapi.json")
    assert shown.headers["content-type"] == "application/vnd.oai.openapi+json"
    assert shown.json() == json.loads(DOCUMENT.read_text())


def test_every_answer_has_a_version_and_every_error_one_shape(world: World) -> None:
    document = world.api.openapi()
    schemas = document["components"]["schemas"]
    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for code, answer in operation["responses"].items():
                content = answer["content"].get("application/json")
                if content is None:
                    assert path in ("/v1/events", "/v1/openapi.json", "/metrics")
                    continue
                ref = content["schema"].get("$ref", "").rpartition("/")[2]
                if int(code) >= 400:
                    assert ref == "ErrorDocument"
                schema = schemas[ref] if ref else content["schema"]
                assert "schema_version" in schema["required"], (path, ref)
    assert api_schema.REF.startswith("#/components")
