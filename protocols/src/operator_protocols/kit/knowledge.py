"""What a subject knows of its system, read from two files beside it: `tools.toml`, `causes.toml`.

`tools.toml` has the notes for an agent, `[parameters.KEY]`, `[tools.NAME]` and
`[preconditions.NAME]`, which may name tools that others bring; `causes.toml` has
`[predictions.KEY]`, `[remedies.KEY]`, `[causes.NAME]` and `[truths]`. A key is how another table of
the same file refers to a table. The risk of a tool stands in its own table and nowhere else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from operator_protocols.domain.action import TIMEOUT_S
from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.precondition import Precondition, Scope
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConfigError

__all__ = ["CAUSES_FILE", "TOOLS_FILE", "Knowledge", "read_knowledge"]

TOOLS_FILE = "tools.toml"
CAUSES_FILE = "causes.toml"
E_ = TypeVar("E_", bound=StrEnum)
Table = Mapping[str, Any]
_NUMBER = (int, float)
_ANY = (str, int, float, bool, list, dict)
# What each kind of table may hold, and which types fit; a key with `*` must be there.
_SECTIONS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "parameters": {
        "sentence*": (str,),
        "name": (str,),
        "type": (str,),
        "required": (bool,),
        "default": _ANY,
        "choices": (list,),
        "minimum": _NUMBER,
        "maximum": _NUMBER,
        "infers": (str,),
    },
    "tools": {
        "sentence*": (str,),
        "risk*": (str,),
        "parameters": (list,),
        "changes": (bool,),
        "reversible": (bool,),
        "idempotent": (bool,),
        "undo": (str,),
        "expected": (str,),
        "verify": (str,),
        "timeout_s": _NUMBER,
        "settle_s": _NUMBER,
        "ends": (list,),
        "plans": (list,),
        "on": (list,),
    },
    "preconditions": {
        "sentence*": (str,),
        "reading*": (str,),
        "tools*": (list,),
        "is": (str, int, float, bool),
        "at_least": _NUMBER,
        "at_most": _NUMBER,
        "of": (str,),
        "kinds": (list,),
        "within_s": _NUMBER,
        "on_this_machine": (bool,),
        "next_step": (str,),
    },
    "remedies": {
        "sentence*": (str,),
        "trade_off*": (str,),
        "tool": (str,),
        "reversible": (bool,),
        "arguments": (dict,),
        "script": (str,),
    },
    "causes": {
        "sentence*": (str,),
        "name": (str,),
        "prior*": _NUMBER,
        "predicts": (str,),
        "remedies": (list,),
        "kinds": (list,),
        "breaks": (list,),
        "shows": (dict,),
    },
}


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Notes for an agent, tools by name, causes, and which causes explain each fault.

    `requires` are the preconditions of each tool, also of tools that the subject does not bring.
    """

    notes: str = ""
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    truths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    requires: Mapping[str, tuple[Precondition, ...]] = field(default_factory=dict)


def read_knowledge(folder: Path) -> Knowledge:
    """Read both files of a folder. ConfigError names the file, the table and the key at fault."""
    tools = _Document(folder / TOOLS_FILE, ("parameters", "tools", "preconditions"), ("notes",))
    causes = _Document(
        folder / CAUSES_FILE, ("predictions", "remedies", "causes"), (), free=("truths",)
    )
    parameters = {key: _read_parameter(tools, key) for key in tools.tables["parameters"]}
    specs = {name: _read_tool(tools, name, parameters) for name in tools.tables["tools"]}
    requires: dict[str, tuple[Precondition, ...]] = {}
    for name, table in tools.tables["preconditions"].items():
        precondition = _read_precondition(tools, name)
        for tool in table["tools"]:
            requires[tool] = (*requires.get(tool, ()), precondition)
    specs = {name: replace(spec, requires=requires.get(name, ())) for name, spec in specs.items()}
    predictions: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for key, table in causes.tables["predictions"].items():
        probes = dict(table)
        like = probes.pop("like", None)
        base = causes.refer("predictions", key, like, predictions) if like is not None else {}
        predictions[key] = {**base, **probes}
    remedies = {key: _read_remedy(causes, key, specs) for key in causes.tables["remedies"]}
    found = Knowledge(
        str(tools.plain.get("notes", "")),
        specs,
        tuple(
            Cause(
                name=table.get("name", name),
                sentence=table["sentence"],
                prior=table["prior"],
                predicts=(
                    causes.refer("causes", name, table["predicts"], predictions)
                    if "predicts" in table
                    else {}
                ),
                remedies=tuple(
                    causes.refer("causes", name, key, remedies) for key in table.get("remedies", ())
                ),
                kinds=tuple(table.get("kinds", ())),
                breaks=tuple(table.get("breaks", ())),
                shows=table.get("shows", {}),
            )
            for name, table in causes.tables["causes"].items()
        ),
        {name: tuple(found) for name, found in causes.tables["truths"].items()},
        requires,
    )
    for file, section, known in (
        (tools, "parameters", parameters),
        (causes, "predictions", predictions),
        (causes, "remedies", remedies),
    ):
        for key in known.keys() - file.used:
            raise file.wrong(section, key, "is used by nothing")
    return found


class _Document:
    """One file: its tables by section and name, each checked against `_SECTIONS`."""

    def __init__(
        self,
        path: Path,
        sections: tuple[str, ...],
        plain: tuple[str, ...],
        free: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.used: set[str] = set()
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}.") from error
        unknown = sorted(set(content) - {*sections, *plain, *free})
        if unknown:
            raise ConfigError(f"{path}: there is no section {unknown[0]!r}.")
        self.plain: Table = {name: content[name] for name in plain if name in content}
        self.tables: Mapping[str, Table] = {
            section: content.get(section, {}) for section in (*sections, *free)
        }
        for section in sections:
            for name, table in self.tables[section].items():
                self._check(section, name, table)

    def wrong(self, section: str, name: str, problem: str) -> ConfigError:
        return ConfigError(f"{self.path}: [{section}.{name}] {problem}.")

    def refer(self, section: str, name: str, key: str, known: Mapping[str, Any]) -> Any:
        if key not in known:
            raise self.wrong(section, name, f"names {key!r}, which is not defined above it")
        self.used.add(key)
        return known[key]

    def choose(self, section: str, name: str, kind: type[E_], word: str) -> E_:
        try:
            return kind(word)
        except ValueError:
            listed = ", ".join(kind)
            raise self.wrong(section, name, f"has {word!r}, which is not one of {listed}") from None

    def _check(self, section: str, name: str, table: object) -> None:
        if not isinstance(table, dict):
            raise self.wrong(section, name, "is not a table")
        if section not in _SECTIONS:
            return
        schema = {key.rstrip("*"): kinds for key, kinds in _SECTIONS[section].items()}
        for key in (key[:-1] for key in _SECTIONS[section] if key.endswith("*")):
            if key not in table:
                raise self.wrong(section, name, f"lacks {key!r}")
        for key, value in table.items():
            if key not in schema:
                raise self.wrong(section, name, f"has no key {key!r}")
            fits = isinstance(value, schema[key])
            if not fits or (isinstance(value, bool) and bool not in schema[key]):
                raise self.wrong(section, name, f"has a {key!r} of the wrong type")


def _read_parameter(file: _Document, key: str) -> Parameter:
    table = file.tables["parameters"][key]
    word = table.get("type", ParameterType.STRING)
    return Parameter(
        name=table.get("name", key),
        sentence=table["sentence"],
        type=file.choose("parameters", key, ParameterType, word),
        required=table.get("required", True),
        default=table.get("default"),
        choices=tuple(table.get("choices", ())),
        minimum=table.get("minimum"),
        maximum=table.get("maximum"),
        infers=table.get("infers", ""),
    )


def _read_tool(file: _Document, name: str, parameters: Mapping[str, Parameter]) -> ToolSpec:
    table = file.tables["tools"][name]
    undo = table.get("undo", "")
    return ToolSpec(
        name=name,
        sentence=table["sentence"],
        parameters=tuple(
            file.refer("tools", name, key, parameters) for key in table.get("parameters", ())
        ),
        risk=file.choose("tools", name, Risk, table["risk"]),
        changes=table.get("changes", True),
        reversible=table.get("reversible", bool(undo)),
        source=ToolSource.SUBJECT,
        idempotent=table.get("idempotent", False),
        undo=undo,
        expected=table.get("expected", ""),
        verify=table.get("verify", ""),
        timeout_s=float(table.get("timeout_s", TIMEOUT_S)),
        ends=tuple(table.get("ends", ())),
        settle_s=float(table.get("settle_s", 0.0)),
        plans=tuple(table.get("plans", ())),
        on=tuple(table.get("on", ())),
    )


def _read_precondition(file: _Document, name: str) -> Precondition:
    table = file.tables["preconditions"][name]
    if not {"is", "at_least", "at_most"} & table.keys():
        raise file.wrong("preconditions", name, "lacks its answer: 'is', 'at_least' or 'at_most'")
    return Precondition(
        name=name,
        sentence=table["sentence"],
        reading=table["reading"],
        equals=table.get("is"),
        at_least=table.get("at_least"),
        at_most=table.get("at_most"),
        of=file.choose("preconditions", name, Scope, table.get("of", Scope.TARGET)),
        kinds=tuple(table.get("kinds", ())),
        within_s=float(table.get("within_s", 0.0)),
        on_this_machine=table.get("on_this_machine", False),
        next_step=table.get("next_step", ""),
    )


def _read_remedy(file: _Document, key: str, specs: Mapping[str, ToolSpec]) -> Remedy:
    table = file.tables["remedies"][key]
    tool = table.get("tool", key)
    arguments = dict(table.get("arguments", {}))
    if "script" in table:
        try:
            arguments["text"] = (file.path.parent / table["script"]).read_text(encoding="utf-8")
        except OSError as error:
            raise file.wrong(
                "remedies", key, f"has a script that cannot be read: {error}"
            ) from error
    remedy = Remedy(tool, table["sentence"], table["trade_off"], arguments=arguments)
    if tool in specs:
        return replace(remedy, risk=specs[tool].risk, reversible=specs[tool].reversible)
    return replace(remedy, reversible=table.get("reversible", False))
