"""Expressions: what they mean, what they refuse, and that none of them can do harm."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_sre.subjects.declarative.expression import (
    EXPRESSION_CHARACTERS_MAX,
    Expression,
    ExpressionError,
    Reference,
    compile_expression,
)
from operator_sre.subjects.declarative.invariants import KIND, DeclaredInvariant, blanks
from tests.contract.clock import NOON
from tests.measuring import GROWTH_MAX, TIMES, growth

READINGS: dict[str, Value] = {
    KIND: "web",
    "page.up": True,
    "page.status": 200,
    "page.latency_ms": 12.5,
    "page.five": 5,
    "page.zero": 0,
    "page.state": "ready",
    "page.none": None,
}


def anything(reference: Reference) -> str:
    """Every value may be named."""
    return ""


def expression(text: str) -> Expression:
    return compile_expression(text, anything)


def judged(text: str, *more: Seen, says: str = "") -> tuple[Health, str]:
    """What an invariant with this expression says of a target with all these readings."""
    invariant = DeclaredInvariant("i", Severity.INFO, 0.0, expression(text), says=says)
    found = list(invariant.check(Observation("s", NOON, (Seen("web-1", READINGS), *more))))
    return found[0].health, found[0].detail


@pytest.mark.parametrize(
    "text",
    [
        "page.up",
        "!(!page.up)",
        "page.status == 200",
        "page.status == 200.0",
        "page.latency_ms < 13",
        "page.five / 2 == 2.5",
        "page.five * 2 + 1 == 11",
        "-page.five < 0",
        "page.five / 2 > 2 && page.five - 0.5 < 5",
        "page.status in [200, 204]",
        "page.state in ['ready', 'steady']",
        "page.state == 'ready' || page.status > 1e9",
        "page.state.startsWith('re') && page.state.contains('ad') && page.state.endsWith('y')",
        "page.state.matches('^r[a-z]+$')",
        "page.state.size() == 5 && size(page.state) > 4",
        "page.up ? page.five > 4 : page.five > 100",
        "has(page.up) && !has(page.nothing)",
        "!has(page.nothing) || page.nothing > 3",
        "double('2.5') * 2 == page.five",
        "string(page.five) == '5'",
        "page . status == 200 // 2 * 2".replace(" // 2 * 2", ""),
        'page.state != "broken"',
    ],
)
def test_what_holds(text: str) -> None:
    assert judged(text) == (Health.HEALTHY, "")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("page.status == 500", "'page.status == 500' does not hold: page.status is 200"),
        ("page.latency_ms < 12.5", "page.latency_ms is 12.5"),
        ("page.five / page.zero < 1", "page.five is 5, page.zero is 0"),
        ("!page.up", "page.up is true"),
        # Decided by what was seen, whatever the other side would have said.
        ("!page.up && page.missing < 500", "page.up is true"),
        ("page.missing < 500 && !page.up", "page.up is true"),
    ],
)
def test_what_does_not_hold_is_told_with_its_values(text: str, detail: str) -> None:
    health, told = judged(text)
    assert health is Health.BROKEN
    assert detail in told


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("page.missing > 1", "page.missing was not observed"),
        ("page.none == 1", "page.none was not observed"),
        # Whatever the other side says: what is named must be seen.
        ("page.up || page.missing > 1", "page.missing was not observed"),
        ("page.missing > 1 || page.up", "page.missing was not observed"),
        ("page.state > 1", "values of different types (page.state is ready)"),
        ("page.status + page.state == 'x'", "values of different types"),
        ("page.status && page.up", "values of different types"),
        ("page.status", "neither true nor false"),
        # CEL calls these different, for ever and silently.
        ('page.status != "500"', "values of different types (page.status is 200)"),
        ('"500" != page.status', "values of different types"),
        ("page.state != 500", "values of different types"),
        ("page.up != 'false'", "values of different types"),
        ("!(page.status in ['500'])", "values of different types"),
        ("page.status != page.state", "values of different types"),
        ("page.zero / page.zero < 1", "cannot be evaluated"),
        ("has(page.status) && page.status != 'x'", "values of different types"),
    ],
)
def test_what_makes_no_sense_is_unknown_and_never_healthy(text: str, detail: str) -> None:
    health, told = judged(text)
    assert health is Health.UNKNOWN
    assert detail in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it is empty"),
        ("page.up &", "'&&'"),
        ("page.status = 200", "'=='"),
        ("page.status % 2 == 0", "no remainder"),
        ("page", "a value is probe.field"),
        ("page.up && foo", "'foo' is not known"),
        ("sizee(page.state) > 1", "Did you mean 'size'?"),
        ("page.state.length() > 1", "'length' is not known here"),
        ("int(page.five) > 1", "'int' is not known"),
        ("[1, 2].all(x, x > 0)", "'all' is not known here"),
        ("[page.five].map(x, x)[0] > 1", "'map' is not known here"),
        ("page.five > 0x10", "is not supported"),
        ("page.five > 5u", "is not supported"),
        ("page.five > 1e999", "invalid double"),
        ("{'a': 1}.a == 1", "is not supported"),
        ("b'x' == page.state", "'b' is not known"),
        ("page.state.matches('(')", "not a valid pattern"),
        ("page.state.matches(page.state)", "one pattern in quotes"),
        ("page.state.matches('" + "(a{500}){500}" + "')", "not a valid pattern"),
        ("has(page)", "has()"),
        ("has(1)", "has()"),
        ("targets[0].page.up", "another target"),
        ("page.up)", "at character 8"),
        ("__import__('os')", "not known"),
        ("page.up; page.up", "is not supported"),
        ("null == page.state", "'null' is not known"),
        ("x" * (EXPRESSION_CHARACTERS_MAX + 1), "longer than"),
    ],
)
def test_what_is_no_expression_is_told_in_a_sentence(text: str, told: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        expression(text)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_reference_is_refused_with_the_reason_given() -> None:
    with pytest.raises(ExpressionError, match=r"never heard of page\.up"):
        compile_expression("page.up", lambda reference: f"never heard of {reference}")


def test_another_target_can_be_named() -> None:
    other = Seen("db-1", {KIND: "database", "cache.clients": 7})
    text = 'targets["db-1"].cache.clients < 10 && page.up'
    assert expression(text).references == (
        Reference("cache", "clients", "db-1"),
        Reference("page", "up"),
    )
    invariant = DeclaredInvariant(
        "i", Severity.INFO, 0.0, expression(text), on=frozenset({"web-1"})
    )
    seen = Seen("web-1", READINGS)
    (found,) = invariant.check(Observation("s", NOON, (seen, other)))
    assert found.health is Health.HEALTHY
    (blind,) = invariant.check(Observation("s", NOON, (seen,)))
    assert blind.health is Health.UNKNOWN
    assert blind.detail == 'targets["db-1"].cache.clients was not observed'


def test_an_invariant_speaks_of_its_kinds_and_names_only() -> None:
    held = expression("page.up")
    kinds = {"a": "web", "b": "database"}
    invariant = DeclaredInvariant("i", Severity.INFO, 0.0, held, on=frozenset({"web"}), kinds=kinds)
    looks = (Seen("a", {KIND: "web", "page.up": True}), Seen("b", {KIND: "database"}))
    assert [one.target for one in invariant.check(Observation("s", NOON, looks))] == ["a"]
    # Of what was not observed the description still knows the kind; of a stranger nobody does.
    blind = tuple(Seen(name, problem="it hangs") for name in ("a", "b", "stranger"))
    found = list(invariant.check(Observation("s", NOON, blind)))
    assert [(one.target, one.health) for one in found] == [
        ("a", Health.UNKNOWN),
        ("stranger", Health.UNKNOWN),
    ]
    assert "it hangs" in found[0].detail


def test_a_sentence_has_its_blanks_filled() -> None:
    says = "{target}: {page.status}, {page.latency_ms} ms, {page.none}, {page.up}"
    assert blanks(says) == ["target", "page.status", "page.latency_ms", "page.none", "page.up"]
    assert judged("!page.up", says=says)[1] == "web-1: 200, 12.5 ms, not known, true"


def test_a_sentence_from_outside_stays_short() -> None:
    seen = Seen("web-1", {"page.up": False, "page.error": "x" * 5000})
    invariant = DeclaredInvariant(
        "i", Severity.INFO, 0.0, expression("page.up"), says="{page.error}" * 9
    )
    (found,) = invariant.check(Observation("s", NOON, (seen,)))
    assert len(found.detail) <= 300


# How it begins, what is repeated, what stands in the middle, what is repeated again, how it ends;
# and how often it can be repeated before it is too long.
@pytest.mark.parametrize(
    ("parts", "size"),
    [
        (("page.state.matches('", "(a*)*", "b", "", "')"), 150),
        (("", "!", "page.up", "", ""), 990),
        (("", "(", "page.up", ")", ""), 400),
        (("page.five", "+1", "", "", " > 0"), 450),
        (("page.up", "&&page.up", "", "", ""), 100),
        (("", "[", "1", "]", " == page.state"), 400),
        (("", "page.up ? ", "page.up", " : page.up", ""), 48),
        (("'", "a", "", "", "' == page.state"), 900),
    ],
)
def test_no_expression_takes_longer_than_it_is_long(
    parts: tuple[str, str, str, str, str], size: int
) -> None:
    start, before, middle, after, end = parts

    def ask(count: int) -> None:
        with contextlib.suppress(ExpressionError):
            found = expression(f"{start}{before * count}{middle}{after * count}{end}")
            values: dict[str, Value] = {
                name: "a" * 200 if one.field == "state" else True if one.field == "up" else 5.0
                for name, one in found.needed
            }
            found.evaluate(values)

    for limit in (size, size // TIMES):
        assert growth(ask, limit // TIMES) <= GROWTH_MAX


_PARTS = st.sampled_from(
    [
        *("page.up", "page.status", "page.state", "has", "size", "(", ")", "[", "]", "&&", "||"),
        *("==", "!=", "<", "+", "-", "/", "!", "?", ":", ",", ".", "1", "2.5", "'x'", "true"),
        *("in", "matches", "targets", "map", "x", '"', "\\", "\n", "%", "{", "}", "é"),
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_PARTS, max_size=14))
def test_any_words_hold_or_not_or_are_refused(words: list[str]) -> None:
    with contextlib.suppress(ExpressionError):
        found = expression(" ".join(words))
        values = {name: READINGS.get(one.reading) for name, one in found.needed}
        assert found.evaluate(values) in (True, False)
