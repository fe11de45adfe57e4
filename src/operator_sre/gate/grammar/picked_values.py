"""Commands that pick a secret by its name and print it without: redaction needs the names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from operator_sre.gate.grammar.patterns import re

__all__ = ["PICKING", "picks_secret"]

PICKED = (
    "?It picks a value by the name of a secret and prints it without the name, so that it is not"
    " redacted. Print the line or the object that it stands in."
)
# Names of secrets, as programs and templates write them; in a sentence they are words like others.
_NAME = re.compile(
    r"(?i)(?<![a-z0-9] )(?<![a-z0-9])"
    r"(?:\w*(?:password|passwd|passphrase|passcode|secret|credentials?|api_?key|access_?key"
    r"|private_?key|secret_?key|auth_?key|connection_?string)|\w*token|\w*_pwd|pwd)(?![a-z0-9_ ]\w)"
    r"(?![a-z0-9_])"
)
# Tokens that are no secrets, such as those of pages.
_PAGES = re.compile(r"(?i)(?:next|continu|page|start|sync|cancel|resume|stop|bos|eos|pad|max)\w*")
_FIELD = re.compile(r"print[^;}]*\$|\b(?:sub|gsub|gensub|substr|split|match)\(")
_SUBSTITUTES = re.compile(r"(?:^|[\s;{}/\d,$!])s[^\w\s]")
# What only asks for the name, or leaves the value out.
_ASKS = re.compile(r"\b(?:del|has|test|contains|startswith|endswith)\([^()]*\)")
_ONLY_MATCHING = re.compile(r"-[A-Za-z]*o[A-Za-z]*|--only-m[a-z]*|-[A-Za-z]*r|--replace(?:=.*)?")
_TEMPLATE = re.compile(r".*(?:\{|custom-columns).*|--(?:query|format)=.*")
_ASKED_BY = frozenset({"--query", "--format", "--template"})


def _names(text: str) -> int:
    """How many names of secrets stand in it."""
    found = (match[0] for match in _NAME.finditer(text))
    return sum(not _PAGES.fullmatch(name) for name in found)


def _in_filter(words: Sequence[str]) -> bool:
    return any(_names(_ASKS.sub("", text)) for text in words if text[:1] != "-")


def _in_awk(words: Sequence[str]) -> bool:
    return any(_FIELD.search(text) and _names(text) for text in words if "{" in text)


def _in_sed(words: Sequence[str]) -> bool:
    # What names it twice puts the name back.
    return any(_SUBSTITUTES.search(text) and _names(text) == 1 for text in words)


def _in_pattern(words: Sequence[str]) -> bool:
    return any(map(_ONLY_MATCHING.fullmatch, words)) and any(map(_names, words))


def _in_template(words: Sequence[str]) -> bool:
    return any(
        _names(text)
        for before, text in zip(("", *words), words, strict=False)
        if before in _ASKED_BY or _TEMPLATE.fullmatch(text)
    )


def _by_tool() -> Iterator[tuple[str, Callable[[Sequence[str]], bool]]]:
    for names, check in (
        ("jq gojq jaq yq dasel fx", _in_filter),
        ("awk gawk mawk nawk", _in_awk),
        ("sed gsed", _in_sed),
        ("grep egrep fgrep zgrep rg ag ack", _in_pattern),
        ("kubectl oc docker podman nerdctl crictl helm aws gcloud az nomad", _in_template),
    ):
        yield from ((name, check) for name in names.split())


# Every other command is passed over.
_CHECKS: Mapping[str, Callable[[Sequence[str]], bool]] = dict(_by_tool())
PICKING = frozenset(_CHECKS)


def picks_secret(name: str, words: Sequence[str]) -> str:
    """Why a command may print a secret without its name, or nothing."""
    return PICKED if _CHECKS[name](words) else ""
