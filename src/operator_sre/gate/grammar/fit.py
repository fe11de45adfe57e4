"""Fitting the words of a command into the read-only forms of its tool."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from operator_sre.gate.grammar.kinds import check
from operator_sre.gate.grammar.languages import WORD_LANGUAGES
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.shell import ASSIGNMENT, parse
from operator_sre.gate.grammar.tables import Tool
from operator_sre.gate.grammar.words import Simple, Word

__all__ = ["fit"]

# Operands that are a command of their own: as words, as one line, as words that more are added to.
# Those set variables for what they run, as the shell does.
_SETTING = frozenset({"env", "sudo", "doas"})
# To those, a path is a text like any other.
_SAYING = frozenset({"echo", "printf", "basename", "dirname"})
_TELLING = frozenset({"--version", "--help", "-V"})
_COMMANDS = frozenset({"command", "line", "command+"})
_FIND_ACTS = (
    "-delete",
    "-exec",
    "-execdir",
    "-ok",
    "-okdir",
    "-fls",
    "-fprint",
    "-fprint0",
    "-fprintf",
)
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
        return "?ps may read these words again without their dashes, and e shows the environment."
    if tool.words:
        reason = _in_language(tool, words, scene)
    else:
        reason = _Fitting(name, tool, scene).all(words)
    return reason or ("" if name in _SAYING else _visited(words, scene))


def _visited(words: Sequence[Word], scene: Scene) -> str:
    """Why it must not look where the host is asked that a path names, whatever kind that is."""
    paths = (one.text for one in words if one.text[:1] == "/")
    return next(filter(None, map(scene.visit, paths)), "")


def _read_again(words: Sequence[Word]) -> bool:
    """True when ps may find a contradiction, and then reads all words as options without a dash.

    Then `e` shows the environment of processes, be it of an option or of a value.
    """
    short = [one.text for one in words if one.text[:1] == "-" and one.text[:2] != "--"]
    plain = [one.text for one in words if one.text[:1] != "-"]
    clusters = [one for one in short if "e" in one]
    if not clusters:  # a letter without a dash that wants a value takes the next option for it
        takers = any(one.isalpha() and not _PS_TAKERS.isdisjoint(one) for one in plain)
        return takers and not _PS_VALUED.isdisjoint("".join(short))
    if any(one.text == "--forest" for one in words) and not set("LTmMH").isdisjoint("".join(short)):
        return True
    others = [one for one in short if one is not clusters[0]]
    formats = clusters[0].endswith("o") or "-o" in others
    if formats:
        count = len(others) - others.count("-o") - others.count("-ww") - others.count("-w")
        return count > 0 or not set(clusters[0]) <= set("-eLTwHo")
    return any(one not in ("-f", "-w", "-ww", "-L", "-l", "-F") for one in others) or (
        len(others) > 1 or (bool(plain) and not plain[0].isdigit())
    )


_PS_TAKERS = frozenset("oOkpqtU")
_PS_VALUED = frozenset("poOCtugGUsq")


def _in_language(tool: Tool, words: Sequence[Word], scene: Scene) -> str:
    for word in words:
        if word.opaque and not word.bland:
            return "Some of its arguments are only known when it runs."
        if word.glob and any(fnmatchcase(one, word.text) for one in _FIND_ACTS):
            return "A glob may turn into an option."
    reason = WORD_LANGUAGES[tool.words]([word.text for word in words]) or ""
    if reason[:1] == "?":
        scene.sensitive.append(" ".join(word.text for word in words)[:200])
    if not reason and tool.words == "find":
        return _find(words, scene)
    return reason


def _find(words: Sequence[Word], scene: Scene) -> str:
    """Commands that find runs for what it finds are looked at like any other."""
    from operator_sre.gate.grammar.languages import find_commands

    commands = find_commands([word.text for word in words])
    if commands:
        places = [word for word in words if word.text not in ("-H", "-L", "-P")]
        first = next((n for n, one in enumerate(places) if one.text[:1] in "-(!"), len(places))
        for word in places[:first] or [Word(".")]:
            if reason := check("tree", word, scene):
                return reason
    for argv in commands:
        scene.inner.append(Simple(tuple(_found(text) for text in argv)))
    return ""


def _found(text: str) -> Word:
    # find starts every name with the path it was given, so that no name is taken for an option.
    return Word("./found") if text == "{}" else Word(text, opaque="{}" in text)


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
            self._at = 1
            if reason := self._old_cluster(words[0]):
                return reason
        while self._at < len(words):
            word = words[self._at]
            self._at += 1
            text = word.text
            if word.splits and not word.bland:
                return "Some of its arguments are only known when it runs."
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
            found = (one.options.get(option) for one in reversed(self._above))
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
        """A sub-command, the beginning of another command, or a value for later."""
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
                return self._unknown(word), True
        kinds = tool.operands or []
        place = min(len(self._operands), len(kinds) - 1)
        if kinds and place == len(self._operands) and kinds[place] in _COMMANDS:
            self._at -= 1
            return self._end(leads_on=True) or self._command(kinds[place]), True
        if kinds and kinds[-1].endswith("..."):
            return self._rest(kinds, word)
        self._operands.append(word)
        return "", False

    def _rest(self, kinds: list[str], word: Word) -> tuple[str, bool]:
        """All words from here on are in a little language of their own."""
        self._operands.append(word)
        if len(self._operands) < len(kinds):
            return "", False
        rest = self._words[self._at - 1 :]
        if any(one.opaque for one in rest):
            return "Some of its arguments are only known when it runs.", True
        reason = WORD_LANGUAGES[kinds[-1][:-3]]([one.text for one in rest]) or ""
        if reason[:1] == "?":
            self._scene.sensitive.append(" ".join(one.text for one in rest)[:200])
        return reason or self._needs(), True

    def _command(self, kind: str) -> str:
        rest = self._words[self._at :]
        if not rest:
            return ""
        if kind == "line" and any(one.glob for one in rest):
            return "!The name of a file may turn into a command."
        if kind == "line":
            script = parse(" ".join(one.text for one in rest))
            self._scene.inner.extend(script.commands)
            return script.trouble or ("Unknown words." if any(one.opaque for one in rest) else "")
        variables = []
        while rest and self._name in _SETTING and (found := ASSIGNMENT.match(rest[0].text)):
            variables.append((found[1], rest[0]))
            rest = rest[1:]
        # Two, as the first may become the value of an option.
        more = (Word("*", opaque=True, glob=True),) * 2 if kind == "command+" else ()
        self._scene.inner.append(Simple((*rest, *more), tuple(variables)))
        return ""

    def _unknown(self, word: Word) -> str:
        known = self._tool.changes.get(word.text)
        if known:
            return _known(known)
        return f"'{self._name} {word.text[:60]}' is not known to only read."

    def _option(self, word: Word) -> str:
        text = word.text
        if word.opaque and not word.bland and "=" not in text:
            return "An option is only known when it runs."
        kind = self._kind(text)
        if kind is not None and (text[:2] != "--" or kind[:1] != "?"):
            return self._valued(text, kind)
        if text[:2] == "--" or self._tool.style == "words" or text[0] == "+":
            return self._long(word)
        return self._cluster(word)

    def _valued(self, option: str, kind: str) -> str:
        """An option as a word of its own; its value, if it has one, is the next."""
        self._seen.add(option)
        if not kind or (kind[0] == "?" and not self._takes_next(kind)):
            return ""
        kind = kind.lstrip("?~")
        for one in kind.split(",") if kind[0] not in "(/" else (kind,):
            if self._at >= len(self._words):
                return f"{option} has no value."
            value = self._words[self._at]
            self._at += 1
            if value.splits and not value.bland:
                return "Some of its arguments are only known when it runs."
            if reason := self._checked(one, value) or self._several(value):
                return reason
        return ""

    def _takes_next(self, kind: str) -> bool:
        """True when a value that may be glued may as well be the next word, and is."""
        rest = self._words[self._at : self._at + 1]
        return kind[1:2] == "~" and bool(rest) and rest[0].text[:1] not in ("-", "+")

    def _several(self, word: Word) -> str:
        """A glob may turn into more words than one, of which the others are files to be read."""
        return check("file", word, self._scene) if word.glob and not word.opaque else ""

    def _long(self, word: Word) -> str:
        name, equals, value = word.text.partition("=")
        kind = self._kind(name)
        if kind is None or (equals and not kind):
            return self._strange(name)
        self._seen.add(name)
        if not equals:
            return "" if kind[0] == "?" else self._valued(name, kind)
        return self._glued(kind.lstrip("?~"), word, value)

    def _glued(self, kind: str, word: Word, value: str) -> str:
        """A value in the same word as its option, which therefore is no option itself."""
        if "," in kind and kind[0] not in "(/":
            return "It has fewer values than it needs."
        # After a single letter some tools take an equals sign for part of the value.
        plain = value[1:] if value[:1] == "=" else value
        return check(kind, _value(word, plain), self._scene) or (
            check(kind, _value(word, value), self._scene) if plain != value else ""
        )

    def _cluster(self, word: Word) -> str:
        text = word.text
        if text[1:].isdigit() and self._kind("-#") is not None:
            return ""
        for at in range(1, len(text)):
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
                    return self._glued(kind.lstrip("?~"), word, value)
                return self._valued(option, kind)
        return ""

    def _old_cluster(self, word: Word) -> str:
        """A first word whose letters are options; their values are the next words, in order."""
        if word.opaque or word.glob:
            return "An option is only known when it runs."
        for letter in word.text:
            option = f"-{letter}"
            kind = self._kind(option)
            reason = self._strange(option) if kind is None else self._valued(option, kind)
            if reason:
                return reason
        return ""

    def _strange(self, option: str) -> str:
        option_alone = option.split(" ")[0]
        told = (one.changes.get(option_alone) for one in (self._tool, *reversed(self._above)))
        known = next(filter(None, told), None)
        return (
            _known(known)
            if known
            else f"The option {option} of {self._name} is not known to be harmless."
        )

    def _checked(self, kind: str, value: Word) -> str:
        if value.glob and value.text[:1] in "*?[" and not self._tool.star:
            return "A glob may turn into an option."
        return check(kind, value, self._scene)

    def _end(self, *, leads_on: bool = False) -> str:
        """All words are there, or all before another command: do the operands fit?"""
        kinds = self._kinds()
        if kinds is None and self._seen.intersection(_TELLING):
            return ""
        if kinds is None:
            return f"{self._name} without a sub-command is not known to only read."
        if not leads_on and _COMMANDS.intersection(kinds):
            return f"{self._name} is not told what to run."
        return self._fit_operands([one for one in kinds if one not in _COMMANDS]) or self._needs()

    def _kinds(self) -> list[str] | None:
        for options, kinds in self._tool.given.items():
            if self._seen.issuperset(options.split("&")):
                return kinds
        return self._tool.operands

    def _fit_operands(self, kinds: list[str]) -> str:
        for index, word in enumerate(self._operands):
            if index < len(kinds):
                kind = kinds[index]
            elif kinds and kinds[-1][-1] in "*+":
                kind = kinds[-1]
            else:
                return f"{self._name} with {word.text[:60]!r} is not known to only read."
            bare = kind.rstrip("*+?") if kind[0] not in "(/" else _without_count(kind)
            if reason := self._checked(bare, word):
                return reason
            if bare in ("any", "text", "blind") and (reason := self._unclear(kinds, word)):
                return reason
        if kinds and kinds[-1] == "here*" and len(self._operands) < len(kinds):
            return check("here", Word("."), self._scene)
        least = sum(1 for kind in kinds if kind[-1] not in "*?")
        return f"{self._name} needs more arguments." if len(self._operands) < least else ""

    def _unclear(self, kinds: list[str], word: Word) -> str:
        """Whether a word may turn into files that are read, or into an operator of `test`."""
        if word.glob and kinds[-1].rstrip("*+?") in ("file", "tree", "here"):
            return self._several(word)
        if kinds == ["blind*"] and word.opaque and not word.bland:
            place = next(n for n, one in enumerate(self._words) if one is word)
            around = (*self._words[max(place - 1, 0) : place], *self._words[place + 1 : place + 2])
            if not any(one.text in _COMPARES and not one.opaque for one in around):
                return "!A word of the test may turn into an operator that runs code."
        return ""

    def _needs(self) -> str:
        if self._tool.sends and self._scene.fed:
            return f"{self._name} would send out what it reads."
        needs, modes = self._tool.needs, self._seen.intersection(self._tool.modes)
        if needs and self._counting().isdisjoint(needs):
            return f"{self._name} only reads with {' or '.join(needs[:3])}."
        if len(modes) > 1:
            return f"Of {' and '.join(sorted(modes))}, {self._name} does what the last one says."
        return self._outside() if self._networked() else ""

    def _counting(self) -> set[str]:
        """The options that count: behind an operand, some tools take them for operands as well."""
        if self._tool.leads:
            first = self._words[0].text if self._words else ""
            return {first if first[:2] == "--" else first[:2]} & self._seen
        return self._early if self._operands and not self._tool.anywhere else self._seen

    def _networked(self) -> bool:
        return self._tool.network or any(one.network for one in self._above)

    def _outside(self) -> str:
        """Why it must not speak to whom it speaks to although no argument names them."""
        scene, tools = self._scene, (self._tool, *reversed(self._above))
        if not scene.anywhere and any(map(self._follows, tools)):
            return f">{self._name} would follow the answer to whichever host it names."
        server = next((one.server for one in tools if one.server), "") or self._asked(tools)
        telling = self._seen.intersection(_TELLING) or self._name.endswith((" version", " help"))
        if server and not telling:
            return scene.reach(server)
        if not scene.network:
            scene.network.append(f"the server of {self._name.split(' ')[0]}")
        return ""

    def _asked(self, tools: Sequence[Tool]) -> str:
        """Whom it asks because of its options."""
        asked = (one.asks[option] for one in tools for option in one.asks if option in self._seen)
        return next(asked, "")

    def _follows(self, tool: Tool) -> bool:
        return "*" in tool.follows or not self._seen.isdisjoint(tool.follows)


def _known(sentence: str) -> str:
    return sentence if sentence[0] in "!?" else f"~{sentence}"


def _value(word: Word, text: str) -> Word:
    return Word(text, word.opaque, word.splits, word.glob, word.bare, word.bland)


def _without_count(kind: str) -> str:
    return kind[:-1] if kind[-1] in "*+?" else kind
