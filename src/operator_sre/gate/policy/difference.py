"""What became tighter and what became looser between two books. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_sre.gate.policy.policy import Rulebook
from operator_sre.gate.policy.rule import Decision, PolicyRule
from operator_sre.gate.policy.schema import ROLES

__all__ = ["Effect", "PolicyChange", "differences"]


class Effect(StrEnum):
    """What a change does to what runs by itself."""

    TIGHTER = "tighter"
    LOOSER = "looser"
    CHANGED = "changed"


class PolicyChange(msgspec.Struct, frozen=True):
    """One thing that differs."""

    effect: Effect
    what: str
    sentence: str


def differences(old: Rulebook, new: Rulebook) -> list[PolicyChange]:
    """Everything that differs, by section."""
    return [
        *_rules(old.rules, new.rules),
        *_lists("sensitive path", old.sensitive, new.sensitive, grows=Effect.TIGHTER),
        *_lists("writable path", old.writable, new.writable, grows=Effect.LOOSER),
        *_lists("egress deny", old.egress.deny, new.egress.deny, grows=Effect.TIGHTER),
        *_lists("egress allow", old.egress.allow, new.egress.allow, grows=Effect.LOOSER),
        *_lists("people egress", old.egress.people, new.egress.people, grows=Effect.LOOSER),
        *_lists("script egress", old.egress.scripts, new.egress.scripts, grows=Effect.LOOSER),
        *_lists("service deny", old.services.deny, new.services.deny, grows=Effect.TIGHTER),
        *_lists("service allow", old.services.allow, new.services.allow, grows=Effect.LOOSER),
        *_ordered("approval", _approval(old), _approval(new), [*reversed(Decision)]),
        *_ordered("tool", _tools(old, new), _tools(new, old), [*reversed(Decision)]),
        *_ordered("mode", old.modes, new.modes, [*Mode]),
        *_ordered("role", old.roles, new.roles, [*ROLES]),
        *_numbers("limit", old.limits, new.limits),
        *_numbers("budget", old.budgets, new.budgets),
        *(
            PolicyChange(Effect.CHANGED, f"grant {name}", "changed")
            for name in _keys(old.grants, new.grants)
            if old.grants.get(name) != new.grants.get(name)
        ),
        *(
            PolicyChange(
                Effect.LOOSER, f"override {one.rule}", f"{one.by} took it away: {one.reason}"
            )
            for one in sorted({*new.overrides} - {*old.overrides}, key=lambda one: one.rule)
        ),
        *(
            PolicyChange(Effect.TIGHTER, f"override {one.rule}", "it is not overridden any more")
            for one in sorted({*old.overrides} - {*new.overrides}, key=lambda one: one.rule)
        ),
    ]


def _rules(old: Sequence[PolicyRule], new: Sequence[PolicyRule]) -> Iterator[PolicyChange]:
    before, after = {rule.id: rule for rule in old}, {rule.id: rule for rule in new}
    for id in _keys(before, after):
        one, other = before.get(id), after.get(id)
        if one == other:
            continue
        if one is None and other is not None:
            effect = Effect.LOOSER if other.level is Level.SAFE else Effect.TIGHTER
            yield PolicyChange(effect, f"rule {id}", f"{other.level} was added: {other.why}")
        elif other is None and one is not None:
            effect = Effect.TIGHTER if one.level is Level.SAFE else Effect.LOOSER
            yield PolicyChange(effect, f"rule {id}", f"{one.level} was taken away: {one.why}")
        elif one is not None and other is not None and one.level is not other.level:
            effect = Effect.TIGHTER if other.level > one.level else Effect.LOOSER
            yield PolicyChange(effect, f"rule {id}", f"{one.level} became {other.level}")
        elif one is not None and other is not None:
            names = [name for name in one.__struct_fields__ if name != "origin"]
            fields = [name for name in names if getattr(one, name) != getattr(other, name)]
            named = ", ".join(fields) or "where it is written"
            yield PolicyChange(Effect.CHANGED, f"rule {id}", f"{named} changed")


def _lists(
    what: str, old: Iterable[str], new: Iterable[str], *, grows: Effect
) -> Iterator[PolicyChange]:
    shrinks = Effect.LOOSER if grows is Effect.TIGHTER else Effect.TIGHTER
    before, after = set(old), set(new)
    for one in sorted(after - before):
        yield PolicyChange(grows, what, f"{one} was added")
    for one in sorted(before - after):
        yield PolicyChange(shrinks, what, f"{one} was taken away")


def _approval(book: Rulebook) -> Mapping[str, str]:
    return {risk: book.decision(risk) for risk in Risk}


def _tools(book: Rulebook, other: Rulebook) -> Mapping[str, str]:
    """What is said of each tool that one of two books names; silence leaves it to its risk."""
    return {name: book.tools.get(name, Decision.AUTO) for name in {**book.tools, **other.tools}}


def _ordered(
    what: str, old: Mapping[str, str], new: Mapping[str, str], order: Sequence[str]
) -> Iterator[PolicyChange]:
    """Words that allow more the later they come in an order."""
    for key in _keys(old, new):
        one, other = old.get(key), new.get(key)
        if one == other:
            continue
        effect = Effect.CHANGED
        if one is not None and other is not None:
            looser = order.index(other) > order.index(one)
            effect = Effect.LOOSER if looser else Effect.TIGHTER
        yield PolicyChange(
            effect, f"{what} {key}", f"{one or 'nothing'} became {other or 'nothing'}"
        )


def _numbers(
    what: str, old: Mapping[str, float], new: Mapping[str, float]
) -> Iterator[PolicyChange]:
    for key in _keys(old, new):
        one, other = old.get(key), new.get(key)
        if one == other:
            continue
        effect = Effect.CHANGED
        if one is not None and other is not None:
            effect = Effect.LOOSER if other > one else Effect.TIGHTER
        shown = ["the default" if number is None else f"{number:g}" for number in (one, other)]
        yield PolicyChange(effect, f"{what} {key}", f"{shown[0]} became {shown[1]}")


def _keys(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys((*old, *new)))
