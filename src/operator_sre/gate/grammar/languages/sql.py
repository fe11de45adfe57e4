"""SQL that only reads, in what PostgreSQL, MySQL and SQLite agree on, and what psql lists."""

from __future__ import annotations

from collections.abc import Sequence

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, quote_word
from operator_sre.gate.grammar.languages.sql_functions import FUNCTIONS, REFUSED
from operator_sre.gate.grammar.patterns import re

__all__ = ["psql", "psql_meta", "sql"]

# The dialects disagree about where a string or a comment ends. A token is here only when all of
# them end it at the same character: a backslash before a quote, `--x`, `/*!` and `$$` are not.
_INSIDE = r"\x20\x21\x23-\x26\x28-\x5b\x5d-\x7e\n\t"
_ESCAPED = r"\\[\x20\x21\x23-\x26\x28-\x7e]"
_ITEM = r"(?:[a-z0-9_]++|'[a-z0-9_ ,%./-]*+')"
_TOKENS = rf"""
      [a-z_][a-z0-9_]*+
    | '(?:[{_INSIDE}"]|''|{_ESCAPED})*+'
    | "(?:[{_INSIDE}']|""|{_ESCAPED})*+"
    | `[a-z0-9_.-]++`
    | (?>\d++(?:\.\d*+)?(?:e[+-]?\d++)?|\.\d++)(?![\w$.])
    | --(?:[ ][a-z0-9 _.,:=()-]*+)?(?=\n|\Z)
    | /\*[a-z0-9 _.,=-]*+\*/
    | \[(?:{_ITEM}(?:[ ]*+[,:][ ]*+{_ITEM})*+)?+\]
    | [+*%<>=!~|&^@?.,;()]
    | ::
    | \\g
    | -(?!-)
    | /(?!\*)
    | \#(?=[>-])
"""
_TOKEN = re.compile(rf"[ \t\n]*+({_TOKENS})", re.VERBOSE)
_WHOLE = re.compile(rf"(?:[ \t\n]*+(?:{_TOKENS}))*+[ \t\n]*+", re.VERBOSE)
_WORD = frozenset("abcdefghijklmnopqrstuvwxyz_")

_CHANGES: dict[str, str] = {
    "alter": "!ALTER changes the schema.",
    "call": "!CALL runs a procedure.",
    "copy": "!COPY moves rows between tables, files and programs.",
    "create": "CREATE adds an object to the database.",
    "delete": "!DELETE removes rows.",
    "do": "!DO runs code.",
    "drop": "!DROP removes an object from the database.",
    "dumpfile": "!DUMPFILE writes a file on the server.",
    "execute": "!EXECUTE runs a statement that is not shown here.",
    "for": "FOR locks rows or advances a sequence.",
    "grant": "!GRANT changes permissions.",
    "handler": "HANDLER reads a table directly, without a query.",
    "insert": "INSERT adds rows.",
    "into": "INTO stores the result instead of printing it.",
    "lock": "LOCK takes locks that block other sessions.",
    "merge": "MERGE changes rows.",
    "nextval": "A sequence would be advanced.",
    "outfile": "!OUTFILE writes a file on the server.",
    "returning": "RETURNING belongs to a statement that changes rows.",
    "revoke": "!REVOKE changes permissions.",
    "truncate": "!TRUNCATE removes all rows.",
    "update": "UPDATE changes rows.",
}
_STATEMENTS: dict[str, str] = {
    "analyze": "ANALYZE renews statistics, or runs the statement behind it.",
    "attach": "!ATTACH opens or creates another database file.",
    "begin": "A transaction may hold more than one statement.",
    "change": "!CHANGE redirects replication.",
    "checkpoint": "CHECKPOINT makes the server write all changed pages to disk.",
    "flush": "!FLUSH closes or empties what the server keeps open.",
    "kill": "!KILL terminates the session of a user.",
    "load": "!LOAD reads a file into the server.",
    "optimize": "OPTIMIZE rewrites a table and locks it.",
    "prepare": "!PREPARE hides a statement in a string.",
    "purge": "!PURGE removes logs.",
    "refresh": "REFRESH recomputes a view.",
    "reindex": "REINDEX rebuilds indexes and locks them.",
    "rename": "!RENAME changes names.",
    "replace": "!REPLACE changes rows.",
    "reset": "!RESET erases state of the server or a setting.",
    "set": "SET changes a setting.",
    "shutdown": "!SHUTDOWN stops the server.",
    "source": "!SOURCE runs the statements of a file.",
    "start": "START changes a transaction or replication.",
    "stop": "!STOP stops replication.",
    "system": "!SYSTEM runs a shell command.",
    "vacuum": "VACUUM rewrites a table.",
}
_QUERIES = frozenset({"select", "table", "values", "with"})
# Words that stand before a parenthesis and call nothing.
_NO_CALL = frozenset(
    """
    all and any array as asc between bigint binary bit by case char character cube date datetime
    dec decimal desc distinct double else end enum escape except exists filter float from group
    having ignore ilike in index int integer intersect interval is join key keys lateral like limit
    materialized not null numeric nvarchar offset on or order over partition partitions real regexp
    rlike rollup row rows select sets signed similar smallint some text then time
    timestamp timestamptz to union unsigned using value values varchar when where window with
    within
    """.split()  # noqa: SIM905
)
_OPTIONS = frozenset(
    """
    analyze buffers costs extended format generic_plan memory partitions plan query serialize
    settings summary timing verbose wal
    """.split()  # noqa: SIM905
)
_OPTION_VALUES = frozenset({"=", ",", "false", "json", "none", "off", "on", "text", "traditional"})
_OPTION_VALUES |= {"tree", "true", "xml", "yaml", "binary", "0", "1"}
_MADE = frozenset(
    {"database", "event", "function", "procedure", "schema", "table", "trigger", "view"}
)
_SHAPES = frozenset({"foreign_key_list", "index_info", "index_list", "table_info", "table_xinfo"})
_PRAGMAS = frozenset(
    """
    auto_vacuum cache_size compile_options database_list encoding foreign_key_check freelist_count
    integrity_check journal_mode page_count page_size quick_check schema_version user_version
    """.split()  # noqa: SIM905
)

_SECRET_RELATIONS = frozenset(
    """
    global_priv master_info pg_authid pg_dist_authinfo pg_file_settings pg_hba_file_rules
    pg_ident_file_mappings pg_shadow pg_subscription pg_user_mapping
    pg_user_mappings pg_db_role_setting primary_conninfo salted_hash slave_master_info system_auth
    """.split()  # noqa: SIM905
)
# A text without any of these holds nothing secret, and needs no closer check.
_HINTS = (
    *("passw", "passphrase", "secret", "credential", "token", "key", "_string", "pg_authid"),
    *("pg_shadow", "pg_subscription", "pg_user_mapping", "primary_conninfo", "mysql", "user"),
    *("global_priv", "master_info", "authinfo", "salted_hash", "system", "settings", "pg_hba"),
    *("pg_ident", "pg_db_role_setting"),
)
_SECRET_COLUMN = re.compile(
    r"pass(?:word|wd|phrase)|secret|credential|tokens?\b|(?:api|private|access)_?key|auth\w*_string"
)
# A part of one of these in a condition may choose it.
_SECRET_SETTINGS = "primary_conninfo ssl_passphrase_command"
_MYSQL_OPEN = frozenset(
    {"innodb_index_stats", "innodb_table_stats", "plugin", "slow_log", "time_zone_name"}
)
# Databases of the servers themselves; those of CockroachDB with the hashes of passwords.
_OWN_DATABASES = frozenset({"mysql", "system", "system_auth"})
_SYSTEM_SECRET = frozenset({"role_options", "users", "web_sessions"})
_UNICODE_NAME = re.compile(r"u&[\"']")


def sql(text: str) -> str | None:
    """Why these statements are not proven to only read; None when they are."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    if not text.isascii():
        return "A character outside of ASCII is not understood."
    if "\\g" in text:
        return "The end of a statement is not understood."
    text = text.lower().rstrip(" \t\n")
    if "delimiter" in text:  # mysql obeys it in the middle of a line, outside of its statements
        return "!DELIMITER changes where a statement ends."
    whole = _WHOLE.match(text)
    end = whole.end() if whole else 0
    if end < len(text) and text.startswith(("--", "/*", "#"), end):
        return "This comment does not end at the same place for every server."
    if end < len(text):
        return f"What begins at {quote_word(text[end : end + 12])} is not understood."
    if _UNICODE_NAME.search(text):
        return "A name in Unicode escapes is not understood."
    if "#" in text and "\n" in text:  # to MySQL it begins a comment, which ends with the line
        return "A '#' is a comment for some servers."
    tokens: list[str] = _TOKEN.findall(text)
    statements: list[list[str]] = [[]]
    for token in tokens:
        if token in (";", "\\g"):
            statements.append([])
        elif not token.startswith(("--", "/*")):
            statements[-1].append(token)
    for statement in filter(None, statements):
        reason = _statement(statement)
        if reason is not None:
            return reason
    if not any(statements):
        return "There is no statement."
    return _secrets(tokens) if any(hint in text for hint in _HINTS) else None


def _statement(tokens: list[str]) -> str | None:
    start = 0
    while start < len(tokens) and tokens[start] == "(":
        start += 1
    first = tokens[start] if start < len(tokens) else "("
    if first in _QUERIES:
        return _query(tokens)
    if start:
        return "A parenthesis holds something other than a query."
    if first == "show":
        second = tokens[1] if len(tokens) > 1 else ""
        if not _is_name(second):
            return "SHOW needs an argument."
        if second == "grants" or (second == "create" and "user" in tokens[2:3]):
            return "?The rights of a user may be shown with the password."
        if second == "all" and tokens[2:] == []:
            return "?All settings are shown, and some may be secret; SHOW with a name shows one."
        if second == "access":
            return "?The rights of all users may be shown with their passwords."
        if second in ("backup", "backups"):
            return "SHOW BACKUP reads from any address."
        made = second == "create" and len(tokens) > 3 and tokens[2] in _MADE
        return _query(tokens[2:] if made else tokens[1:])
    if first == "use" and len(tokens) == 2 and _is_name(tokens[1]):
        return None
    if first == "pragma":
        plain = len(tokens) == 2 and tokens[1] in _PRAGMAS
        shape = len(tokens) == 5 and tokens[1] in _SHAPES and tokens[2::2] == ["(", ")"]
        return None if plain or shape else "This PRAGMA is not known to only read."
    if first not in ("explain", "describe", "desc"):
        known = _CHANGES.get(first) or _STATEMENTS.get(first)
        return (
            known or f"A statement that begins with {quote_word(first)} is not known to only read."
        )
    place = 1
    if tokens[1:2] == ["("] and len(tokens) > 2 and tokens[2] in _OPTIONS:
        end = tokens.index(")") if ")" in tokens else len(tokens)
        if any(token not in _OPTIONS and token not in _OPTION_VALUES for token in tokens[2:end]):
            return "An option of EXPLAIN is not known."
        place = end + 1
    else:
        while place < len(tokens) and (
            tokens[place] in _OPTIONS or tokens[place] in _OPTION_VALUES
        ):
            place += 1
    rest = tokens[place:]
    first = next((token for token in rest if token != "("), "")
    if first in _QUERIES:
        return _query(rest)
    if rest[:2] == ["for", "connection"] and len(rest) == 3 and rest[2].isdigit():
        return None
    known = _STATEMENTS.get(first) or next(
        (_CHANGES[token] for token in rest if token in _CHANGES), None
    )
    if known is not None:
        return known
    rest = [token for token in rest if token != "."]
    if 1 <= len(rest) <= 3 and all(_is_name(token) or token[0] == "'" for token in rest):
        return None
    return "EXPLAIN is understood only for a query, DESCRIBE only for a table."


def _query(tokens: Sequence[str]) -> str | None:
    before, last = "", ""
    for place, token in enumerate(tokens):
        if token == "(":
            if last and (last[0] in _WORD or last[0] in '"`]'):
                # Whether `before last (` calls a function that is not known to only look.
                of_schema = before == "."
                if of_schema and (
                    place < 3 or tokens[place - 3] not in ("pg_catalog", '"pg_catalog"')
                ):
                    why = f"The function {quote_word(last)} belongs to a schema"
                    return f"{why} and is not known to only read."
                calls = of_schema or not (last in _NO_CALL or _names_columns(before, tokens, place))
                if calls and last not in FUNCTIONS:
                    unknown = f"The function {quote_word(last)} is not known to only read."
                    return REFUSED.get(last, unknown)
        elif token in _CHANGES:
            return _CHANGES[token]
        elif token == "replace" and tokens[place + 1 : place + 2] != ["("]:
            return _STATEMENTS["replace"]
        before, last = last, token
    return None


def _names_columns(before: str, tokens: Sequence[str], place: int) -> bool:
    """Whether the parenthesis belongs to `AS name (columns)` or `WITH name (columns) AS (`."""
    if before not in ("as", "with", "recursive"):
        return False
    end = place + 1
    while end < len(tokens) and (tokens[end] == "," or _is_name(tokens[end])):
        end += 1
    if tokens[end : end + 1] != [")"]:
        return False
    return before == "as" or tokens[end + 1 : end + 3] == ["as", "("]


def _is_name(token: str) -> bool:
    return bool(token) and (token[0] in _WORD or token[0] in '"`')


def _secrets(tokens: Sequence[str]) -> str | None:
    last = ""
    for place, token in enumerate(tokens):
        if token[0] == "'":
            if "primary_conninfo" in token:
                return "?The connection string of a standby may hold a password."
        elif _is_name(token) and last not in ("like", "rlike", "regexp", "ilike"):
            name = token.strip('"`')
            if name in _SECRET_RELATIONS or _SECRET_COLUMN.search(name):
                return f"?What {quote_word(name)} holds may be secret."
            if name in ("pg_settings", "pg_show_all_settings") and not _names_settings(tokens):
                return "?Settings may be secret; a condition on their name shows some of them."
            if (
                name == "user"
                and last in ("from", "join", ",")
                and tokens[place + 1 :][:1] != ["("]
            ):
                return "?The table of users may hold passwords."
            if last == "use" and name in _OWN_DATABASES:
                return f"?What the database {quote_word(name)} holds may be secret."
            owner = tokens[place - 2].strip('"`') if last == "." and place > 1 else ""
            if (owner == "mysql" and name not in _MYSQL_OPEN) or name.startswith("mysql."):
                return "?What the schema 'mysql' holds may be secret."
            if owner == "system" and name in _SYSTEM_SECRET:
                return "?The table of users may hold passwords."
        last = token
    return None


def _names_settings(tokens: Sequence[str]) -> bool:
    """True when settings are chosen by names that are written out, or are only counted."""
    for place, token in enumerate(tokens):
        if token.strip('"`') == "name" and tokens[place + 1 : place + 2]:
            follows = tokens[place + 1]
            if follows in ("=", "in", "like", "ilike", "~"):
                texts = (text for text in tokens[place + 1 :] if text[0] == "'")
                cores = [text.strip("'%.*^$") for text in texts]
                return bool(cores) and not any(
                    len(core) < 3 or "|" in core or core in _SECRET_SETTINGS for core in cores
                )
    return any(token in ("category", "pending_restart", "source", "sourcefile") for token in tokens)


# No backtick, which runs a command, no colon, which puts a variable in, no quote but for names.
_ONE = re.compile(r"\\([A-Za-z_]++[+]?+|\?)((?:[ \t]++[A-Za-z0-9_.*?\"$(),+\[\]-]++)*+)[ \t]*+")
_LISTS = re.compile(
    r"""(?:
      d[a-zA-Z]?
    | d[tivmsE]++
    | dA[cfop] | ddp | de[stw] | df[anptw]++ | dF[dpt]? | drds | drg | dRp | dconfig
    | l | list | z | sf | sv | conninfo | lo_list | dx | dX | dy | dP[int]*
    )S?[+]?""",
    re.VERBOSE,
)
_SETTINGS = frozenset({"a", "t", "timing", "x"})
_ALONE = frozenset({"copyright", "encoding", "errverbose", "q", "?"})
_REASONS: dict[str, str] = {
    "c": "The command \\c opens another connection.",
    "connect": "The command \\connect opens another connection.",
    "copy": "!The command \\copy moves rows between tables, files and programs.",
    "deu": "?Mappings of users may hold passwords.",
    "deu+": "?Mappings of users may hold passwords.",
    "dRs": "?Subscriptions may hold passwords.",
    "dRs+": "?Subscriptions may hold passwords.",
    "e": "!The command \\e starts an editor.",
    "edit": "!The command \\edit starts an editor.",
    "g": "The command \\g can write a file or run a command.",
    "gexec": "!The command \\gexec runs what a query returns.",
    "getenv": "?The command \\getenv reads the environment.",
    "i": "!The command \\i runs a file.",
    "include": "!The command \\include runs a file.",
    "ir": "!The command \\ir runs a file.",
    "o": "!The command \\o writes a file or runs a command.",
    "out": "!The command \\out writes a file or runs a command.",
    "password": "!The command \\password changes a password.",
    "set": "The command \\set changes a variable.",
    "w": "!The command \\w writes a file.",
    "write": "!The command \\write writes a file.",
}


def psql_meta(text: str) -> str | None:
    """Why these backslash commands are not proven to only list; None when they are."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    text = text.strip(" \t\n")
    if not text:
        return "There is no command."
    place = 0
    while place < len(text):
        if text.startswith("\\!", place):
            return "!The command \\! runs a shell command."
        found = _ONE.match(text, place)
        if found is None:
            return f"What begins at {quote_word(text[place : place + 12])} is not understood."
        name, arguments = found[1], found[2].split()
        if name in _REASONS:
            return _REASONS[name]
        if name.startswith("dconfig") and any("conn" in word for word in arguments):
            return "?The connection string of a standby may hold a password."
        is_setting = name in _SETTINGS and arguments[:1] in ([], ["auto"], ["off"], ["on"])
        if is_setting and len(arguments) > 1:
            return "There are too many words."
        lists = _LISTS.fullmatch(name) or is_setting or (name in _ALONE and not arguments)
        helps = name in ("h", "help") and all(word.isalpha() for word in arguments)
        if not (lists or helps):
            return f"The command {quote_word(name)} is not known to only list."
        place = found.end()
    return None


def psql(text: str) -> str | None:
    """What psql takes as one command: a backslash command, or else SQL."""
    return psql_meta(text) if text.lstrip(" \t\n").startswith("\\") else sql(text)
