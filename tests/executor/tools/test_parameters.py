"""Arguments are validated in one go: nothing crashes, and every error is told."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as some

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.executor.tools.parameters import (
    Invalid,
    Validated,
    check_arguments,
    near,
    parse_pairs,
    validate,
)
from tests.every import every

SPEC = ToolSpec(
    "sample",
    "It does nothing.",
    (
        Parameter("name", "a name", minimum=1, maximum=8),
        Parameter("count", "a count", ParameterType.INTEGER, minimum=0, maximum=10),
        Parameter("ratio", "a ratio", ParameterType.NUMBER, required=False, default=0.5),
        Parameter("force", "a flag", ParameterType.BOOLEAN, required=False, default=False),
        Parameter("words", "words", ParameterType.LIST, required=False, maximum=3),
        Parameter("table", "a table", ParameterType.MAP, required=False),
        Parameter("how", "how", required=False, default="slow", choices=("slow", "fast")),
    ),
    Risk.LOW,
    changes=False,
)
TYPES = {one.name: one.type for one in SPEC.parameters}
# What fits each of the parameters.
FITTING: dict[str, some.SearchStrategy[object]] = {
    "name": some.text(min_size=1, max_size=8),
    "count": some.integers(0, 10),
    "ratio": some.floats(allow_nan=False, allow_infinity=False) | some.integers(-5, 5),
    "force": some.booleans(),
    "words": some.lists(some.text(), max_size=3),
    "table": some.dictionaries(some.text(), some.text()),
    "how": some.sampled_from(["slow", "fast"]),
}
ANYTHING = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text() | some.binary(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner) | some.tuples(inner),
    max_leaves=8,
)
NAMES = some.sampled_from([*TYPES, "nmae", "other"]) | some.text()


def _errors(arguments: Mapping[str, object]) -> tuple[str, ...]:
    found = validate(SPEC, arguments)
    return found.errors if isinstance(found, Invalid) else ()


@given(some.dictionaries(NAMES, ANYTHING, max_size=8))
def test_no_arguments_at_all_make_it_crash(arguments: dict[str, object]) -> None:
    found = validate(SPEC, arguments)
    told = " ".join(_errors(arguments))
    for name in arguments:
        if name not in TYPES:
            assert repr(name[:60]) in told  # every unknown one is told, whatever else is wrong
    for name in ("name", "count"):
        if arguments.get(name) is None:
            assert f"{name!r} is missing" in told
    if isinstance(found, Validated):
        assert {"name", "count", "ratio", "force", "how"} <= set(found.arguments) <= set(TYPES)
        assert validate(SPEC, found.arguments) == found


@given(
    some.fixed_dictionaries(
        {"name": FITTING["name"], "count": FITTING["count"]},
        optional={name: FITTING[name] for name in ("ratio", "force", "words", "table", "how")},
    ),
    some.sampled_from(list(TYPES)),
    ANYTHING,
)
def test_one_that_is_wrong_is_told_and_only_that_one(
    arguments: dict[str, object], name: str, value: object
) -> None:
    assert _errors(arguments) == ()
    errors = _errors({**arguments, name: value})
    assert all(error.startswith(repr(name)) for error in errors)


@given(some.sets(some.sampled_from(list(TYPES)), min_size=1))
def test_as_many_errors_as_there_are_wrong_ones(names: set[str]) -> None:
    right = {"name": "a", "count": 1}
    errors = _errors({**right, **{name: object() for name in names}})
    assert len(errors) == len(names)


@every(
    ("name", "value", "why"),
    [
        ("count", True, "must be an integer, but is true or false."),
        ("count", "1", "must be an integer, but is a string."),
        ("count", 1.0, "must be an integer, but is a number."),
        ("count", 11, "must be between 0 and 10."),
        ("count", -1, "must be between 0 and 10."),
        ("count", 10**400, "must be between 0 and 10."),
        ("ratio", math.nan, "must be a number, but is not a finite number."),
        ("ratio", math.inf, "must be a number, but is not a finite number."),
        ("ratio", False, "must be a number, but is true or false."),
        ("force", 1, "must be true or false, but is an integer."),
        ("force", "true", "must be true or false, but is a string."),
        ("name", "", "must be between 1 and 8 characters long."),
        ("name", 7, "must be a string, but is an integer."),
        ("words", "abc", "must be a list of strings, but is a string."),
        ("words", ["a", 1], "must be a list of strings, but is a list with an integer in it."),
        ("words", ["a"] * 4, "must be at most 3 items long."),
        ("table", {"a": 1}, "must be a map of strings, but is a map."),
        ("table", [], "must be a map of strings, but is a list."),
        ("how", "never", "must be one of slow, fast."),
    ],
)
def test_what_is_wrong_is_told(name: str, value: object, why: str) -> None:
    assert _errors({"name": "a", "count": 1, name: value}) == (f"{name!r} {why}",)


def test_all_of_it_is_told_at_once() -> None:
    found = check_arguments(SPEC, {"nmae": "a", "count": True, "how": "never"})
    assert isinstance(found, Result)
    assert (found.outcome, found.exit_code) == (Outcome.RAN, 2)
    assert (found.category, found.data) == (FailureCategory.SYNTAX, {"errors": 4})
    for part in ("Did you mean 'name'?", "'name' is missing", "'count' must", "'how' must"):
        assert part in found.stderr
    assert near("zzz", ["name"]) == ""
    many = Invalid("sample", tuple(f"{number}." for number in range(60)))
    assert many.sentence.endswith(" And 10 more.")
    assert many.result.data == {"errors": 60}


def test_a_value_is_never_shown() -> None:
    wrong = {"name": "hunter2-hunter2", "count": "hunter2", "how": "hunter2", "words": "hunter2"}
    assert len(_errors(wrong)) == 4
    assert "hunter2" not in " ".join(_errors(wrong))


def test_defaults_are_filled_in_and_values_are_taken_by_their_types() -> None:
    found = validate(SPEC, {"name": "a", "count": 2, "words": ["x", "y"], "table": {"k": "v"}})
    assert isinstance(found, Validated)
    assert (found.text("name"), found.integer("count"), found.number("ratio")) == ("a", 2, 0.5)
    assert (found.flag("force"), found.words("words"), found.table("table")) == (
        *(False, ("x", "y"), {"k": "v"}),
    )
    assert (found.text("gone"), found.words("gone"), found.table("gone")) == ("", (), {})
    assert validate(SPEC, {"name": "a", "count": 2, "ratio": None}) == validate(
        SPEC, {"name": "a", "count": 2}
    )


def test_texts_are_read_as_their_parameter_says() -> None:
    line = "name=a=b count=3 ratio=1e3 force=true words=x words=y table=k=v table=l= how=fast"
    found, errors = parse_pairs(SPEC, line.split())
    assert errors == []
    assert found == {
        "name": "a=b",
        "count": 3,
        "ratio": 1000.0,
        "force": True,
        "how": "fast",
        "words": ["x", "y"],
        "table": {"k": "v", "l": ""},
    }
    found, errors = parse_pairs(
        SPEC, ["name", "count=x", "count=1_0", "table=k", "force=yes", "name=a"]
    )
    assert len(errors) == 3
    assert found == {"count": "x", "table": {}, "force": "yes", "name": "a"}
    assert len(_errors(found)) == 2


@given(some.lists(some.builds("{}={}".format, NAMES, some.text()) | some.text()))
def test_every_text_is_read_or_told(pairs: list[str]) -> None:
    found, errors = parse_pairs(SPEC, pairs)
    assert found.keys() == {pair.partition("=")[0] for pair in pairs if "=" in pair}
    assert len(errors) >= sum("=" not in pair for pair in pairs)
    checked = validate(SPEC, found)
    assert isinstance(checked, Validated) or checked.errors
