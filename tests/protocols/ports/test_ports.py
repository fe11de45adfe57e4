"""Ports are small, and whoever implements one can be recognised."""

from __future__ import annotations

import inspect

import pytest

from operator_protocols import ports
from operator_protocols.domain.ticket import TicketState
from operator_protocols.ports import Clock, Plugin, SubjectSettings
from tests.contract.clock import HeldClock

PROTOCOLS = [
    kind
    for name, kind in inspect.getmembers(ports, inspect.isclass)
    if name in ports.__all__ and getattr(kind, "_is_protocol", False)
]


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_port_has_at_most_four_verbs(kind: type) -> None:
    # What it can only be asked for counts where there is nothing to do.
    members = {name: it for name, it in vars(kind).items() if not name.startswith("_")}
    verbs = [name for name, member in members.items() if inspect.isfunction(member)]
    own = verbs or [name for name, member in members.items() if isinstance(member, property)]
    # One that only joins others has nothing of its own.
    joined = [one for one in kind.__mro__[1:] if one in PROTOCOLS]
    assert (0 if len(joined) > 1 else 1) <= len(own) <= 4, own


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_every_member_of_a_port_says_what_it_promises(kind: type) -> None:
    members = {name: it for name, it in vars(kind).items() if not name.startswith("_")}
    assert [name for name, member in members.items() if not inspect.getdoc(member)] == []


def test_a_port_recognises_an_implementation() -> None:
    assert isinstance(HeldClock(), Clock)
    assert not isinstance(object(), Clock)


def test_a_plug_in_needs_little() -> None:
    def build(settings: SubjectSettings) -> ports.Subject:
        raise NotImplementedError(settings.name)

    plugin = Plugin("mine", "One sentence.", build)
    assert (plugin.causes, plugin.rig, plugin.faults, plugin.notes) == ((), None, (), "")


def test_a_ticket_lives_until_the_trouble_is_known_to_be_over() -> None:
    live = [state for state in TicketState if state.live]
    assert live == [
        TicketState.OPEN,
        TicketState.CLAIMED,
        TicketState.WATCHED,
        TicketState.ESCALATED,
    ]
