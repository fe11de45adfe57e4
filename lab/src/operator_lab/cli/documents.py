"""What the commands of the lab print with --json, for their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operator_lab.app import deployments, rig_logs, rigs
from operator_lab.demo.story import Ending
from operator_sre.contract.schemas import Maybe, OneOf, Shape

__all__ = ["DOCUMENTS"]

_RIG = {"rig": rigs.RigView}
_HIT = {"fault": str, "target": str}
DOCUMENTS: dict[str, Shape] = {
    "demo": OneOf(
        (
            {
                "event": str,
                "elapsed_s": float,
                "step": str,
                "text": str,
                "details": list[str],
                "audit_seq": Maybe(int),
                "payload": Maybe(Mapping[str, Any]),
            },
            {"event": str, "proven": bool, "home": str, "ending": Ending},
        )
    ),
    "deploy local down": {
        "subject": str,
        "project": str | None,
        "down": bool,
        "volumes": bool,
    },
    "deploy local logs": {"subject": str, "lines": list[str]},
    "deploy local restart": {"deployment": deployments.DeploymentView},
    "deploy local status": {"deployment": deployments.DeploymentView},
    "deploy local up": {"deployment": deployments.DeploymentView},
    "lab attach": _RIG,
    "lab break": {"subject": str, **_HIT},
    "lab down": {"subject": str | None, "down": bool},
    "lab faults": {"faults": list[rigs.FaultView]},
    "lab heal": {"subject": str, "fault": Maybe(str), "target": Maybe(str), "healed": [_HIT]},
    "lab logs": OneOf(
        ({"subject": str, "logs": list[rig_logs.LogView]}, {"target": str, "line": str})
    ),
    "lab restart": {"subject": str, "restarted": list[str]},
    "lab status": _RIG,
    "lab up": _RIG,
}
