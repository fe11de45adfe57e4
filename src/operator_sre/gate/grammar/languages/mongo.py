"""What mongosh evaluates, in one closed form: a chain of reads, printed."""

from __future__ import annotations

from collections.abc import Sequence

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, quote_word
from operator_sre.gate.grammar.patterns import re

__all__ = ["mongo"]

_TOKENS = r"""
      [A-Za-z_$][A-Za-z0-9_$]*+
    | "(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[^\nux0-7])*+"
    | '(?:[\x20-\x26\x28-\x5b\x5d-\x7e]|\\[^\nux0-7])*+'
    | -?(?>\d++(?:\.\d++)?)(?![\w$.])
    | (?:(?<=[:,(\[])|(?<=[:,(\[][ ]))/(?![*/])
      (?:[^/\\\n\[]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*+\])++/[gimsuy]*+
    | [.,:;(){}\[\]\n]
"""
_TOKEN = re.compile(rf"[ \t]*+({_TOKENS})", re.VERBOSE)
_WHOLE = re.compile(rf"(?:[ \t]*+(?:{_TOKENS}))*+[ \t]*+", re.VERBOSE)

_WRAPPERS = (
    ("print", "("),
    ("printjson", "("),
    ("tojson", "("),
    ("JSON", ".", "stringify", "("),
    ("EJSON", ".", "stringify", "("),
)
_DATABASE = frozenset(
    """
    aggregate currentOp getCollectionInfos getCollectionNames getName getProfilingStatus
    getReplicationInfo hello hostInfo isMaster printCollectionStats printReplicationInfo
    printSecondaryReplicationInfo printShardingStatus printSlaveReplicationInfo serverBuildInfo
    serverStatus stats version
    """.split()  # noqa: SIM905
)
_COLLECTION = frozenset(
    """
    aggregate count countDocuments dataSize distinct estimatedDocumentCount explain find findOne
    getIndexKeys getIndexSpecs getIndexes getShardDistribution isCapped latencyStats stats
    storageSize totalIndexSize totalSize
    """.split()  # noqa: SIM905
)
_CURSOR = frozenset(
    """
    allowDiskUse batchSize collation comment count explain finish forEach hasNext hint itcount
    limit max maxTimeMS min next pretty projection readConcern readPref size skip sort toArray
    aggregate distinct find
    """.split()  # noqa: SIM905
)
_DESTROYS = (
    "delete",
    "drop",
    "eval",
    "findAndModify",
    "findOneAnd",
    "remove",
    "rename",
    "shutdown",
)
_OTHERS: dict[str, frozenset[str]] = {
    "rs": frozenset(
        """
        conf config hello isMaster printReplicationInfo printSecondaryReplicationInfo
        printSlaveReplicationInfo status
        """.split()  # noqa: SIM905
    ),
    "sh": frozenset({"getBalancerState", "isBalancerRunning", "status"}),
}
_COMMANDS = frozenset(
    """
    aggregate balancerStatus buildInfo buildinfo collStats collstats connPoolStats
    connectionStatus count currentOp dataSize dbHash dbStats dbstats distinct explain features
    find getDefaultRWConcern getLog getParameter getShardMap hello hostInfo isMaster isdbgrid
    ismaster listCollections listCommands listDatabases listIndexes listShards lockInfo ping
    profile_ replSetGetConfig replSetGetStatus serverStatus shardConnPoolStats shardingState top
    whatsmyuri
    """.split()  # noqa: SIM905
) - {"profile_"}
_BUILDERS = frozenset(
    """
    BinData Date Decimal128 Double ISODate Int32 Long MaxKey MinKey NumberDecimal NumberInt
    NumberLong ObjectId Timestamp UUID
    """.split()  # noqa: SIM905
)
_CONSTANTS = frozenset({"false", "null", "print", "printjson", "tojson", "true", "undefined"})
_SHOWN = frozenset({"collections", "databases", "dbs", "log", "logs", "profile", "tables"})
_OPERATORS: dict[str, str] = {
    "$accumulator": "!The operator '$accumulator' runs code in the server.",
    "$function": "!The operator '$function' runs code in the server.",
    "$merge": "!The stage '$merge' writes its result into a collection.",
    "$out": "!The stage '$out' replaces a collection with its result.",
    "$where": "!The operator '$where' runs code in the server.",
}
_SECRET = re.compile(
    r"system\W{1,4}(?:keys|users)|credentials?|secrets?|password|passwd|authSchema"
)
# `\\s` is an s; an escaped backslash hides nothing.
_HIDING = re.compile(r"(?<!\\)(?:\\\\)*\\[A-Za-mo-qsu-z89]")
_CLOSES = {")": "(", "]": "[", "}": "{"}
_NOT_PLAIN = "Only a plain chain of reads with literal arguments is understood."


def mongo(text: str) -> str | None:
    """Why what is evaluated is not proven to only read; None when it is."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    text = text.rstrip(" \t\n")
    whole = _WHOLE.match(text)
    end = whole.end() if whole else 0
    tokens: list[str] = _TOKEN.findall(text[:end])
    for token in tokens:
        if "$" in token:
            name = token.strip("\"'")
            if name in _OPERATORS:
                return _OPERATORS[name]
            if "\\" in name:
                return "An escape hides an operator."
        if token[0] in "\"'" and _HIDING.search(token):
            return "An escape hides a letter."
    if end < len(text):
        return f"What begins at {quote_word(text[end : end + 12])} is not understood."
    # A semicolon or a new line ends a statement where no bracket is open.
    statements: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in ("(", "[", "{")) - (token in _CLOSES)
        if token in (";", "\n") and not depth:
            statements.append([])
        elif token != "\n":
            statements[-1].append(token)
    for statement in filter(None, statements):
        reason = _statement(statement)
        if reason is not None:
            return reason
    if not any(statements):
        return "There is no expression."
    joined = text + "".join(tokens)  # without the blanks between names
    return "?What it reads may be secret." if _SECRET.search(joined) else None


def _statement(tokens: list[str]) -> str | None:
    if tokens[0] == "show":
        fits = len(tokens) in (2, 3) and tokens[1] in _SHOWN
        return None if fits else "?This may show the permissions of users."
    if tokens[0] == "use" and len(tokens) == 2 and tokens[1].isidentifier():
        return None
    place, open_wrappers = 0, 0
    while True:
        wrapper = next(
            (known for known in _WRAPPERS if tuple(tokens[place : place + len(known)]) == known),
            None,
        )
        if wrapper is None:
            break
        place, open_wrappers = place + len(wrapper), open_wrappers + 1
    chain = _Chain(tokens, place)
    reason = chain.reason()
    if reason is not None:
        return reason
    # Only the other arguments and the brackets of the wrappers may follow a chain.
    place = chain.place
    while open_wrappers and place < len(tokens):
        if tokens[place] == ")":
            open_wrappers -= 1
        elif tokens[place] != "," and tokens[place] != "null" and not tokens[place].isdigit():
            return _NOT_PLAIN
        place += 1
    return None if place == len(tokens) and not open_wrappers else _NOT_PLAIN


class _Chain:
    """One walk along `db.name.verb(...).verb(...)`, which knows what it stands on."""

    def __init__(self, tokens: Sequence[str], place: int) -> None:
        self._tokens = tokens
        self.place = place
        self._on = tokens[place] if place < len(tokens) else ""

    def reason(self) -> str | None:
        """The first step that is more than reading."""
        if self._on not in ("db", "rs", "sh"):
            return f"What begins with {quote_word(self._on)} is not understood."
        self.place += 1
        names: list[str] = []
        while self.place < len(self._tokens):
            token = self._tokens[self.place]
            following = self._tokens[self.place + 1 : self.place + 3]
            if token == "." and following and following[0].replace("$", "_").isidentifier():
                names.append(following[0])
                self.place += 2
            elif token == "[" and following[1:] == ["]"] and following[0][0] in "\"'0123456789":
                names.append("[]")
                self.place += 3
            elif token == "(":
                reason = self._call(names)
                if reason is not None:
                    return reason
                names = []
            else:
                break
        return None if self._on == "cursor" else _NOT_PLAIN

    def _call(self, names: Sequence[str]) -> str | None:
        if not names or names[-1] == "[]":
            return _NOT_PLAIN
        verb, start = names[-1], self.place + 1
        reason = self._arguments()
        if reason is not None:
            return reason
        arguments = self._tokens[start : self.place - 1]
        if self._on == "db" and len(names) == 1 and verb in ("adminCommand", "runCommand"):
            self._on = "cursor"
            # The first key of a command names it.
            is_object = len(arguments) > 2 and arguments[0] == "{"
            name = arguments[1] if is_object else "".join(arguments[:1])
            name = name.strip("\"'")
            if name in _COMMANDS:
                return None
            if name in ("getCmdLineOpts", "usersInfo"):
                return f"?What the command '{name}' shows may be secret."
            return f"The command {quote_word(name)} is not known to only read."
        if self._on == "db" and len(names) == 1 and verb in ("getSiblingDB", "getCollection"):
            self._on = "db" if verb == "getSiblingDB" else "collection"
            return None
        match self._on:
            case "db":
                verbs = _DATABASE if len(names) == 1 else _COLLECTION
            case "collection":
                verbs = _COLLECTION
            case "cursor":
                verbs = _CURSOR
            case other:
                verbs = _OTHERS[other] if len(names) == 1 else frozenset()
        if verb not in verbs:
            if verb.startswith(_DESTROYS):
                return f"!The call {quote_word(verb)} deletes or changes stored data."
            return f"The call {quote_word(verb)} is not known to only read."
        self._on = "cursor"
        return None

    def _arguments(self) -> str | None:
        """Step over literal arguments; anything that computes is refused."""
        opened: list[str] = []
        last = ""
        while self.place < len(self._tokens):
            token = self._tokens[self.place]
            self.place += 1
            # Whether it may follow the last one inside of literal arguments.
            after_value = last not in ("", "(", "[", "{", ",", ":", "new")
            if token == "(":
                if last != "" and last not in _BUILDERS:
                    return _NOT_PLAIN
            elif token not in _CLOSES and token not in (",", ":"):
                if after_value or token in (".", ";"):
                    return _NOT_PLAIN
                is_key = list(self._tokens[self.place : self.place + 1]) == [":"]
                known = token in _CONSTANTS or token in _BUILDERS or token == "new"
                if (token[0].isalpha() or token[0] in "_$") and not (is_key or known):
                    return f"The name {quote_word(token)} is not a literal."
            if token in ("(", "[", "{"):
                opened.append(token)
            elif token in _CLOSES:
                if not opened or opened.pop() != _CLOSES[token]:
                    return _NOT_PLAIN
                if not opened:
                    return None
            last = token
        return "A bracket does not end."
