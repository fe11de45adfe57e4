"""Print how large the house is, and how much of it is cut into pieces that are read only once.

    python3 .ci/size.py                 the table
    python3 .ci/size.py --helpers PATH  the private functions below PATH that are used once
    python3 .ci/size.py --incident      the files that one incident passes through, with their paths

Only the standard library is needed, and .venv for an incident. Tests, benchmarks and examples do
not count.
"""

import argparse
import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Module", "main", "read_modules", "read_sizes"]

_ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("evals/src", "lab/src", "protocols/src", "services", "src")
# A noun of the product, by the word that its modules, classes and functions carry.
_NOUNS = ("approval", "confirmation", "silence", "standing", "token", "window", "workflow")
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """One Python file, parsed."""

    path: str
    lines: int
    tree: ast.Module

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, _FUNCTION))

    def helpers(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Private functions and methods that this module names exactly once after defining them.

        A nested function closes over its place and is not counted.
        """
        names = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        bodies = [self.tree.body]
        bodies += [node.body for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        for body in bodies:
            for node in body:
                if not isinstance(node, _FUNCTION):
                    continue
                is_private = node.name.startswith("_") and not node.name.endswith("__")
                if is_private and names[node.name] == 1:
                    yield node

    def called(self) -> set[str]:
        """The names that are called; a helper that is not is passed on, as a view or a callback."""
        calls = (node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        return {
            name.id if isinstance(name, ast.Name) else name.attr
            for name in calls
            if isinstance(name, ast.Name | ast.Attribute)
        }

    def local_imports(self) -> int:
        """Imports inside of functions."""
        nodes = (node for function in self.functions() for node in ast.walk(function))
        return len({node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)})

    def words(self) -> set[str]:
        """The names that this module defines, in lower case, with its own path."""
        defined = {
            node.name.lower()
            for node in ast.walk(self.tree)
            if isinstance(node, (*_FUNCTION, ast.ClassDef))
        }
        return defined | {self.path.lower()}


def read_modules(root: Path) -> list[Module]:
    """Every module that users install."""
    modules = []
    for folder in _FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            text = file.read_text()
            path = file.relative_to(root).as_posix()
            modules.append(Module(path, text.count("\n"), ast.parse(text, path)))
    return modules


def read_sizes(modules: list[Module]) -> dict[str, str]:
    """The figures, by what they count."""
    functions = sum(1 for module in modules for _ in module.functions())
    helpers = sum(1 for module in modules for _ in module.helpers())
    called = sum(
        node.name in names
        for module in modules
        for names in [module.called()]
        for node in module.helpers()
    )
    local = sum(module.local_imports() for module in modules)
    gerunds = sum(Path(module.path).stem.endswith("ing") for module in modules)
    sizes = {
        "lines": f"{sum(module.lines for module in modules):,}",
        "modules": f"{len(modules):,}",
        "modules named after an activity (-ing)": f"{gerunds:,}",
        "functions": f"{functions:,}",
        "helpers used once": f"{helpers:,} ({100 * helpers / functions:.1f} %)",
        "of these called in place; the others are passed on": f"{called:,}",
        "imports inside of functions": f"{local:,}",
    }
    for noun in _NOUNS:
        files = sum(any(noun in word for word in module.words()) for module in modules)
        sizes[f"files that define something of {noun!r}"] = f"{files:,}"
    return sizes


def main(arguments: list[str]) -> int:
    """Print the table, or the helpers below a path."""
    parser = argparse.ArgumentParser(description="Print how large the source tree is.")
    parser.add_argument("--helpers", metavar="PATH", help="list the helpers used once below PATH")
    parser.add_argument("--incident", action="store_true", help="run one incident and list files")
    chosen = parser.parse_args(arguments)
    if chosen.incident:
        command = [str(_ROOT / ".venv/bin/python"), str(_ROOT / ".ci/incident.py"), "--list"]
        return subprocess.run(command, check=False).returncode
    modules = read_modules(_ROOT)
    if chosen.helpers is None:
        for name, size in read_sizes(modules).items():
            sys.stdout.write(f"{size:>16}  {name}\n")
        return 0
    for module in modules:
        if module.path.startswith(chosen.helpers):
            for node in module.helpers():
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                sys.stdout.write(f"{module.path}:{node.lineno} {node.name} ({lines} lines)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
