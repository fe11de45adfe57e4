"""Words that do not belong in a committed file."""

import re

__all__ = ["leftover_notes", "workshop_words"]

# The patterns are written so that this file does not find itself.
_NOTES = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b")
_WORKSHOP = {
    "a package registry": re.compile(
        r"\bp[y]pi\.|python[h]osted|--(?:extra-)?index[-]url\b|--find[-]links\b", re.I
    ),
    "a path of one machine": re.compile(r"(?<![\w.})-])/(?:work|root)/"),
    "a plan": re.compile(r"\b(?:issue|phase|milestone|sprint) #?\d+\b", re.I),
}


def leftover_notes(texts: dict[str, str]) -> list[str]:
    """Notes to oneself: do it, or open an issue."""
    return [
        f"{path}:{number} has a leftover note, {match[0]!r}: do it or drop it"
        for path, text in texts.items()
        if _NOTES.search(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := _NOTES.search(line))
    ]


def workshop_words(texts: dict[str, str]) -> list[str]:
    """What is true only where the project is being made, as `path:line ...`."""
    return [
        f"{path}:{number} names {kind}, {match[0]!r}: say it without"
        for path, text in texts.items()
        for kind, pattern in _WORKSHOP.items()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := pattern.search(line))
    ]
