"""Spans, figures and counts as people read them. Pure."""

from __future__ import annotations

from operator_protocols.domain.observation import Value

__all__ = ["figure", "plural", "span"]

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))
FIGURE_DIGITS = 4
LARGE = 100_000.0
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
TEXT_CHARACTERS_MAX = 60


def span(seconds: float | None) -> str:
    """How long: `4.2 s`, `3 min 20 s`, `2 h 5 min`; a dash where nobody knows."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    left, parts = round(seconds), []
    for unit, size in (*_UNITS, ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def figure(value: Value) -> str:
    """A reading, short enough for a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(float(value))
    if value is None:
        return "-"
    return value if len(value) <= TEXT_CHARACTERS_MAX else f"{value[:TEXT_CHARACTERS_MAX]}..."


def _number(value: float) -> str:
    if abs(value) >= LARGE:
        for size, unit in _SCALES:
            if abs(value) >= size:
                return f"{value / size:.{FIGURE_DIGITS}g} {unit}"
    if value == int(value):
        return str(int(value))
    return f"{value:.{FIGURE_DIGITS}g}"


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun."""
    return f"{count} {one if count == 1 else many or one + 's'}"
