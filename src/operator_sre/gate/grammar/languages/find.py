"""The expression of find: what only looks, what writes, and the commands it would start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, quote_word

__all__ = ["find", "find_commands"]

_ALONE = frozenset(
    """
    ! ( ) , -a -and -d -daystart -depth -empty -executable -false -follow -help --help
    -ignore_readdir_race -ls -mount -nogroup -noignore_readdir_race -noleaf -not -nouser -nowarn
    -o -or -print -print0 -prune -quit -readable -true -version --version -warn -writable -xdev
    """.split()  # noqa: SIM905
)
_WITH_VALUE = frozenset(
    """
    -amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum
    -ipath -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path
    -perm -printf -regex -regextype -samefile -size -type -uid -used -user -wholename -xtype
    """.split()  # noqa: SIM905
)
_NAMING = frozenset(
    {"-ilname", "-iname", "-ipath", "-iregex", "-iwholename"}
    | {"-lname", "-name", "-path", "-regex", "-wholename"}
)
_MARKS = ("(", ")", "!", ",")
_NEWER = re.compile(r"-newer[aBcm][aBcmt]")
_STARTS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_REASONS: dict[str, str] = {
    "-delete": "!-delete removes what it finds; without it, this only lists.",
    "-files0-from": "The places to search would be read from a file.",
    "-fls": "!-fls writes a file; -ls prints the same.",
    "-fprint": "!-fprint writes a file; -print prints the same.",
    "-fprint0": "!-fprint0 writes a file; -print0 prints the same.",
    "-fprintf": "!-fprintf writes a file; -printf prints the same.",
}
_SECRET = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519)|passw|shadow|secret|credential|token|wallet|keychain|_history"
    r"|\.(?:aws|azure|config/gcloud|docker|env|gnupg|kube|netrc|oci|password-store|pgpass|ssh)\b"
    r"|\.(?:jks|kdbx?|key|keytab|p12|pem|pfx|ppk)\b",
    re.IGNORECASE,
)


def find(words: Sequence[str]) -> str | None:
    """Why find with these words is not proven to only list; its commands are judged elsewhere."""
    if sum(map(len, words)) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    place = _expression(words)
    if any(map(_SECRET.search, words[:place])):
        return "?It searches a directory that holds secrets."
    while place < len(words):
        word = words[place]
        if word in _ALONE:
            place += 1
        elif word in _WITH_VALUE or _NEWER.fullmatch(word):
            if place + 1 == len(words):
                return f"The test {quote_word(word)} needs a value."
            if word in _NAMING and _SECRET.search(words[place + 1]):
                return "?It searches for files that hold secrets."
            place += 2
        elif word in _STARTS:
            if word in ("-execdir", "-okdir"):
                return f"{word} runs a command in the directory of each file; -exec runs it here."
            end = _end(words, place + 1)
            if end is None:
                return f"The command behind {word} is empty or does not end."
            place = end + 1
        else:
            return _REASONS.get(word, f"The word {quote_word(word)} is not known to only read.")
    return None


def find_commands(words: Sequence[str]) -> list[list[str]]:
    """The command behind each -exec, with {} in place; without an end it takes all words."""
    commands: list[list[str]] = []
    place = _expression(words)
    while place < len(words):
        word = words[place]
        if word in _STARTS:
            end = _end(words, place + 1)
            stop = len(words) if end is None else end
            commands.append(list(words[place + 1 : stop]))
            place = stop + 1
        else:
            place += 2 if word in _WITH_VALUE or _NEWER.fullmatch(word) else 1
    return commands


def _expression(words: Sequence[str]) -> int:
    """Where the options and the places end, and the expression begins."""
    place = 0
    while place < len(words) and words[place] in ("-H", "-L", "-P", "-O0", "-O1", "-O2", "-O3"):
        place += 1
    while place < len(words) and words[place][:1] != "-" and words[place] not in _MARKS:
        place += 1
    return place


def _end(words: Sequence[str], start: int) -> int | None:
    """Where `;` or `{} +` ends a command; a plus that may or may not end it is no end."""
    for place in range(start, len(words)):
        if words[place] == ";":
            return place if place > start else None
        if words[place] == "+":
            return place if place > start + 1 and words[place - 1] == "{}" else None
    return None
