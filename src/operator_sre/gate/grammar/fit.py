"""Fitting the words of a command into the read-only forms of its tool."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from operator_sre.gate.grammar.kinds import check
from operator_sre.gate.grammar.languages import WORD_LANGUAGES, find_commands
from operator_sre.gate.grammar.paths import resolve_path
from operator_sre.gate.grammar.patterns import re
from operator_sre.gate.grammar.questions import as_question
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.tables import Tool
from operator_sre.shell.line import ASSIGNMENT, parse
from operator_sre.shell.words import Simple, Word

__all__ = ["fit"]

# Operands that are a command of their own: as words, as one line, as words that more are added to.
# Those set variables for what they run, as the shell does.
_SETTING = frozenset({"env", "sudo", "doas"})
# To those, a path is a text like any other.
_SAYING = frozenset({"echo", "printf", "basename", "dirname"})
_TELLING = frozenset({"--version", "--help", "-V"})
_COMMANDS = frozenset({"command", "line", "command+"})
# They show what is known of a file, and nothing that is in it.
_NAMING = frozenset({"basename", "dirname", "du", "ls", "readlink", "realpath", "stat", "wc"})
_FIND_ACTS = (
    *("-delete", "-exec", "-execdir", "-ok", "-okdir"),
    *("-fls", "-fprint", "-fprint0", "-fprintf"),
)
_PS_TAKERS = frozenset("oOkpqtU")
_PS_VALUED = frozenset("poOCtugGUsq")
# What changes neither which package is installed, nor from where, nor to which place.
_PIP = frozenset({"pip", "pip2", "pip3"})
_PIP_OPTIONS = frozenset(
    {
        *("-q", "--quiet", "-v", "--verbose", "--no-color", "--no-input", "--no-cache-dir"),
        *("--no-deps", "--disable-pip-version-check", "--require-virtualenv"),
        *("--only-binary=:all:", "--prefer-binary", "--progress-bar=off"),
    }
)
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._,-]*\])?==[0-9][A-Za-z0-9.!+_-]*"
)
_PINNED = (
    "~It installs exact versions into a virtual environment, which can be undone; building a"
    " package can run its code."
)
_UNKNOWN = "Some of its arguments are not known until it runs."
# Folders that only the system itself fills.
_SYSTEM = re.compile(r"/|/root|/var|/(?:etc|usr)(?:/.*)?")
# Values of these kinds may be anything; some versions of a tool know no value there.
_LOOSE = frozenset({"text", "name", "setting", "blind"})
_OPTION = re.compile(r"--?[A-Za-z]")
# What compares two words in `test`: next to one of these, a word is no operator itself.
_COMPARES = frozenset(
    {"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"}
)


def fit(name: str, tool: Tool, words: Sequence[Word], scene: Scene) -> str:
    """Why these arguments are not known to only read, or nothing."""
    if tool.reveals:
        scene.sensitive.append(name)
        return f"?{tool.reveals}"
    if name == "ps" and _read_again(words):
        return "?ps may read these options without their dashes, and e shows the environment."
    if name == "curl":
        words = as_question(words, tool.options)
    if tool.words:
        reason = _in_language(tool, words, scene)
    else:
        reason = _Fitting(name, tool, scene).all(words)
    if reason[:1] == "!" and scene.venv and name in _PIP and _installs_pinned(words):
        return _PINNED
    if reason or name in _SAYING:
        return reason
    # It must not look where a path asks a host or starts a device, whatever kind that is.
    near = scene.cwd[:4] == "/dev"
    for word in words:
        if (near or word.text[:1] == "/") and (reason := scene.visit(word.text)):
            return reason
    return ""


def _installs_pinned(words: Sequence[Word]) -> bool:
    """True for `pip install` of exact versions from the configured index, and nothing else."""
    texts = [word.text for word in words]
    if not texts or texts[0] != "install" or any(word.opaque or word.glob for word in words):
        return False
    named = [text for text in texts[1:] if text not in _PIP_OPTIONS]
    return bool(named) and all(map(_REQUIREMENT.fullmatch, named))


def _read_again(words: Sequence[Word]) -> bool:
    """True when ps may find a contradiction, and then reads all words as options without a dash.

    Then `e` shows the environment of processes, be it of an option or of a value.
    """
    short = [word.text for word in words if word.text[:1] == "-" and word.text[:2] != "--"]
    plain = [word.text for word in words if word.text[:1] != "-"]
    clusters = [cluster for cluster in short if "e" in cluster]
    if not clusters:  # a letter without a dash that wants a value takes the next option for it
        takers = any(letters.isalpha() and not _PS_TAKERS.isdisjoint(letters) for letters in plain)
        return takers and not _PS_VALUED.isdisjoint("".join(short))
    if any(word.text == "--forest" for word in words) and not set("LTmMH").isdisjoint(
        "".join(short)
    ):
        return True
    others = [option for option in short if option is not clusters[0]]
    formats = clusters[0].endswith("o") or "-o" in others
    if formats:
        count = len(others) - others.count("-o") - others.count("-ww") - others.count("-w")
        return count > 0 or not set(clusters[0]) <= set("-eLTwHo")
    return any(option not in ("-f", "-w", "-ww", "-L", "-l", "-F") for option in others) or (
        len(others) > 1 or (bool(plain) and not plain[0].isdigit())
    )


def _in_language(tool: Tool, words: Sequence[Word], scene: Scene) -> str:
    for word in words:
        if word.opaque and not word.bland:
            return _UNKNOWN
        if word.glob and any(fnmatchcase(action, word.text) for action in _FIND_ACTS):
            return "A glob may expand to an option."
    texts = [word.text for word in words]
    reason = WORD_LANGUAGES[tool.words](texts) or ""
    if reason[:1] == "?":
        scene.sensitive.append(" ".join(texts)[:200])
    if reason or tool.words != "find":
        return reason
    # Commands that find runs are checked like any other.
    commands = find_commands(texts)
    if any(argv[0] not in _NAMING for argv in commands):
        places = [word for word in words if word.text not in ("-H", "-L", "-P")]
        first = next((n for n, place in enumerate(places) if place.text[:1] in "-(!"), len(places))
        for word in places[:first] or [Word(".")]:
            if reason := check("tree", word, scene):
                return reason
    for argv in commands:
        # It starts every name with the path it was given, so that none is taken for an option.
        found = (Word("./found" if text == "{}" else text, "{}" in text != "{}") for text in argv)
        scene.inner.append(Simple(tuple(found)))
    return ""


class _Fitting:
    """Goes through the words once, from left to right, as the tool itself will."""

    def __init__(self, name: str, tool: Tool, scene: Scene) -> None:
        self._name = name
        self._tool = tool
        self._scene = scene
        self._above: list[Tool] = []
        self._operands: list[Word] = []
        self._seen: set[str] = set()
        self._early: set[str] = set()  # those before the first operand
        self._words: Sequence[Word] = ()
        self._at = 0

    def all(self, words: Sequence[Word]) -> str:
        """Why they do not fit, or nothing."""
        self._words = words
        if words and words[-1].text == "--help" and self._asks_for_help(words[:-1]):
            return ""
        only_operands = False
        if self._tool.old and words and not self._is_option(words[0].text):
            # A first word whose letters are options; their values are the next words, in order.
            self._at = 1
            if words[0].opaque or words[0].glob:
                return "An option is not known until it runs."
            for letter in words[0].text:
                option = f"-{letter}"
                kind = self._kind(option)
                reason = self._strange(option) if kind is None else self._take_value(option, kind)
                if reason:
                    return reason
        while self._at < len(words):
            word = words[self._at]
            self._at += 1
            text = word.text
            if word.splits and not word.bland:
                return _UNKNOWN
            if only_operands or not self._is_option(text):
                if not self._operands:
                    self._early = set(self._seen)
                reason, over = self._operand(word)
                if over:
                    return reason
            elif text == "--":
                reason, only_operands = "", True
            else:
                reason = self._option(word)
                if reason and self._tool.loose and not word.opaque:
                    self._operands.append(word)
                    reason = ""
            if reason:
                return reason
        return self._end()

    def _is_option(self, text: str) -> bool:
        if text[:1] == "-":
            return text != "-"
        return text[:1] == "+" and text[:2] in self._tool.options

    def _kind(self, option: str) -> str | None:
        """The kind of an option's value, by the sub-command or those above it."""
        kind = self._tool.options.get(option)
        if kind is None and self._above:
            found = (tool.options.get(option) for tool in reversed(self._above))
            return next((kind for kind in found if kind is not None), None)
        return kind

    def _asks_for_help(self, words: Sequence[Word]) -> bool:
        """True for a way down the known sub-commands, and at most one word further."""
        tool, known = self._tool, 0
        if "--help" in tool.changes:
            return False
        for word in words:
            inner = tool.commands.get(word.text)
            if inner is None:
                plain = word.text.isalnum() and not (word.opaque or word.glob)
                return plain and word is words[-1] and known > 0 and bool(tool.commands)
            tool, known = inner, known + 1
        return "--help" in tool.options or bool(self._tool.commands)

    def _operand(self, word: Word) -> tuple[str, bool]:
        """A sub-command, the beginning of another command or language, or a value for later.

        Returns why it does not fit, and whether no word is left to check.
        """
        tool = self._tool
        if tool.commands and not self._operands:
            inner = tool.commands.get(word.text) if not (word.opaque or word.glob) else None
            if inner is not None:
                self._name = f"{self._name} {word.text}"
                self._above.append(tool)
                self._tool = inner
                if inner.reveals or inner.words:
                    return fit(self._name, inner, self._words[self._at :], self._scene), True
                return "", False
            if tool.operands is None or word.text in tool.changes:
                unknown = f"'{self._name} {word.text[:60]}' is not known to only read."
                known = tool.changes.get(word.text)
                return _mark_known(known) if known else unknown, True
        kinds = tool.operands or []
        place = min(len(self._operands), len(kinds) - 1)
        if kinds and place == len(self._operands) and kinds[place] in _COMMANDS:
            self._at -= 1
            if reason := self._end(leads_on=True):
                return reason, True
            rest = self._words[self._at :]
            if kinds[place] == "line":
                if any(word.glob for word in rest):
                    return "!A file name may expand to a command.", True
                script = parse(" ".join(word.text for word in rest))
                self._scene.inner.extend(script.commands)
                unknown = "Unknown words." if any(word.opaque for word in rest) else ""
                return script.trouble or unknown, True
            variables = []
            while rest and self._name in _SETTING and (found := ASSIGNMENT.match(rest[0].text)):
                variables.append((found[1], rest[0]))
                rest = rest[1:]
            # Two, as the first may become the value of an option.
            more = (Word("*", opaque=True, glob=True),) * 2 if kinds[place] == "command+" else ()
            self._scene.inner.append(Simple((*rest, *more), tuple(variables)))
            return "", True
        self._operands.append(word)
        if not (kinds and kinds[-1].endswith("...")) or len(self._operands) < len(kinds):
            return "", False
        # All words from here on are in a little language of their own.
        rest = self._words[self._at - 1 :]
        if any(word.opaque for word in rest):
            return _UNKNOWN, True
        reason = WORD_LANGUAGES[kinds[-1][:-3]]([word.text for word in rest]) or ""
        if reason[:1] == "?":
            self._scene.sensitive.append(" ".join(word.text for word in rest)[:200])
        return reason or self._needs(), True

    def _option(self, word: Word) -> str:
        text = word.text
        if word.opaque and not word.bland and "=" not in text:
            return "An option is not known until it runs."
        kind = self._kind(text)
        if kind is not None and (text[:2] != "--" or kind[:1] != "?"):
            return self._take_value(text, kind)
        if text[:2] == "--" or self._tool.style == "words" or text[0] == "+":
            name, equals, value = text.partition("=")
            kind = self._kind(name)
            if kind is None or (equals and not kind):
                return self._strange(name)
            self._seen.add(name)
            if not equals:
                return "" if kind[0] == "?" else self._take_value(name, kind)
            return self._check_glued(kind.lstrip("?~"), word, value)
        if text[1:].isdigit() and self._kind("-#") is not None:
            return ""
        for at in range(1, len(text)):  # a cluster: each letter is an option
            option = text[0] + text[at]
            kind = self._kind(option)
            if kind is None:
                return self._strange(option if len(text) == 2 else f"{option} in {text[:40]}")
            self._seen.add(option)
            if kind:
                value = text[at + 1 :]
                if value and kind == "script":  # to a shell these are further options
                    return self._strange(f"{option}{value[:40]}")
                if value:
                    return self._check_glued(kind.lstrip("?~"), word, value)
                return self._take_value(option, kind)
        return ""

    def _take_value(self, option: str, kind: str) -> str:
        """An option as a word of its own; its value, if it has one, is the next."""
        self._seen.add(option)
        if not kind:
            return ""
        if kind[0] == "?":  # glued to it, or the next word, unless that looks like an option
            rest = self._words[self._at : self._at + 1]
            if kind[1:2] != "~" or not rest or rest[0].text[:1] in ("-", "+"):
                return ""
        kind = kind.lstrip("?~")
        for each in kind.split(",") if kind[0] not in "(/" else (kind,):
            if self._at >= len(self._words):
                return f"{option} has no value."
            value = self._words[self._at]
            self._at += 1
            if value.splits and not value.bland:
                return _UNKNOWN
            if each in _LOOSE and not self._tool.star and _OPTION.match(value.text):
                return f"The value of {option} looks like an option of its own."
            if reason := self._check(each, value) or self._check_several(value):
                return reason
        return ""

    def _check_several(self, word: Word) -> str:
        """A glob may turn into more words than one, of which the others are files to be read."""
        return check("file", word, self._scene) if word.glob and not word.opaque else ""

    def _check_glued(self, kind: str, word: Word, value: str) -> str:
        """A value in the same word as its option, which therefore is no option itself."""
        if "," in kind and kind[0] not in "(/":
            return "It has fewer values than it needs."
        # After a single letter some tools take an equals sign for part of the value.
        for text in (value[1:], value) if value[:1] == "=" else (value,):
            part = Word(text, word.opaque, word.splits, word.glob, word.bare, word.bland)
            if reason := check(kind, part, self._scene):
                return reason
        return ""

    def _strange(self, option: str) -> str:
        option_alone = option.split(" ")[0]
        sentences = (
            tool.changes.get(option_alone) for tool in (self._tool, *reversed(self._above))
        )
        known = next(filter(None, sentences), None)
        if known:
            return _mark_known(known)
        return f"The option {option} of {self._name} is not known to be harmless."

    def _check(self, kind: str, value: Word) -> str:
        if value.glob and value.text[:1] in "*?[" and not self._tool.star:
            return "A glob may expand to an option."
        return check(kind, value, self._scene)

    def _end(self, *, leads_on: bool = False) -> str:
        """All words are there, or all before another command: do the operands fit?"""
        kinds = self._tool.operands
        for options, others in self._tool.given.items():
            if self._seen.issuperset(options.split("&")):
                kinds = others
                break
        if kinds is None and self._seen.intersection(_TELLING):
            return ""
        if kinds is None:
            return f"{self._name} without a sub-command is not known to only read."
        if not leads_on and _COMMANDS.intersection(kinds):
            return f"{self._name} has no command to run."
        kinds = [kind for kind in kinds if kind not in _COMMANDS]
        for index, word in enumerate(self._operands):
            if index < len(kinds):
                kind = kinds[index]
            elif kinds and kinds[-1][-1] in "*+":
                kind = kinds[-1]
            else:
                return f"{self._name} with {word.text[:60]!r} is not known to only read."
            if kind[0] not in "(/":
                kind = kind.rstrip("*+?")
            elif kind[-1] in "*+?":
                kind = kind[:-1]
            if reason := self._check(kind, word):
                return reason
            if kind not in ("any", "text", "blind"):
                continue
            # It may turn into files that are read, or into an operator of `test`.
            if word.glob and kinds[-1].rstrip("*+?") in ("file", "tree", "here"):
                if reason := self._check_several(word):
                    return reason
            elif kinds == ["blind*"] and word.opaque and not word.bland:
                place = next(n for n, each in enumerate(self._words) if each is word)
                beside = (*self._words[max(place - 1, 0) : place], *self._words[place + 1 :][:1])
                if not any(
                    neighbour.text in _COMPARES and not neighbour.opaque for neighbour in beside
                ):
                    return "!A word of the test may expand to an operator that runs code."
        if kinds and kinds[-1] == "here*" and len(self._operands) < len(kinds):
            reason = check("here", Word("."), self._scene)
        else:
            least = sum(1 for kind in kinds if kind[-1] not in "*?")
            few = len(self._operands) < least
            reason = f"{self._name} needs more arguments." if few else ""
        return reason or self._needs()

    def _needs(self) -> str:
        """Why it does more than read without an option, or whom it must not speak to."""
        tool, scene, seen = self._tool, self._scene, self._seen
        if tool.sends and scene.fed:
            return f"{self._name} would send its input to another host."
        # Behind an operand, some tools take options for operands as well.
        counting = self._early if self._operands and not tool.anywhere else seen
        if tool.leads:
            first = self._words[0].text if self._words else ""
            counting = {first if first[:2] == "--" else first[:2]} & seen
        if tool.needs and counting.isdisjoint(tool.needs):
            return f"{self._name} only reads with {' or '.join(tool.needs[:3])}."
        modes = seen.intersection(tool.modes)
        if len(modes) > 1:
            return f"Of {' and '.join(sorted(modes))}, {self._name} obeys only the last one."
        tools = (tool, *reversed(self._above))
        if any(tool.local for tool in tools) and not _SYSTEM.fullmatch(
            resolve_path(scene.cwd, "/")
        ):
            return f"!{self._name} may run code of the working directory; call it in / instead."
        if not any(tool.network for tool in tools):
            return ""
        if any("*" in tool.follows or not seen.isdisjoint(tool.follows) for tool in tools):
            if not scene.anywhere:
                return f">{self._name} would follow a redirect to any host."
            scene.follows = True
        servers = (each.asks[option] for each in tools for option in each.asks if option in seen)
        server = next((each.server for each in tools if each.server), "") or next(servers, "")
        telling = seen.intersection(_TELLING) or self._name.endswith((" version", " help"))
        if server and not telling:
            return scene.reach(server)
        if not scene.network:
            scene.network.append(f"the server of {self._name.split(' ')[0]}")
        return ""


def _mark_known(sentence: str) -> str:
    return sentence if sentence[0] in "!?" else f"~{sentence}"
