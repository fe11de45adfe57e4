"""The grants of a policy are documented, and the example does what the page says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.app.policy import grants_of
from operator_sre.gate import Policy, judge
from operator_sre.gate.authority import GrantedCapabilities
from operator_sre.gate.policy.load import book_of

PAGE = (Path(__file__).parents[2] / "docs" / "trust.md").read_text()


def test_grants_are_documented() -> None:
    found = re.search(r"```yaml\n(grants:.*?)```", PAGE, re.S)
    assert found is not None
    grants = GrantedCapabilities(grants_of(book_of(f"version: 1\n{found[1]}", "policy.yaml")))
    check = judge(Action.shell("ls"), Policy())
    change = replace(check, level=Level.REVIEW)
    wait = replace(change, action=Action("wait", {"seconds": 1.0}))
    allowed = {
        agent: [grants.may_act(agent, verdict) == "" for verdict in (check, change, wait)]
        for agent in ("reasoner", "claude", "other")
    }
    assert allowed == {
        "reasoner": [True, True, True],
        "claude": [False, False, True],
        "other": [True, False, False],
    }
