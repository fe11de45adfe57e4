"""JSON values: names decide, wherever they lie."""

from __future__ import annotations

import re

from operator_sre.ledger.redaction import Json, Redactor
from operator_sre.ledger.redaction.redactor import Field, Leaf, walk_value
from tests.every import every

MARKER = re.compile(r"\[REDACTED:[a-z0-9_]+:[0-9a-f]{8}\]")


def _short(value: Json) -> object:
    """The value with X for each marker."""

    def short(leaf: Leaf, field: Field) -> Leaf:
        assert isinstance(field, Field)
        return MARKER.sub("X", leaf) if isinstance(leaf, str) else leaf

    return walk_value(value, short, lambda key: MARKER.sub("X", key))


@every(
    ("value", "redacted"),
    [
        ({"password": "sunshine", "port": 1}, {"password": "X", "port": 1}),
        ({"a": [{"b": {"clientSecret": "sunshine"}}]}, {"a": [{"b": {"clientSecret": "X"}}]}),
        ({"password": 123456, "tokens": 123456}, {"password": "X", "tokens": 123456}),
        ({"password": None, "token": True}, {"password": None, "token": True}),
        ({"passwords": ["sunshine", "none"]}, {"passwords": ["X", "none"]}),
        ({"password": "${DB_PASSWORD}"}, {"password": "${DB_PASSWORD}"}),
        ({"errors": {"password": ["is too short"]}}, {"errors": {"password": ["is too short"]}}),
        ({"Authorization": "Bearer 0f3a9c1d2b4e"}, {"Authorization": "Bearer X"}),
        ({"Cookie": "a=b; sid=0f3a9c1d2b4e"}, {"Cookie": "a=b; sid=X"}),
        ([{"name": "DB_PASSWORD", "value": "sunshine"}], [{"name": "DB_PASSWORD", "value": "X"}]),
        ({"kind": "Secret", "data": {"a": "YWJj"}}, {"kind": "Secret", "data": {"a": "X"}}),
        (
            {"kind": "ConfigMap", "data": {"a": "YWJj"}},
            {"kind": "ConfigMap", "data": {"a": "YWJj"}},
        ),
        (["tool", "--password", "sunshine", "-v"], ["tool", "--password", "X", "-v"]),
        ({"command": "mysql -phunter2 -e x"}, {"command": "mysql -pX -e x"}),
        ({"body": '{"password":"hunter2"}'}, {"body": '{"password":"X"}'}),
        ({"auths": {"r": {"auth": "dXNlcjpodW50ZXIy"}}}, {"auths": {"r": {"auth": "X"}}}),
        ("password=hunter2", "password=X"),
        (("a", {"token": "abc123def"}), ["a", {"token": "X"}]),
        (3.5, 3.5),
    ],
)
def test_a_value_without_its_secrets(redactor: Redactor, value: Json, redacted: object) -> None:
    assert _short(redactor.value(value)) == redacted


def test_a_secret_in_a_key_goes_too(redactor: Redactor) -> None:
    key = "ghp_" + "a1B2" * 9
    (name,) = redactor.value({key: 1})  # type: ignore[misc]
    assert MARKER.fullmatch(str(name))


def test_the_order_of_fields_and_the_value_itself_stay(redactor: Redactor) -> None:
    value: dict[str, Json] = {"z": 1, "password": "sunshine", "a": [1, 2]}
    redacted = redactor.value(value)
    assert isinstance(redacted, dict)
    assert list(redacted) == ["z", "password", "a"]
    assert value["password"] == "sunshine"


def test_a_known_format_is_called_by_its_maker(redactor: Redactor) -> None:
    token = "ghp_" + "a1B2" * 9
    assert redactor.value({"password": token}) == {"password": redactor.text(token)}


def test_depth_is_no_limit(redactor: Redactor) -> None:
    value: Json = "password=hunter2"
    for _ in range(50_000):
        value = [value]
    redacted = redactor.value(value)
    while isinstance(redacted, list):
        (redacted,) = redacted
    assert MARKER.search(str(redacted))
