"""Print the words and names that hide what a thing is, each with what to write instead.

    python3 .ci/voice.py               how many there are, by kind
    python3 .ci/voice.py PATH ...      each of them below these paths, as path:line

Texts are what users read: documentation, templates, knowledge files and the strings of the code.
Comments are for readers of the code: comments and docstrings. Only the standard library is needed.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["EXPLAINED", "Finding", "find_names", "find_words", "main", "read_findings"]

_ROOT = Path(__file__).resolve().parent.parent
_CODE = ("evals/src", "lab/src", "protocols/src", "services", "src")
_PROSE = ("*.md", "docs/**/*.md", "*/README.md")
_DATA = (".html", ".toml", ".yaml", ".yml", ".txt")
_FOREIGN = ("/static/vendor/", "/testdata/")
# Files that keep such a word, each with its reason. An entry that is not needed any more fails.
EXPLAINED = {
    "evals/src/operator_evals/analysis.py": "`asked` and `what` are fields of published results",
    "evals/src/operator_evals/app/replays.py": "`said` is a field of the printed document",
    "evals/src/operator_evals/database.py": "`said` is a column of existing databases",
    "evals/src/operator_evals/facts.py": "`asked` is a field of published facts",
    "evals/src/operator_evals/opinions.py": "answers are stored by the digest of the question",
    "evals/src/operator_evals/score.py": "`asked` is a field of published scores",
    "src/operator_sre/app/hub.py": "`what` is a field of a public document",
    "src/operator_sre/faces/web/templates/parts/ticket_state.html": "`minds` is a field of reports",
}

# A pattern without regard to case, and the words that say it plainly.
_WORDS = {
    r"whoever": "the user, the process, or another noun",
    r"somebody": "someone, or the role",
    r"(?<![`\"'|])nobody(?![`\"':|]|\))": "no one, or a sentence with a subject",
    r"anew": "again",
    r"lately": "recently",
    r"said": "reported, printed, recorded",
    r"told": "notified, reported, shown",
    r"begun": "started",
    r"those that|those who|those which": "the noun",
    r"one that|one who|one which": "the noun",
    r"as it comes|goes by that|goes by it": "a plain sentence",
    r"mend|mends|mended|mending": "repair",
    r"a mind|the mind|minds|mind's|this mind|that mind|another mind|which mind|no mind": (
        "agent, model or reasoner"
    ),
    r"a look|looks? at|looked at|looking at|looks? again|looked again|looking again|"
    r"by looking|each look|every look|last look|next look|first look": "check, observe, read",
    r"right ends?|ends? right|ended right": "correct outcome",
    r"kept apart": "held out",
    r"deeds?": "action",
    r"rough treatment": "crash tests",
    r"taken back|take back|takes back|took back|taking back": "rolled back",
    r"let it run": "approve",
    r"(?:is|are|was|were|be) over": "resolved, closed, ended",
    r"waits? for (?:an answer|a person|people)|has to answer|said yes|said no": "approval required",
    r"hand(?:s|ed|ing)? (?:\w+ )?over to a person|handed to a person": "escalate",
    r"half of them|19 of 20|nineteen of twenty": "p50, p95",
    r"is no (?:time|date|duration|number|name|port|address|path|id|level|mode|word|size|url)\b": (
        "is not a valid ..."
    ),
    r"makes? no sense here": "invalid request",
    r"opens? doors|stands? otherwise|known by that name": "a plain sentence",
}
# Only in texts: a comment may have these words in a plain sentence.
_TEXT_WORDS = {
    r"what is": "the noun",
    r"what it is": "the noun",
    r"what was": "the noun",
    r"everybody": "everyone, all users, or all other processes",
    r"(?:the )?caller's choice|the caller says": "that the command names",
    r"waits? for an? (?:approval|confirmation)": "pending approval",
    r"for always": "permanently, or a standing rule",
    r"may have no more": "reaches its limit of",
    r"as (?:it|they) should be": "invalid, or the expected state",
    r"what (?:came|comes) back": "the answer, the result",
    r"is there twice": "is a duplicate",
    r"(?:taken|took it|takes?|took) away": "removed, deleted",
    r"after a yes": "after you confirm",
    r"gets? on with|can it be had": "accept, can it be read",
    r"half within|half of the looks|9[059] of 100|one in twenty": "p50, p95, p99, 5 %",
    r"(?<!there )(?<!there\n)is no (?!longer|more|other|such|way)\w+": "is not a",
    r"used? the [\w ]{1,40} up": "used up the ...",
    r"(?:holds?|has|have|with) another (?:\w+ ){1,3}than": "a different ... than",
    r"makes no sense": "invalid",
    r"look further": "next",
    r"cannot be seen": "cannot be observed, cannot be read",
}
_BANNED = {re.compile(rf"\b(?:{pattern})(?!\w)", re.I): plain for pattern, plain in _WORDS.items()}
_BANNED_TEXT = _BANNED | {
    re.compile(rf"\b(?:{pattern})\b", re.I): plain for pattern, plain in _TEXT_WORDS.items()
}
# Most texts hold none of them, which one pattern finds out faster than thirty.
_ANY = re.compile("|".join(pattern.pattern for pattern in _BANNED_TEXT), re.I)

_PARTICIPLES = re.compile(
    r"_?(?:\w*[^_e]ed|asked|begun|bound|built|chosen|done|drawn|fed|felt|found|given|gone|heard|"
    r"held|hidden|kept|known|led|left|lent|lost|made|meant|met|paid|said|seen|sent|shown|sought|"
    r"spoken|spent|taken|taught|thought|told|torn|understood|won|worn|written)"
)
_VERBS = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
_PRONOUNS = {"asked", "begun", "one", "said", "told", "what", "whoever"}
_MOODS = {"deed", "glimpse", "telling", "whole", "witness"}
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTION, ast.ClassDef, ast.Module)


class Finding(NamedTuple):
    """One word or name to replace. `kind` is text, comment or name."""

    kind: str
    path: str
    line: int
    word: str
    instead: str


def find_words(path: str, text: str) -> Iterator[Finding]:
    """The banned words of one file, in Python those of its strings, docstrings and comments."""
    if not path.endswith(".py"):
        yield from _scan("text", path, 1, text)
        return
    nodes = _nodes(text)
    docstrings = set()
    for node in nodes:
        if isinstance(node, _SCOPES) and node.body and isinstance(node.body[0], ast.Expr):
            docstrings.add(node.body[0].value)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            # A string without a blank is a name, a key or a pattern.
            if node in docstrings:
                yield from _scan("comment", path, node.lineno, node.value)
            elif " " in node.value:
                yield from _scan("text", path, node.lineno, node.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _scan("comment", path, token.start[0], token.string)


@lru_cache(maxsize=1)
def _nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def _scan(kind: str, path: str, first: int, text: str) -> Iterator[Finding]:
    if not _ANY.search(text):
        return
    for pattern, instead in (_BANNED_TEXT if kind == "text" else _BANNED).items():
        for match in pattern.finditer(text):
            line = first + text.count("\n", 0, match.start())
            yield Finding(kind, path, line, match[0].replace("\n", " "), instead)


def find_names(path: str, text: str) -> Iterator[Finding]:
    """Modules named after an activity or a mood, functions that are participles, pronouns."""
    stem = Path(path).stem
    if stem in _MOODS or (stem.endswith("ing") and stem not in {"recording", "string"}):
        yield Finding("name", path, 1, stem, "the noun that the module defines")
    for node in _nodes(text):
        if isinstance(node, _FUNCTION):
            is_value = any("property" in ast.dump(each) for each in node.decorator_list)
            is_participle = _PARTICIPLES.fullmatch(node.name) and node.name.strip("_") not in _VERBS
            if is_participle and not is_value and "_" not in node.name.strip("_"):
                yield Finding("name", path, node.lineno, f"{node.name}()", "a verb with its object")
        name = ""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        if name in _PRONOUNS:
            line = getattr(node, "lineno", 1)
            yield Finding("name", path, line, name, "the noun")


def read_findings(root: Path) -> list[Finding]:
    """Everything to replace in this checkout."""
    prose = {file for pattern in _PROSE for file in root.glob(pattern)}
    files = [file for folder in _CODE for file in (root / folder).rglob("*") if file.is_file()]
    findings: list[Finding] = []
    for file in sorted({*prose, *files}):
        path = file.relative_to(root).as_posix()
        is_ours = file in prose or file.suffix == ".py" or file.suffix in _DATA
        if is_ours and not any(part in f"/{path}" for part in _FOREIGN):
            text = file.read_text()
            findings += find_words(path, text)
            if file.suffix == ".py":
                findings += find_names(path, text)
    return findings


def main(arguments: list[str]) -> int:
    """Print the counts, or the findings below some paths."""
    parser = argparse.ArgumentParser(description="Print words and names to replace.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="list the findings below PATH")
    chosen = parser.parse_args(arguments)
    findings = read_findings(_ROOT)
    if not chosen.paths:
        kinds = Counter((finding.kind, finding.path in EXPLAINED) for finding in findings)
        for kind in ("text", "comment", "name"):
            explained = f", {kinds[kind, True]} explained" if kinds[kind, True] else ""
            sys.stdout.write(f"{kinds[kind, False]:>8,}  {kind}s to replace{explained}\n")
        return 0
    for finding in findings:
        if finding.path.startswith(tuple(chosen.paths)):
            kind, path, line, word, instead = finding
            sys.stdout.write(f"{path}:{line} {kind} {word!r}; instead: {instead}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
