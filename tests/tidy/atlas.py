"""ARCHITECTURE.md names every package once, where it lies."""

import re
from collections.abc import Iterable

__all__ = ["map_errors", "packages"]

_FENCE = re.compile(r"(?ms)^```[^\n]*\n(.*?)^```")


def packages(paths: Iterable[str], root: str) -> list[str]:
    """The packages under a source folder, by their path from it: `gate`, `models/reasoner`."""
    return sorted(
        inner.removesuffix("/__init__.py")
        for path in paths
        if path.startswith(root) and path.endswith("/__init__.py")
        if (inner := path.removeprefix(root)) != "__init__.py"
    )


def map_errors(document: str, root: str, names: list[str]) -> list[str]:
    """What differs between the tree drawn in the document and the packages that there are.

    The tree is a fenced block with a line that begins with the root (`src/operator_sre/`). Below
    it, one step further in, each line that begins with `name/` is a package; packages inside it
    are named as `name/` in its text, on that line or on the deeper ones that follow.
    """
    entries = _entries(document, root)
    if entries is None:
        return [f"ARCHITECTURE.md has no tree with a line that begins with {root!r}"]
    errors: list[str] = []
    tops = {name for name in names if "/" not in name}
    drawn = [name for name, _ in entries]
    for name in sorted(tops | set(drawn)):
        if name not in tops:
            errors.append(f"ARCHITECTURE.md draws {root}{name}/, which is not a package")
        elif drawn.count(name) != 1:
            times = drawn.count(name)
            errors.append(f"ARCHITECTURE.md draws {root}{name}/ {times} times, not once")
    for name, text in entries:
        inner = [path.rpartition("/")[2] for path in names if path.startswith(name + "/")]
        words = re.findall(r"(?<![\w/])(?:\w+/)*(\w+)/(?=[\s(,;:.)]|$)", text)
        errors += [
            f"ARCHITECTURE.md draws {child}/ in {root}{name}/ {words.count(child)} times"
            f" for {inner.count(child)} packages"
            for child in sorted({*inner, *words})
            if words.count(child) != inner.count(child)
        ]
    return errors


def _entries(document: str, root: str) -> list[tuple[str, str]] | None:
    """The packages of the tree below the root, each with the text that belongs to it."""
    for fence in _FENCE.finditer(document):
        lines = fence[1].splitlines()
        starts = [at for at, line in enumerate(lines) if line.strip().startswith(root)]
        if starts:
            break
    else:
        return None
    outer = _indent(lines[starts[0]])
    step: int | None = None
    found: list[tuple[str, str]] = []
    for line in lines[starts[0] + 1 :]:
        if line.strip() and _indent(line) <= outer:
            break
        step = _indent(line) if step is None else step
        head = re.match(r"\s*(\w+)/(?:\s|$)", line)
        if head and _indent(line) == step:
            found.append((head[1], line[head.end() :]))
        elif found and _indent(line) > step:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
