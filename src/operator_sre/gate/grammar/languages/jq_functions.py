"""The builtin functions of jq, and the operators of yq, that compute from their input."""

from __future__ import annotations

__all__ = ["JQ", "JQ_REFUSED", "KEYWORDS", "YQ", "YQ_REFUSED"]

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
    "ENV": "?The variable $ENV is the environment, where secrets are.",
    "__prog_args": "This variable is not known.",
    "env": "?The function 'env' shows the environment, where secrets are.",
    "get_search_list": "The function 'get_search_list' looks at the places of modules.",
    "getline": "The function 'getline' is not known.",
    "import": "!The word 'import' reads a program from another file.",
    "include": "!The word 'include' reads a program from another file.",
    "modulemeta": "The function 'modulemeta' reads another file.",
}
YQ_REFUSED: dict[str, str] = JQ_REFUSED | {
    "envsubst": "?The operator 'envsubst' shows the environment, where secrets are.",
    "eval": "!The operator 'eval' runs an expression that is not shown here.",
    "load": "The operator 'load' reads another file.",
    "load_base64": "The operator 'load_base64' reads another file.",
    "load_props": "The operator 'load_props' reads another file.",
    "load_str": "The operator 'load_str' reads another file.",
    "load_xml": "The operator 'load_xml' reads another file.",
    "strenv": "?The operator 'strenv' shows the environment, where secrets are.",
    "strload": "The operator 'strload' reads another file.",
    "system": "!The operator 'system' runs a command.",
}
