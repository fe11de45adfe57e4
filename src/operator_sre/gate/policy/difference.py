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
    subject: str
    sentence: str


def differences(old: Rulebook, new: Rulebook) -> list[PolicyChange]:
    """Everything that differs, by section."""
    return [
        *_compare_rules(old.rules, new.rules),
        *_compare_lists("sensitive path", old.sensitive, new.sensitive, grows=Effect.TIGHTER),
        *_compare_lists("writable path", old.writable, new.writable, grows=Effect.LOOSER),
        *_compare_lists("egress deny", old.egress.deny, new.egress.deny, grows=Effect.TIGHTER),
        *_compare_lists("egress allow", old.egress.allow, new.egress.allow, grows=Effect.LOOSER),
        *_compare_lists("people egress", old.egress.people, new.egress.people, grows=Effect.LOOSER),
        *_compare_lists(
            "script egress", old.egress.scripts, new.egress.scripts, grows=Effect.LOOSER
        ),
        *_compare_lists("service deny", old.services.deny, new.services.deny, grows=Effect.TIGHTER),
        *_compare_lists(
            "service allow", old.services.allow, new.services.allow, grows=Effect.LOOSER
        ),
        *_compare_words("approval", _approval(old), _approval(new), [*reversed(Decision)]),
        *_compare_words("tool", _tools(old, new), _tools(new, old), [*reversed(Decision)]),
        *_compare_words("mode", old.modes, new.modes, [*Mode]),
        *_compare_words("role", old.roles, new.roles, [*ROLES]),
        *_compare_numbers("limit", old.limits, new.limits),
        *_compare_numbers("budget", old.budgets, new.budgets),
        *(
            PolicyChange(Effect.CHANGED, f"grant {name}", "changed")
            for name in _keys(old.grants, new.grants)
            if old.grants.get(name) != new.grants.get(name)
        ),
        *(
            PolicyChange(Effect.CHANGED, f"approvers {risk}", _describe_chain(new, risk))
            for risk in _keys(old.chains, new.chains)
            if old.chains.get(risk) != new.chains.get(risk)
        ),
        *(
            PolicyChange(
                Effect.LOOSER,
                f"override {override.rule}",
                f"{override.by} removed it: {override.reason}",
            )
            for override in sorted(
                {*new.overrides} - {*old.overrides}, key=lambda override: override.rule
            )
        ),
        *(
            PolicyChange(
                Effect.TIGHTER, f"override {override.rule}", "it is not overridden any more"
            )
            for override in sorted(
                {*old.overrides} - {*new.overrides}, key=lambda override: override.rule
            )
        ),
    ]


def _compare_rules(old: Sequence[PolicyRule], new: Sequence[PolicyRule]) -> Iterator[PolicyChange]:
    before, after = {rule.id: rule for rule in old}, {rule.id: rule for rule in new}
    for id in _keys(before, after):
        rule, other = before.get(id), after.get(id)
        if rule == other:
            continue
        if rule is None and other is not None:
            effect = Effect.LOOSER if other.level is Level.SAFE else Effect.TIGHTER
            yield PolicyChange(effect, f"rule {id}", f"{other.level} was added: {other.why}")
        elif other is None and rule is not None:
            effect = Effect.TIGHTER if rule.level is Level.SAFE else Effect.LOOSER
            yield PolicyChange(effect, f"rule {id}", f"{rule.level} was removed: {rule.why}")
        elif rule is not None and other is not None and rule.level is not other.level:
            effect = Effect.TIGHTER if other.level > rule.level else Effect.LOOSER
            yield PolicyChange(effect, f"rule {id}", f"{rule.level} became {other.level}")
        elif rule is not None and other is not None:
            names = [name for name in rule.__struct_fields__ if name != "origin"]
            fields = [name for name in names if getattr(rule, name) != getattr(other, name)]
            named = ", ".join(fields) or "where it is written"
            yield PolicyChange(Effect.CHANGED, f"rule {id}", f"{named} changed")


def _compare_lists(
    name: str, old: Iterable[str], new: Iterable[str], *, grows: Effect
) -> Iterator[PolicyChange]:
    shrinks = Effect.LOOSER if grows is Effect.TIGHTER else Effect.TIGHTER
    before, after = set(old), set(new)
    for entry in sorted(after - before):
        yield PolicyChange(grows, name, f"{entry} was added")
    for entry in sorted(before - after):
        yield PolicyChange(shrinks, name, f"{entry} was removed")


def _approval(book: Rulebook) -> Mapping[str, str]:
    return {risk: book.decision(risk) for risk in Risk}


def _tools(book: Rulebook, other: Rulebook) -> Mapping[str, str]:
    """The decision on each tool that one of two books names; without one, its risk decides."""
    return {name: book.tools.get(name, Decision.AUTO) for name in {**book.tools, **other.tools}}


def _describe_chain(book: Rulebook, risk: str) -> str:
    steps = [
        f"{each.name} ({', '.join(each.people)}) for {each.wait_s / 60:g} minutes"
        for each in book.chains.get(risk, ())
    ]
    return f"asked: {', then '.join(steps)}" if steps else "no chain any more"


def _compare_words(
    name: str, old: Mapping[str, str], new: Mapping[str, str], order: Sequence[str]
) -> Iterator[PolicyChange]:
    """Words that allow more the later they come in an order."""
    for key in _keys(old, new):
        value, other = old.get(key), new.get(key)
        if value == other:
            continue
        effect = Effect.CHANGED
        if value is not None and other is not None:
            looser = order.index(other) > order.index(value)
            effect = Effect.LOOSER if looser else Effect.TIGHTER
        yield PolicyChange(
            effect, f"{name} {key}", f"{value or 'nothing'} became {other or 'nothing'}"
        )


def _compare_numbers(
    name: str, old: Mapping[str, float], new: Mapping[str, float]
) -> Iterator[PolicyChange]:
    for key in _keys(old, new):
        value, other = old.get(key), new.get(key)
        if value == other:
            continue
        effect = Effect.CHANGED
        if value is not None and other is not None:
            effect = Effect.LOOSER if other > value else Effect.TIGHTER
        shown = ["the default" if number is None else f"{number:g}" for number in (value, other)]
        yield PolicyChange(effect, f"{name} {key}", f"{shown[0]} became {shown[1]}")


def _keys(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys((*old, *new)))
