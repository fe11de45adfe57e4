"""It fits the eye: the sizes of functions, files and lines."""

from collections.abc import Iterable
from functools import cache
from statistics import median

from tests.tidy.sources import Source, functions

__all__ = [
    "bad_names",
    "function_lines",
    "long_files",
    "long_functions",
    "long_lines",
    "median_function_lines",
]

_FUNCTION_LINES_MAX = 70
_FILE_LINES_MAX = 500
_LINE_CHARACTERS_MAX = 100
_MEASURED = (".lua", ".py", ".sh", ".toml", "/run", "Makefile")

# Names under which anything can be filed, so that nothing can be found.
_KITCHEN_SINKS = {
    *("common", "core", "helper", "helpers", "manager", "managers"),
    *("misc", "types", "util", "utils"),
}


@cache
def function_lines(source: Source) -> tuple[tuple[str, int], ...]:
    """Where each function of a file is, and how many lines it has."""
    return tuple((function.place, function.lines) for function in functions(source))


def long_functions(files: Iterable[Source]) -> list[str]:
    """Functions of more lines than a screen shows."""
    return [
        f"{place} has {lines} lines, at most {_FUNCTION_LINES_MAX}: split it"
        for source in files
        for place, lines in function_lines(source)
        if lines > _FUNCTION_LINES_MAX
    ]


def median_function_lines(files: Iterable[Source]) -> float:
    """The median length of a function, over all the files."""
    lengths = [lines for source in files for _, lines in function_lines(source)]
    return median(lengths) if lengths else 0.0


def long_files(files: Iterable[Source]) -> list[str]:
    """Files of more lines than a reader holds."""
    counts = {source.path: len(source.text.splitlines()) for source in files}
    return [
        f"{path} has {count} lines, at most {_FILE_LINES_MAX}: one noun, one file"
        for path, count in counts.items()
        if count > _FILE_LINES_MAX
    ]


def long_lines(texts: dict[str, str]) -> list[str]:
    """Lines that do not fit two windows side by side."""
    return [
        f"{path}:{number} has {len(line)} characters, at most {_LINE_CHARACTERS_MAX}"
        for path, text in texts.items()
        if path.endswith(_MEASURED)
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > _LINE_CHARACTERS_MAX
    ]


def bad_names(paths: Iterable[str]) -> list[str]:
    """Files and folders whose name says nothing."""
    return [
        f"{path}: {part!r} is a name for anything; name the one noun that is in it"
        for path in paths
        for part in path.split("/")
        if part.partition(".")[0].lower() in _KITCHEN_SINKS
    ]
