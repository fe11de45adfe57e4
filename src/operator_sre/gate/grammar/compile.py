"""Making `tools.json` from the tables that people write in `tools/*.yaml`.

    python -m operator_sre.gate.grammar.compile

One table for each command:

    sort:
      also: [gsort]                   other names of the same command
      options: -bdfghinrRsuVz -k:text --key=text --parallel=text --color[=text]
      operands: file*
      safe: [sort -rn -k2 app.log]    examples, proven by the tests
      not: [sort -o out app.log]

Options: `-abc` are three flags; `-n:KIND` has a value, `-n[:KIND]` a value that is glued to it,
`-n[:~KIND]` a value that may be the next word as well, unless that begins with a dash or a plus;
`--name`, `--name=KIND`, `--name[=KIND]` the same in long; `-#` is a number such as `-20`. With
`style: words` an option is a whole word after one dash, as in `-name`, `-name:KIND`.
Operands: kinds, the last with `*`, `+` or `?`. A sub-command under `commands` takes the options of
its parents as well. `given: {-e: file*, -r&-e: tree*}` has the operands for when those options are
there; the first that fits counts. `needs: -t` has options of which one must be there before the
first operand (`anywhere: true`: or behind it; `leads: true`: as the first word of all), `modes:`
those of which a later one takes the place of an earlier one; `old: true` reads a first word
without a dash as options, as tar does. An option with two values is `--arg:text,text`; `here*` is a
tree that is the working directory where none is named. `server` is whom it asks in public, and
`asks: {-o: HOST}` whom it asks with an option only. `local: true` is a tool that takes settings or
code from the working directory.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from operator_sre.gate.grammar.kinds import KINDS
from operator_sre.gate.grammar.tables import COMPILED

__all__ = ["compile_tables", "examples", "sources", "tables_in"]

FOLDER = Path(__file__).parent
_KEYS = {
    *("also", "options", "operands", "given", "commands", "changes", "needs", "words", "style"),
    *("about", "reveals", "network", "server", "asks", "follows", "star", "loose", "sends", "safe"),
    *("not", "modes", "anywhere", "leads", "old", "local"),
}
_SIGNS = ("network", "star", "loose", "sends", "anywhere", "leads", "old", "local")
_KINDS = KINDS.keys() | {"command", "line"}
_LONG = re.compile(r"(--?[^=\[:]+)(?:(\[[=:](.+)\])|[=:](.+))?")
Table = Mapping[str, Any]
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def sources() -> dict[str, Table]:
    """Every table as people wrote it."""
    found: dict[str, Table] = {}
    for file in sorted((FOLDER / "tools").glob("*.yaml")):
        for name, table in tables_in(file.read_text(encoding="utf-8")).items():
            if name in found:
                raise ValueError(f"{file.name}: {name} is a duplicate")
            found[name] = table
    return found


def tables_in(text: str) -> dict[str, Table]:
    """The tables of one file; every value is a text, so that `true` may be the name of a tool."""
    loaded = yaml.load(text, Loader=_LOADER)  # noqa: S506 - it makes nothing but texts
    return {name: table or {} for name, table in (loaded or {}).items()}


def compile_tables(found: Mapping[str, Table]) -> str:
    """The tables as they are loaded."""
    packed: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    for name, table in found.items():
        packed[name] = _tool(name, table, {}, "")
        aliases |= dict.fromkeys(map(str, table.get("also", ())), name)
    both = packed.keys() & aliases.keys()
    if both:
        raise ValueError(f"{sorted(both)} have a table and are another name of one")
    packed = dict(sorted(packed.items())) | {"=": dict(sorted(aliases.items()))}
    return json.dumps(packed, separators=(",", ":")).replace('},"', '},\n"') + "\n"


def examples(found: Mapping[str, Table]) -> Iterator[tuple[str, bool]]:
    """The examples of all tables: a command, and whether it is SAFE."""
    for table in found.values():
        yield from ((str(example), True) for example in table.get("safe", ()))
        yield from ((str(example), False) for example in table.get("not", ()))
        yield from examples({k: v or {} for k, v in table.get("commands", {}).items()})


def _tool(name: str, table: Table, above: Mapping[str, str], style: str) -> dict[str, Any]:
    unknown = table.keys() - _KEYS
    if unknown:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
    style = str(table.get("style", style))
    options: dict[str, str] = {}
    for token in str(table.get("options", "")).split():
        if token.startswith("+"):
            option, _, kind = token.partition(":")
            options[option] = kind
            continue
        parsed = _LONG.fullmatch(token)
        if parsed is None:
            raise ValueError(f"{token!r} is not how an option is written")
        option, _, glued, kind = parsed.groups()
        whole = option.startswith("--") or style == "words" or len(option) == 2
        for flag in [option] if whole else [f"-{letter}" for letter in option[1:]]:
            options[flag] = f"?{glued}" if glued else kind or ""
    made: dict[str, Any] = {"options": options, "style": style}
    if "operands" in table:
        made["operands"] = str(table["operands"]).split()
    elif not table.get("commands") and not table.get("words"):
        made["operands"] = []
    made["given"] = {
        option: str(kinds or "").split()
        for named, kinds in table.get("given", {}).items()
        for option in str(named).split()
    }
    made["needs"] = str(table.get("needs", "")).split()
    made["modes"] = str(table.get("modes", "")).split()
    made["changes"] = _spread(table.get("changes", {}))
    made["commands"] = {
        str(word): _tool(f"{name} {key}", body or {}, {**above, **options}, style)
        for key, body in table.get("commands", {}).items()
        for word in (*str(key).split(), *(body or {}).get("also", ()))
    }
    made["asks"] = _spread(table.get("asks", {}))
    made["follows"] = str(table.get("follows", "")).split()
    made |= {key: table[key] for key in ("words", "about", "reveals", "server") if key in table}
    made |= {key: table[key] == "true" for key in _SIGNS if key in table}
    _prove(name, made, {**above, **options})
    return {key: value for key, value in made.items() if value or key == "operands"}


def _prove(name: str, made: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Refuse what would silently never match."""
    listed = [
        *made["needs"],
        *made["modes"],
        *made["asks"],
        *(option for option in made["follows"] if option != "*"),
        *(option for key in made["given"] for option in key.split("&")),
    ]
    for option in listed:
        if option not in options:
            raise ValueError(f"{name}: {option} is not among its options")
    given = [kind for kinds in made["given"].values() for kind in kinds]
    every = [*made["options"].values(), *(made.get("operands") or ()), *given]
    for text in every:
        plain = text.lstrip("?~").rstrip("*+?")
        if not plain or plain[0] in "(/":
            continue
        for kind in plain.replace("|", ",").split(","):
            if kind not in _KINDS and not kind.endswith("..."):
                raise ValueError(f"{name}: there is no kind {kind!r}")


def _spread(changes: Mapping[str, str]) -> dict[str, str]:
    return {name: why for names, why in changes.items() for name in str(names).split()}


if __name__ == "__main__":
    (FOLDER / COMPILED).write_text(compile_tables(sources()), encoding="utf-8")
    sys.stdout.write(f"{len(sources())} tools\n")
