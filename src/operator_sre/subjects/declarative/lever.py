"""The levers of a description: what each runs, what it repairs, and what has to be so before."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from operator_protocols.domain.precondition import Precondition, Scope
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType
from operator_protocols.domain.verdict import Risk
from operator_sre.subjects.declarative.cause import read_names
from operator_sre.subjects.declarative.commands import BUILT_IN_BLANKS, HERE, Command, read_command
from operator_sre.subjects.declarative.document import NAME, Table, nearest
from operator_sre.subjects.declarative.expression import Reference

__all__ = ["LEVER_KEYS", "PARAMETER_KEYS", "REQUIRED_KEYS", "Lever", "read_levers"]

LEVER_KEYS = (
    *("command", "on", "says", "risk", "reversible", "idempotent", "undo", "expects", "ends"),
    *("timeout", "parameters", "tool", "directory", "passes", "repairs", "proves", "settles"),
    *("runs_at", "requires"),
)
REQUIRED_KEYS = (
    *("says", "reading", "is", "at_least", "at_most", "of", "kinds", "within", "next_step"),
)
PARAMETER_KEYS = ("type", "says", "default", "choices", "minimum", "maximum")
LEVER_TIMEOUT_S = 60.0
LEVER_TIMEOUT_S_MAX = 600.0
SETTLE_S_MAX = 600.0
WITHIN_S_MAX = 120.0
NUMBER_MAX = 1e15
# What may be wrong with anything is no reason to run a lever.
VAGUE = frozenset({"wrong_answer", "alert_unconfirmed"})
# What the built-in reasoner calls levers of these names.
_TOOLS = {"restart": "restart_node", "resume": "resume_node"}
_TYPES = ("string", "integer", "number", "boolean")


@dataclass(frozen=True, slots=True)
class Lever:
    """A command that changes something, with what its people say of it.

    `ends` are the causes that it repairs, `proves` the invariants that hold then. `at` is the
    target at whose place it runs, HERE for this machine, "" for the place of its own target.
    """

    name: str
    tool: str
    command: Command
    sentence: str
    risk: Risk
    on: frozenset[str] = frozenset()
    reversible: bool = False
    idempotent: bool = False
    undo: str = ""
    expected: str = ""
    ends: tuple[str, ...] = ()
    timeout_s: float = LEVER_TIMEOUT_S
    parameters: tuple[Parameter, ...] = ()
    at: str = ""
    proves: tuple[str, ...] = ()
    settle_s: float = 0.0
    requires: tuple[Precondition, ...] = ()

    @property
    def is_tied(self) -> bool:
        """Whether it repairs something specific; what is not tied never runs by itself."""
        return bool(set(self.ends) - VAGUE)


def read_levers(
    root: Table,
    targets: tuple[Target, ...],
    folder: str,
    known: Collection[str],
    invariants: Collection[str],
    read_on: Callable[[Table], frozenset[str]],
    find_problem: Callable[[Reference, frozenset[str]], str],
) -> tuple[Lever, ...]:
    """All levers, each a tool of its own name; `known` are the causes that there are."""
    tables = {
        name: Table(node, root.file, f"the lever {name!r}", LEVER_KEYS)
        for name, node in root.tables("levers", "a lever").items()
    }
    levers: dict[str, Lever] = {}
    for name, table in tables.items():
        parameters = _read_parameters(table)
        names = [parameter.name for parameter in parameters]
        line = read_command(table, folder, "command", known=names)
        for blank in names:
            if f"{{{blank}}}" not in line.argv:
                why = f"the parameter {blank!r} is not used in its command."
                raise table.wrong(why, "command")
        tool = table.text("tool", _TOOLS.get(name, name))
        if not NAME.fullmatch(tool):
            raise table.wrong(f"{tool[:60]!r} is not a valid name for a tool.", "tool")
        if "ends" in table and "repairs" in table:
            raise table.wrong("'ends' and 'repairs' are the same; write one.", "ends")
        key = "ends" if "ends" in table else "repairs"
        levers[name] = Lever(
            name=name,
            tool=tool,
            command=line,
            sentence=table.text("says", f"{name.replace('_', ' ').capitalize()} the target"),
            risk=Risk(table.choice("risk", tuple(Risk), Risk.MEDIUM)),
            on=read_on(table),
            reversible=table.flag("reversible"),
            idempotent=table.flag("idempotent"),
            undo=table.text("undo"),
            expected=table.text("expects"),
            ends=read_names(table, key, "a cause or an invariant", (*known, *invariants)),
            timeout_s=max(1.0, table.seconds("timeout", LEVER_TIMEOUT_S, high=LEVER_TIMEOUT_S_MAX)),
            parameters=parameters,
            at=_read_place(table, targets),
            proves=read_names(table, "proves", "an invariant", invariants),
            settle_s=table.seconds("settles", 0.0, high=SETTLE_S_MAX),
            requires=_read_requires(table, read_on(table), find_problem),
        )
    tools: set[str] = set()
    for name, lever in levers.items():
        if lever.tool in tools:
            raise tables[name].wrong(f"two levers define the tool {lever.tool!r}.", "tool")
        tools.add(lever.tool)
        if lever.undo and (lever.undo not in levers or lever.undo == name):
            hint = nearest(lever.undo, [other for other in levers if other != name])
            why = f"{lever.undo[:60]!r} is not another lever."
            raise tables[name].wrong(why, "undo", next_step=hint)
    return tuple(
        replace(lever, undo=levers[lever.undo].tool if lever.undo else "")
        for lever in levers.values()
    )


def _read_requires(
    table: Table,
    on: frozenset[str],
    find_problem: Callable[[Reference, frozenset[str]], str],
) -> tuple[Precondition, ...]:
    """What a fresh observation has to show before the lever runs."""
    found = []
    for name, node in table.tables("requires", "a precondition").items():
        inner = Table(node, table.file, f"the precondition {name!r}", REQUIRED_KEYS)
        if not any(key in inner for key in ("is", "at_least", "at_most")):
            raise inner.wrong(f"{inner.place} needs its answer: 'is', 'at_least' or 'at_most'.")
        reading = inner.require_text("reading")
        probe, _, value = reading.partition(".")
        if problem := find_problem(Reference(probe, value), on):
            raise inner.wrong(f"'reading' of {inner.place}: {problem}", "reading")
        precondition = Precondition(
            name=name,
            sentence=inner.text("says", f"{reading} is as required"),
            reading=reading,
            equals=inner.scalar("is"),
            at_least=inner.number("at_least", None, low=-NUMBER_MAX, high=NUMBER_MAX),
            at_most=inner.number("at_most", None, low=-NUMBER_MAX, high=NUMBER_MAX),
            of=Scope(inner.choice("of", tuple(Scope), Scope.TARGET)),
            kinds=inner.texts("kinds"),
            within_s=inner.seconds("within", 0.0, high=WITHIN_S_MAX),
            next_step=inner.text("next_step"),
        )
        found.append(precondition)
    return tuple(found)


def _read_place(table: Table, targets: tuple[Target, ...]) -> str:
    """The target at whose place a lever runs. Only places of targets are known to be meant."""
    word = table.text("runs_at")
    if not word or word == HERE:
        return word
    for target in targets:
        if word in (target.name, target.runs_at):
            return target.name
    places = (HERE, *(target.name for target in targets))
    raise table.wrong(
        f"{word[:60]!r} is neither {HERE!r} nor a target nor the place of one.",
        "runs_at",
        next_step=nearest(word, places),
    )


def _read_parameters(table: Table) -> tuple[Parameter, ...]:
    parameters = []
    for name, node in table.tables("parameters", "a parameter").items():
        inner = Table(node, table.file, f"the parameter {name!r}", PARAMETER_KEYS)
        if name in BUILT_IN_BLANKS:
            raise inner.wrong(f"{name!r} is built in; remove it.")
        low = inner.number("minimum", None, low=-NUMBER_MAX, high=NUMBER_MAX)
        high = inner.number("maximum", None, low=-NUMBER_MAX, high=NUMBER_MAX)
        if low is not None and high is not None and low > high:
            raise inner.wrong(f"the minimum {low:g} is above the maximum {high:g}.", "minimum")
        default = inner.scalar("default")
        parameter = Parameter(
            name=name,
            sentence=inner.text("says", name.replace("_", " ")),
            type=ParameterType(inner.choice("type", _TYPES, "string")),
            required=default is None,
            default=default,
            choices=inner.texts("choices"),
            minimum=low,
            maximum=high,
        )
        parameters.append(parameter)
    return tuple(parameters)
