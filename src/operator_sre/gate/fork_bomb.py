"""Fork bombs: what starts copies of itself, side by side, until no process can be started."""

from __future__ import annotations

import re
from collections.abc import Iterable

from operator_protocols.domain.verdict import Level, Rule

__all__ = ["FORK_BOMB", "is_fork_bomb"]

FORK_BOMB = Rule(
    "fork_bomb",
    Level.BLOCKED,
    "It is a fork bomb: it starts copies of itself until the machine stops responding.",
)
LINE_MAX = 4096
FUNCTIONS_MAX = 16
# Quotes and backslashes only hide names, and a text in quotes may be what a shell is given.
_HIDING = str.maketrans("", "", "'\"\\")
_LETTER = r"[^\s(){};&|<>$`=!]"
_NAME = rf"(?<!{_LETTER}){_LETTER}{{1,64}}(?!{_LETTER})"
_FUNCTION = re.compile(
    rf"(?:function\s{{1,8}}(?P<word>{_NAME})\s{{0,8}}(?:\(\s{{0,8}}\))?"
    rf"|(?P<name>{_NAME})\s{{0,8}}\(\s{{0,8}}\))\s{{0,8}}[{{(]"
)
_PARENTHESES = re.compile(r"\(\s{0,8}\)")
_ITSELF = r"\$(?:0|FUNCNAME|\{(?:0|FUNCNAME)(?:\[0\])?\})"
# What follows a call that does not wait for its end; a pipe starts both of its sides at once.
_BESIDE = r"(?:[ \t][^;&|\n(){}]{0,200})?[ \t)]{0,8}(?:\|(?!\|)|&(?![&>]))"
_SCRIPT = re.compile(
    rf"(?:^|[\s;&|(])(?:[\w./-]{{1,64}}[ \t])?(?:\./)?{_ITSELF}[ \t]{{0,8}}"
    rf"(?:\||&)[ \t&|]{{0,8}}(?:[\w./-]{{1,64}}[ \t])?(?:\./)?{_ITSELF}"
)
_ENDLESS = re.compile(
    r"(?:while\s{1,8}(?:true|:|1|\[\s?1\s?\]|\(\(\s?1\s?\)\))|until\s{1,8}(?:false|!\s?:)"
    r"|for\s{0,8}\(\(\s{0,8};\s{0,8};\s{0,8}\)\))\s{0,8};?\s{0,8}do\s(?P<body>.{1,400}?)\bdone\b",
    re.DOTALL,
)
_ALONE = re.compile(r"(?<![&>|])&(?![&>])")
_WAITS = re.compile(r"\b(?:wait|sleep|read|jobs)\b")
_INTERPRETER = re.compile(r"\b(?:perl|ruby|python|pypy|php|gcc|cc|tcc|clang)[\d.]{0,8}\b")
# Perl and Ruby (fork while fork, loop { fork }), Python, PHP and C (while (1) fork();).
_CODE = re.compile(
    r"\bfork\b(?:\(\))?\s{1,4}(?:while|until)\b|\bloop\b\s{0,4}(?:do|\{)\s{0,4}(?:Process\.)?fork\b"
    r"|\bwhile\b[\s(]{0,4}(?:1|true|True|!0|:)[\s):{;]{0,8}(?:os\.|Process\.|pcntl_)?fork\b"
    r"|\bfor\s?\(\s?;\s?;\s?\)[\s{]{0,4}(?:pcntl_)?fork\b"
    r"|\bos\.fork\(\)\s{1,4}for\b.{0,40}\b(?:iter|count|repeat|cycle)\("
)


def is_fork_bomb(line: str) -> bool:
    """True when a line starts, or makes a shell or an interpreter start, copies without an end."""
    text = line[:LINE_MAX].translate(_HIDING)
    # Most lines hold none of the literals that an expression needs, and need not be searched.
    if ("$0" in text or "${0" in text or "FUNCNAME" in text) and _SCRIPT.search(text):
        return True
    if "fork" in text and _INTERPRETER.search(text) and _CODE.search(text):
        return True
    for loop in _ENDLESS.finditer(text) if "done" in text else ():
        if _ALONE.search(loop["body"]) and not _WAITS.search(loop["body"]):
            return True
    if "function" not in text and not _PARENTHESES.search(text):
        return False
    bodies: dict[str, str] = {}
    rest = text
    for found in list(_FUNCTION.finditer(text))[:FUNCTIONS_MAX]:
        start = found.end() - 1
        opens, closes = text[start], {"{": "}", "(": ")"}[text[start]]
        end, depth = start, 0
        while end < len(text):  # to where the group ends, or the text when it does not
            depth += (text[end] == opens) - (text[end] == closes)
            if depth == 0:
                break
            end += 1
        bodies[found["word"] or found["name"]] = text[found.end() : end]
        rest = rest.replace(text[found.start() : end + 1], " ")
    calls = {name: _find_calls(body, bodies) for name, body in bodies.items()}
    started = set[str]().union(*(_follow_calls(name, calls) for name in _find_calls(rest, bodies)))
    return any(
        name in _follow_calls(other, calls)
        for name in started
        for other in _find_calls(bodies[name], bodies, _BESIDE)
    )


def _find_calls(text: str, names: Iterable[str], after: str = "") -> set[str]:
    """The functions among these names that a text calls, with something after the call."""
    found = set()
    for name in names:
        itself = f"(?:{re.escape(name)}|{_ITSELF})" if after else re.escape(name)
        if re.search(rf"(?:^|[\s;&|({{`]){itself}(?=[\s;&|)}}`]|$){after}", text):
            found.add(name)
    return found


def _follow_calls(name: str, calls: dict[str, set[str]]) -> set[str]:
    """A function, and all that it leads to."""
    found, queue = set[str](), [name]
    while queue:
        current = queue.pop()
        if current not in found:
            found.add(current)
            queue.extend(calls.get(current, ()))
    return found
