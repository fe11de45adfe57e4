"""Changes of a policy's text that leave every other letter of it as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from operator_protocols.errors import UsageError

__all__ = ["with_number", "with_rule", "with_setting", "with_words"]

START = "version: 1\n"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def with_words(text: str, section: str, key: str, words: Sequence[str]) -> str:
    """The text with these words added to the list `section.key`, which is made if need be."""
    quoted = [json.dumps(word) for word in words]
    found = _value(_root(text), section)
    if found is None:
        return _appended(text, f"{section}:\n  {key}: [{', '.join(quoted)}]\n")
    known = _value(found, key)
    if known is None:
        return _entered(text, found, f"{key}: [{', '.join(quoted)}]")
    if isinstance(known, yaml.ScalarNode):
        start, end = known.start_mark.index, known.end_mark.index
        return f"{text[:start]}[{text[start:end]}, {', '.join(quoted)}]{text[end:]}"
    return _listed(text, known, quoted)


def with_number(text: str, section: str, key: str, number: str) -> str:
    """The text with `section.key` set to a number."""
    found = _value(_root(text), section)
    if found is None:
        return _appended(text, f"{section}:\n  {key}: {number}\n")
    known = _value(found, key)
    if known is None:
        return _entered(text, found, f"{key}: {number}")
    start, end = known.start_mark.index, known.end_mark.index
    return f"{text[:start]}{number}{text[end:]}"


def with_rule(text: str, level: str, rule: Mapping[str, object]) -> str:
    """The text with one more rule of a level."""
    found = _value(_root(text), level)
    lines = [f"{key}: {json.dumps(value)}" for key, value in rule.items()]
    block = f"- {lines[0]}\n" + "".join(f"  {line}\n" for line in lines[1:])
    if found is None:
        indented = "".join(f"  {line}\n" for line in block.splitlines())
        return _appended(text, f"{level}:\n{indented}")
    if not isinstance(found, yaml.SequenceNode):
        raise _by_hand(level)
    if found.flow_style:
        return _listed(text, found, [json.dumps(dict(rule))])
    return _above(text, found, block)


def with_setting(text: str, name: str, number: str) -> str:
    """The text of an operator.toml with one setting; it stands before every table."""
    head = _TABLE.search(text)
    top, rest = (text[: head.start()], text[head.start() :]) if head else (text, "")
    line = re.compile(rf"^([ \t]*{re.escape(name)}[ \t]*=[ \t]*)[^\s#]+", re.MULTILINE)
    if line.search(top):
        return line.sub(rf"\g<1>{number}", top, count=1) + rest
    return f"{name} = {number}\n{text}"


def _root(text: str) -> yaml.Node | None:
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:  # whoever reads policies strictly has said so already
        raise _by_hand("policy") from error
    return root


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if node is None:
        return None
    if not isinstance(node, yaml.MappingNode):
        raise _by_hand(key)
    return next((value for name, value in node.value if name.value == key), None)


def _appended(text: str, section: str) -> str:
    ending = "" if not text or text.endswith("\n") else "\n"
    gap = "\n" if text else ""
    return f"{text}{ending}{gap}{section}" if text else f"{START}\n{section}"


def _entered(text: str, table: yaml.Node, entry: str) -> str:
    """One more key of a table that is there."""
    if not isinstance(table, yaml.MappingNode):
        raise _by_hand(entry.partition(":")[0])
    if not table.flow_style:
        return _above(text, table, f"{entry}\n")
    at = table.start_mark.index + 1
    comma = ", " if table.value else ""
    return f"{text[:at]}{entry}{comma}{text[at:]}"


def _listed(text: str, items: yaml.Node, quoted: Sequence[str]) -> str:
    """More items of a list that is there."""
    if not isinstance(items, yaml.SequenceNode):
        raise _by_hand("list")
    if not items.flow_style:
        return _above(text, items, "".join(f"- {one}\n" for one in quoted))
    words = ", ".join(quoted)
    if items.value:
        at = items.value[-1].end_mark.index
        return f"{text[:at]}, {words}{text[at:]}"
    at = items.start_mark.index + 1
    return f"{text[:at]}{words}{text[at:]}"


def _above(text: str, node: yaml.Node, block: str) -> str:
    """Lines before the first one of a block, as far in as it is."""
    column = node.start_mark.column
    at = node.start_mark.index - column
    if text[at : at + column].strip():
        raise _by_hand("list")  # it begins on the line of its key
    indent = " " * column
    return text[:at] + "".join(f"{indent}{line}\n" for line in block.splitlines()) + text[at:]


def _by_hand(what: str) -> UsageError:
    return UsageError(
        f"The {what} in your policy is written in a way that cannot be added to.",
        next_step="Change it by hand, and prove it with: operator policy check",
    )
