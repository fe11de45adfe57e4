"""A secret that is picked by its name is printed without it, so that no redaction finds it."""

from __future__ import annotations

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from operator_sre.gate.grammar.picked_values import PICKED, PICKING, picks_secret

POLICY = Policy()
NAMES = (
    *("password", "db_password", "rootPassword", "passwd", "token", "access_token", "sessionToken"),
    *("secret", "clientSecret", "api_key", "apiKey", "secret_access_key", "private_key", "pwd"),
    *("credentials", "passphrase", "connectionString", "AUTH_TOKEN"),
)
FORMS = (
    "jq -r '.{}' app.json",
    "jq -r '.a[] | .{}' app.json",
    "jq -r '.a[\"{}\"]' app.json",
    "jq '[.[] | {{x: .{}}}]' app.json",
    "yq -r .a.{} app.yaml",
    "helm get values x -o json | jq -r .a.{}",
    "awk -F= '/^{}=/{{print $2}}' app.conf",
    "awk '$1 == \"{}\" {{ print $2 }}' app.conf",
    "awk 'sub(/{}=/, \"\"){{print}}' app.conf",
    "sed -n 's/^{}=//p' app.conf",
    "sed -nE 's/.*{}: (.*)/\\1/p' app.conf",
    "grep -oP '{}=\\K.*' app.conf",
    "grep -ohE '{}=[^ ]+' app.log",
    "rg -o '{}=(.*)' -r '$1' app.conf",
    "kubectl get pods -o jsonpath='{{.items[*].metadata.annotations.{}}}'",
    "kubectl get pods -o custom-columns=X:.metadata.annotations.{}",
    "docker inspect -f '{{{{.Config.Labels.{}}}}}' web",
    "docker inspect --format '{{{{index .Config.Labels \"{}\"}}}}' web",
    "aws rds describe-db-instances --query 'DBInstances[].{}'",
)
SAFE = (
    "grep 'Failed password' /var/log/auth.log | awk '{print $11}' | sort | uniq -c",
    "awk '/Failed password for/ {print $(NF-3)}' /var/log/auth.log",
    "jq '.usage.total_tokens' app.json",
    "jq 'del(.password)' app.json",
    "jq '.users[] | select(has(\"token\")) | .name' app.json",
    "grep -in token app.conf",
    "awk '/password/' app.conf",
    "sed -n '/password/p' app.conf",
    "kubectl get ingress -o jsonpath='{.spec.tls[*].secretName}'",
    "kubectl logs token-service --tail=5",
    "docker logs token",
    "aws s3api list-objects --bucket b --query NextToken",
    "jq .nextPageToken app.json",
)


@pytest.mark.parametrize("person", [True, False])
def test_a_value_that_is_picked_by_the_name_of_a_secret_is_not_safe(person: bool) -> None:
    lines = [form.format(name) for form in FORMS for name in NAMES]
    assert len(lines) > 300
    verdicts = [judge(Action.shell(line), POLICY, person=person) for line in lines]
    assert [found.action.command for found in verdicts if found.level is Level.SAFE] == []


def test_the_forms_themselves_are_safe() -> None:
    for form in FORMS:
        assert judge(Action.shell(form.format("name")), POLICY, person=True).level is Level.SAFE, (
            form
        )


@pytest.mark.parametrize("line", SAFE)
def test_what_prints_the_name_or_no_secret_is_safe(line: str) -> None:
    assert judge(Action.shell(line), POLICY, person=True).level is Level.SAFE


def test_other_commands_are_not_asked() -> None:
    assert "cat" not in PICKING
    assert picks_secret("jq", [".token"]) == PICKED
    assert picks_secret("jq", [".tokens"]) == ""
