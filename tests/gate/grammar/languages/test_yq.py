"""yq: expressions that only compute are proven, whichever of the two yq reads them."""

from __future__ import annotations

from operator_sre.gate.grammar.languages.jq import yq
from tests.every import every

COMPUTES = [
    ".",
    ".a.b",
    ".spec.node-selector.zone",
    ".items[0].metadata.name",
    '.metadata.labels["app.kubernetes.io/name"]',
    '.a == "x"',
    '.[] | select(.kind == "Service") | .metadata.name',
    'select(.text == "env(HOME)")',
    "keys | .[0]",
    "to_entries | .[] | .key",
    '.a = "b"',
    ".a |= . + 1",
    "del(.a)",
    "select(di == 0)",
    "select(fi == 0) * select(fi == 1)",
    '.. | select(tag == "!!str")',
    "sort_keys(..)",
    '[.[] | {"name": .name}]',
    ".a | to_json",
    '.a // "none"',
]
REFUSED = [
    ("env(HOME)", "?"),
    ("strenv(HOME)", "?"),
    (".a = env(HOME)", "?"),
    (".a | envsubst", "?"),
    ("{envsubst: 1}", "?"),
    ("$ENV.HOME", "?"),
    (".my-env", "?"),
    ('load("x.yml")', "The operator 'load'"),
    ('. * load("x.yml")', "The operator 'load'"),
    ('load_str("/etc/hosts")', "The operator"),
    ("eval(.x)", "!The operator 'eval'"),
    ('system("id")', "!The operator 'system'"),
    ('.a"|env(X)|.b"', "Not every yq"),
    ('.a+"|env(X)|"', "Not every yq"),
    ('"\\(env(HOME))"', "A comment or"),
    (". # remark", "A comment or"),
    ("lengthenv(HOME)", "The function"),
    ("nothing", "The function"),
    ('"open', "A string"),
]


@every("text", COMPUTES)
def test_an_expression_that_only_computes_is_proven(text: str) -> None:
    assert yq(text) is None


@every(("text", "start"), REFUSED)
def test_anything_else_has_a_reason(text: str, start: str) -> None:
    reason = yq(text)
    assert reason is not None
    assert reason.startswith(start)
