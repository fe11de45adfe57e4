"""The section `levers`: what may be done, and what its people say of it."""

from __future__ import annotations

import re
from dataclasses import replace

from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType
from operator_protocols.domain.verdict import Risk
from operator_sre.subjects.declarative.commands import BUILT_IN_BLANKS, read_command
from operator_sre.subjects.declarative.description import Lever
from operator_sre.subjects.declarative.reading_targets import read_on
from operator_sre.subjects.declarative.table import NAME, Table, nearest

__all__ = ["KEYS", "PARAMETER_KEYS", "read_levers"]

# What the built-in reasoner calls them.
TOOLS = {"restart": "restart_node", "resume": "resume_node"}
TIMEOUT_S = 60.0
TIMEOUT_S_MAX = 600.0
NUMBER_MAX = 1e15
_CAUSE = re.compile(r"[a-z][a-z0-9_]{0,59}")
_TYPES = ("string", "integer", "number", "boolean")
PARAMETER_KEYS = ("type", "says", "default", "choices", "minimum", "maximum")
KEYS = (
    *("command", "on", "says", "risk", "reversible", "idempotent", "undo", "expects", "ends"),
    *("timeout", "parameters", "tool", "directory", "passes"),
)


def read_levers(root: Table, targets: tuple[Target, ...], folder: str) -> tuple[Lever, ...]:
    """All levers, each a tool of its own name."""
    tables = {
        name: Table(node, root.file, f"the lever {name!r}", KEYS)
        for name, node in root.tables("levers", "a lever").items()
    }
    found = {name: _lever(name, table, targets, folder) for name, table in tables.items()}
    tools: set[str] = set()
    for name, lever in found.items():
        if lever.tool in tools:
            raise tables[name].wrong(f"two levers are the tool {lever.tool!r}.", "tool")
        tools.add(lever.tool)
        if lever.undo and (lever.undo not in found or lever.undo == name):
            others = [one for one in found if one != name]
            raise tables[name].wrong(
                f"{lever.undo[:60]!r} is no other lever.",
                "undo",
                next_step=nearest(lever.undo, others),
            )
    return tuple(
        replace(one, undo=found[one.undo].tool if one.undo else "") for one in found.values()
    )


def _lever(name: str, table: Table, targets: tuple[Target, ...], folder: str) -> Lever:
    parameters = _parameters(table)
    names = [parameter.name for parameter in parameters]
    command = read_command(table, folder, "command", known=names)
    for one in names:
        if f"{{{one}}}" not in command.argv:
            raise table.wrong(f"the parameter {one!r} is in no word of its command.", "command")
    tool = table.text("tool", TOOLS.get(name, name))
    if not NAME.fullmatch(tool):
        raise table.wrong(f"{tool[:60]!r} is no name for a tool.", "tool")
    ends = table.texts("ends")
    for one in ends:
        if not _CAUSE.fullmatch(one):
            raise table.wrong(f"{one[:60]!r} is no name for a cause.", "ends")
    return Lever(
        name=name,
        tool=tool,
        command=command,
        sentence=table.text("says", f"{name.replace('_', ' ').capitalize()} the target"),
        risk=Risk(table.choice("risk", tuple(Risk), Risk.MEDIUM)),
        on=read_on(table, targets),
        reversible=table.flag("reversible"),
        idempotent=table.flag("idempotent"),
        undo=table.text("undo"),
        expected=table.text("expects"),
        ends=ends,
        timeout_s=max(1.0, table.seconds("timeout", TIMEOUT_S, high=TIMEOUT_S_MAX)),
        parameters=parameters,
    )


def _parameters(table: Table) -> tuple[Parameter, ...]:
    found = []
    for name, node in table.tables("parameters", "a parameter").items():
        inner = Table(node, table.file, f"the parameter {name!r}", PARAMETER_KEYS)
        if name in BUILT_IN_BLANKS:
            raise inner.wrong(f"{name!r} is known already; leave it out.")
        low = inner.number("minimum", None, low=-NUMBER_MAX, high=NUMBER_MAX)
        high = inner.number("maximum", None, low=-NUMBER_MAX, high=NUMBER_MAX)
        if low is not None and high is not None and low > high:
            raise inner.wrong(f"nothing is {low:g} to {high:g}.", "minimum")
        default = inner.scalar("default")
        found.append(
            Parameter(
                name=name,
                sentence=inner.text("says", name.replace("_", " ")),
                type=ParameterType(inner.choice("type", _TYPES, "string")),
                required=default is None,
                default=default,
                choices=inner.texts("choices"),
                minimum=low,
                maximum=high,
            )
        )
    return tuple(found)
