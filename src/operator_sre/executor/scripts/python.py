"""What a Python script may not call, found in its parsed tree."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from operator_sre.executor.scripts.flaws import Flaw, Layer

__all__ = ["dangers_of_python", "parse_script"]

# Names of the language that run what is not in the text.
_NAMES = frozenset({"__builtins__", "__import__", "__loader__", "compile", "eval", "exec"})
_CALLS = frozenset(
    {
        *("builtins", "code", "codeop", "ctypes", "importlib", "imp", "marshal", "pty", "runpy"),
        *("os.popen", "os.system", "os.startfile", "pickle.load", "pickle.loads", "shelve.open"),
        *("pickle.Unpickler", "subprocess.getoutput", "subprocess.getstatusoutput", "sys.modules"),
        *("asyncio.create_subprocess_shell", "commands.getoutput", "types.FunctionType"),
        *("types.CodeType", "zipimport", "pkgutil.get_loader"),
    }
)
_FAMILIES = ("os.exec", "os.spawn", "os.posix_spawn")
_REFLECTING = frozenset({"delattr", "getattr", "globals", "locals", "setattr", "vars"})
_INNER = frozenset(
    {
        *("__base__", "__bases__", "__builtins__", "__closure__", "__code__", "__globals__"),
        *("__import__", "__loader__", "__mro__", "__reduce__", "__reduce_ex__", "__self__"),
        *("__spec__", "__subclasses__", "f_builtins", "f_globals", "f_locals", "gi_frame"),
    }
)


def parse_script(text: str) -> ast.Module | Flaw:
    """The tree, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        return Flaw(Layer.SYNTAX, f"Python says: {error.msg}.", error.lineno or 0)
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return Flaw(Layer.SYNTAX, "Python cannot read it: it is nested too deeply or is not text.")


def dangers_of_python(tree: ast.Module) -> Iterator[Flaw]:
    """Every place that runs what cannot be read in the script itself."""
    # What each name that was imported stands for.
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                whole = name.name if name.asname else name.name.partition(".")[0]
                known[name.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                known[name.asname or name.name] = f"{node.module or ''}.{name.name}"
    for node in ast.walk(tree):
        for sentence in _sentences(node, known):
            yield Flaw(Layer.DANGEROUS, sentence, getattr(node, "lineno", 0))


def _sentences(node: ast.AST, known: dict[str, str]) -> Iterator[str]:
    match node:
        case ast.Name(id=name) if name in _NAMES and name not in known:
            yield f"`{name}` runs code that is not in the script."
        case ast.Import(names=names):
            yield from _forbidden(*(call.name for call in names))
        case ast.ImportFrom(module=module, names=names):
            yield from _forbidden(*(f"{module}.{call.name}" for call in names))
            if any(call.name == "*" for call in names):
                yield "`import *` imports names that are not in the script."
        case ast.Attribute(attr=name) if name in _INNER:
            yield f"`.{name}` reaches Python internals."
        case ast.Attribute():
            yield from _forbidden(_dotted_name(node, known))
        case ast.Name(id=name, ctx=ast.Load()) if name in known:
            yield from _forbidden(known[name])
        case ast.Call():
            name = _dotted_name(node.func, known)
            if name.startswith("subprocess."):
                shell = next((call.value for call in node.keywords if call.arg == "shell"), None)
                if shell is not None and not (isinstance(shell, ast.Constant) and not shell.value):
                    yield (
                        f"`{name}` with a shell; pass the program and its arguments as a list "
                        "instead."
                    )
                if any(call.arg is None for call in node.keywords):
                    yield f"`{name}` with options that are not in the script."
            if isinstance(node.func, ast.Name) and node.func.id in _REFLECTING:
                yield from _find_reflection(node.func.id, node.args)
        case _:
            pass


def _find_reflection(name: str, arguments: list[ast.expr]) -> Iterator[str]:
    if name in ("vars", "globals", "locals"):
        if name == "globals" or not arguments:
            yield f"`{name}` reaches names that are not in the script."
        return
    if len(arguments) < 2:
        return
    wanted = arguments[1]
    if not isinstance(wanted, ast.Constant) or not isinstance(wanted.value, str):
        yield f"`{name}` with a name that is not in the script."
    elif wanted.value.startswith("__") or f".{wanted.value}" in _ATTRIBUTES:
        yield f"`{name}` of {wanted.value!r} reaches Python internals."


_ATTRIBUTES = frozenset(f".{call.rpartition('.')[2]}" for call in _CALLS if "." in call)


def _dotted_name(node: ast.expr, known: dict[str, str]) -> str:
    """`os.path.join` for an attribute of what was imported; "" for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([known.get(node.id, node.id if not names else ""), *reversed(names)])


def _forbidden(*names: str) -> Iterator[str]:
    for name in names:
        parts = name.split(".")
        starts = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if starts & _CALLS or name.startswith(_FAMILIES):
            yield f"`{name}` runs code that cannot be checked."
