"""What a bash or Python script may not run, and why a script is not run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from operator_sre.shell.script import Command, TooDeep, Word, commands_of

__all__ = ["Flaw", "Layer", "dangers_of_bash", "dangers_of_python", "parse_script"]


class Layer(StrEnum):
    """The checks, in this order; the first that finds something is the last to run."""

    SIZE = "size"
    SYNTAX = "syntax"
    SECRETS = "secrets"
    DANGEROUS = "dangerous"


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong with a script. `line` counts from 1; 0 speaks of all of it."""

    layer: Layer
    sentence: str
    line: int = 0

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{self.layer}: {where}{self.sentence}"


_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=")
_SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"})
_INTERPRETERS = _SHELLS | {"node", "perl", "php", "python", "python2", "python3", "ruby"}
# Programs that run the rest of their words, and how many words of their own come first.
_WRAPPERS = {
    **dict.fromkeys(("builtin", "command", "env", "exec", "ionice", "nice", "nohup", "setsid"), 0),
    **dict.fromkeys(("stdbuf", "sudo", "time", "xargs", "busybox", "doas", "then"), 0),
    "timeout": 1,
}
_RUNS_WORDS = frozenset({"trap", "alias", "bind", "mapfile", "readarray", "complete"})
# Variables by which bash runs or loads something by itself.
_RUN_BY_ITSELF = frozenset(
    {"BASH_ENV", "ENV", "IFS", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PS0", "PS1"}
    | {"PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS"}
)


def dangers_of_bash(text: str) -> Iterator[Flaw]:
    """Every place that runs what cannot be read in the script itself."""
    try:
        commands = commands_of(text)
    except (TooDeep, RecursionError):
        yield Flaw(Layer.DANGEROUS, "it is nested too deeply to be checked.")
        return
    for command in commands:
        for sentence in _sentences(command):
            yield Flaw(Layer.DANGEROUS, sentence, command.line)


def _sentences(command: Command) -> Iterator[str]:
    if command.prompted:
        yield "`${name@P}` runs the content of a variable."
    words = list(command.words)
    while words and (found := _ASSIGNMENT.match(words[0].text)):
        if found["name"] in _RUN_BY_ITSELF:
            yield f"`{found['name']}` determines which code runs."
        words.pop(0)
    # Without what only runs the rest: `command env -i nice -n 5 eval` is `eval`.
    while words and not words[0].dynamic:
        own = _WRAPPERS.get(words[0].text.rpartition("/")[2])
        if own is None:
            break
        rest = words[1:]
        while rest and (rest[0].text.startswith("-") or _is_own(rest[0], words[0])):
            rest = rest[1:]
        if not rest[own:]:
            break
        words = rest[own:]
    if not words:
        return
    first, rest = words[0], words[1:]
    name = first.text.rpartition("/")[2]
    if first.dynamic:
        yield "the command is known only at run time; write it out."
    elif name == "eval":
        yield "`eval` runs code that is not in the script."
    elif name in ("source", ".") and (not rest or rest[0].dynamic or "/dev/" in rest[0].text):
        yield f"`{name}` runs a file that is known only at run time."
    elif name == "enable" and any(word.text.startswith("-f") for word in rest):
        yield "`enable -f` loads code into the shell."
    elif name in ("export", "declare", "typeset", "local", "readonly"):
        for word in rest:
            found = _ASSIGNMENT.match(word.text)
            if found and found["name"] in _RUN_BY_ITSELF:
                yield f"`{found['name']}` determines which code runs."
    elif name in _RUNS_WORDS and any(word.dynamic for word in rest):
        yield f"`{name}` stores commands that are not in the script."
    elif name in _INTERPRETERS:
        # An interpreter may run what is written here, never what comes from elsewhere.
        options = [word for word in rest if word.text.startswith("-") and not word.dynamic]
        files = [word for word in rest if word not in options]
        if command.piped and not files:
            yield f"a pipe into `{name}` runs code that another program writes."
        elif command.fed and not files:
            yield f"`{name}` runs the text on its standard input; write the commands out."
        elif files and (files[0].dynamic or files[0].text.startswith(("/dev/", "/proc/"))):
            yield f"`{name}` runs code that is known only at run time."
        elif files and name in _SHELLS and any("c" in word.text.lstrip("-") for word in options):
            yield from (flaw.sentence for flaw in dangers_of_bash(files[0].text))


def _is_own(word: Word, wrapper: Word) -> bool:
    """An assignment behind `env`, or the number behind an option."""
    numeric = word.text.replace(".", "").isdigit() and wrapper.text != "timeout"
    return not word.dynamic and (bool(_ASSIGNMENT.match(word.text)) or numeric)


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
        for sentence in _sentences_of_node(node, known):
            yield Flaw(Layer.DANGEROUS, sentence, getattr(node, "lineno", 0))


def _sentences_of_node(node: ast.AST, known: dict[str, str]) -> Iterator[str]:
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
