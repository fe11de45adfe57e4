"""Programs of jq and expressions of yq that only compute from their input."""

from __future__ import annotations

from collections.abc import Mapping

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, quote_word
from operator_sre.gate.grammar.patterns import re

__all__ = ["JQ", "JQ_REFUSED", "KEYWORDS", "YQ", "YQ_REFUSED", "jq", "walk", "yq"]

KEYWORDS: frozenset[str] = frozenset(
    """
    and as catch def elif else end foreach if label or reduce then try __loc__ break
    """.split()  # noqa: SIM905
)
JQ: frozenset[str] = frozenset(
    """
    IN INDEX GROUP_BY UNIQUE_BY INSIDE abs acos acosh add all any arrays ascii ascii_downcase
    ascii_upcase asin asinh atan atan2 atanh booleans bsearch builtins capture cbrt ceil
    combinations contains copysign cos cosh date dateadd datesub dateflat debug del delpaths drem
    empty endswith erf error exp exp10 exp2 explode expm1 fabs false fdim first flatten floor fma
    fmax fmin fmod frexp from_entries fromdate fromdateiso8601 fromjson fromstream gamma
    get_search_path getpath gmtime group_by gsub halt halt_error has have_decnum
    have_literal_numbers hypot implode in index indices infinite input input_filename
    input_line_number inputs inside isempty isinfinite isnan isnormal isvalid iterables join
    keys keys_unsorted last ldexp leaf_paths length lgamma limit localtime log log10 log1p log2
    logb ltrim ltrimstr map map_values match max max_by min min_by mktime modf nan nearbyint not
    now nth null nulls numbers objects path paths pick pow pow10 range recurse recurse_down repeat
    reverse rindex rint round rtrim rtrimstr scalars scalb scalbln scan select setpath significand
    sin sinh skip sort sort_by split splits sqrt startswith stderr strflocaltime strftime strings
    strptime sub tan tanh test tgamma to_entries toarray toboolean todate todateiso8601 tojson
    tonumber tostream tostring transpose trim trimstr true trunc truncate_stream type unique
    unique_by until utf8bytelength values walk while with_entries ltrimstr getpath ascii tojson
    limit splits env_ @text @json @html @uri @csv @tsv @sh @base64 @base64d @base32 @base32d @urid
    """.split()  # noqa: SIM905
) - {"env_", "get_search_path"}
YQ: frozenset[str] = JQ | frozenset(
    """
    alias anchor array_to_map collect column comments di document_index documentIndex downcase
    each explode file_index fileIndex filename fi filter foot_comment footComment from_csv
    from_json from_props from_tsv from_unix from_xml from_yaml from_entries head_comment
    headComment ireduce is_key key kind line line_comment lineComment match omit parent pivot ref
    shuffle sort_keys split_doc style tag to_csv to_json to_number to_props to_string to_tsv
    to_unix to_xml to_yaml tz unique upcase with with_dtf format_datetime reduce
    @base64 @base64d @csvd @jsond @props @propsd @tsvd @xml @xmld @yaml @yamld
    """.split()  # noqa: SIM905
)
JQ_REFUSED: dict[str, str] = {
    "ENV": "?The variable $ENV is the environment, which may hold secrets.",
    "__prog_args": "This variable is not known.",
    "env": "?The function 'env' shows the environment, which may hold secrets.",
    "get_search_list": "The function 'get_search_list' shows where modules are loaded from.",
    "getline": "The function 'getline' is not known.",
    "import": "!The word 'import' reads a program from another file.",
    "include": "!The word 'include' reads a program from another file.",
    "modulemeta": "The function 'modulemeta' reads another file.",
}
YQ_REFUSED: dict[str, str] = JQ_REFUSED | {
    "envsubst": "?The operator 'envsubst' shows the environment, which may hold secrets.",
    "eval": "!The operator 'eval' runs an expression that is not shown here.",
    "load": "The operator 'load' reads another file.",
    "load_base64": "The operator 'load_base64' reads another file.",
    "load_props": "The operator 'load_props' reads another file.",
    "load_str": "The operator 'load_str' reads another file.",
    "load_xml": "The operator 'load_xml' reads another file.",
    "strenv": "?The operator 'strenv' shows the environment, which may hold secrets.",
    "strload": "The operator 'strload' reads another file.",
    "system": "!The operator 'system' runs a command.",
}


_TOKEN = re.compile(
    r"""[ \t\n]*+(?:
      (?P<field>\.[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*+(?!::))
    | (?P<variable>\$[A-Za-z_][A-Za-z0-9_]*+(?!::))
    | (?P<number>(?>\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)
    | (?P<format>@[a-z0-9]++)
    | (?P<quote>")
    | (?P<comment>\#[^\n\r\\]*+(?=\n|\Z))
    | (?P<mark>\.\.|[.\[\](){}|,:;=<>!+*/%?-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_STRING = re.compile(r'(?:[^"\\\x00]|\\[^(\x00])*+(?P<close>"|\\\()')
_DEFINED = re.compile(r"\bdef\s++([A-Za-z_]\w*+)\s*+(?:\(([^()]*+)\))?+\s*+:")
_PARAMETER = re.compile(r"\$?([A-Za-z_]\w*+)")
_CLOSES = {")": "(", "]": "[", "}": "{"}


def jq(text: str) -> str | None:
    """Why this program is not proven to only compute; None when it is."""
    return walk(text, JQ, JQ_REFUSED)


def walk(
    text: str, known: frozenset[str], refused: Mapping[str, str], *, strict_keys: bool = False
) -> str | None:
    """Why a program that may name only what is known is refused; None when it is not."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    definitions = _DEFINED.findall(text) if "def" in text else []
    own = {name for name, _ in definitions}
    own |= {name for _, inside in definitions for name in _PARAMETER.findall(inside)}
    own -= JQ_REFUSED.keys()
    place, last = 0, ""
    opened: list[str] = []  # brackets, and `"` for a string that goes on after its expression
    while True:
        found = _TOKEN.match(text, place)
        if found is None:
            return (
                f"What begins at {quote_word(text[place : place + 12].lstrip())} is not understood."
            )
        kind = found.lastgroup or "end"
        token, place = text[found.start(kind) : found.end()], found.end()
        if kind == "end":
            return "A bracket or a string does not end." if opened else None
        if kind in ("name", "format", "variable"):
            follows = text[place : place + 8].lstrip(" \t\n")[:1]
            if kind == "name" and opened and opened[-1] == "{" and last in ("{", ","):
                # The key of an object calls nothing; alone, it is the field of that name.
                reason = refused.get(token) if follows != ":" or strict_keys else None
                if reason is None and follows not in (":", ",", "}"):
                    return f"What follows the key {quote_word(token)} is not understood."
            else:
                name = token.lstrip("$")
                reason = None if token in own else refused.get(name)
                is_known = kind == "variable" or name in known or name in KEYWORDS
                if reason is None and token not in own and not is_known:
                    return f"The function {quote_word(name)} is not known."
            if reason is not None:
                return reason
        elif kind == "quote" or (token == ")" and opened and opened[-1] == '"'):
            if token == ")":
                opened.pop()
            end = _STRING.match(text, place)
            if end is None:
                return "A string does not end."
            place = end.end()
            if end["close"] != '"':
                opened.append('"')
        elif token in ("(", "[", "{"):
            opened.append(token)
        elif token in _CLOSES and (not opened or opened.pop() != _CLOSES[token]):
            return "A bracket is closed that was not opened."
        if kind != "comment":
            last = token


# A key may hold dashes for one yq, and is a subtraction for the other: both must be harmless.
_DASHED = re.compile(r"\.[A-Za-z_][A-Za-z0-9_]*+(?:-[A-Za-z0-9_]++)++")
# For one yq a path goes on through a quote, unless one of these stands before it.
_QUOTE_IN_PATH = re.compile(r'[^ \n;}{:\[\],|.()=!"\\]"')
_WHOLE_STRING = re.compile(r'"(?:[^"\\]|\\[^(])*+"')


def yq(text: str) -> str | None:
    """Why this expression is not proven to only compute; None when it is."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    if "#" in text or "\\(" in text:
        return "A comment or an expression inside of a string is not understood."
    # What remains has empty strings only, so a quote in it that has a neighbour opens a string.
    bare = _WHOLE_STRING.sub('""', text)
    if _QUOTE_IN_PATH.search(bare):
        return "Not every yq reads this quote in the same way."
    for dashed in _DASHED.findall(bare):
        for part in dashed.split("-")[1:]:
            if part in YQ_REFUSED:
                return YQ_REFUSED[part]
    return walk(_DASHED.sub(".x", bare), YQ, YQ_REFUSED, strict_keys=True)
