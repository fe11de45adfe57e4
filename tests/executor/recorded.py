"""What every flavour of a tool said when it failed, as recorded on Debian 12; usages are cut."""

from __future__ import annotations

from operator_protocols.domain.category import FailureCategory

__all__ = ["FLAVOURS"]

_MISSING, _SYNTAX = FailureCategory.NOT_FOUND, FailureCategory.SYNTAX
_NETWORK, _TIMEOUT = FailureCategory.NETWORK, FailureCategory.TIMEOUT
_OPTION = "--no-such-option"
_BUSYBOX = "BusyBox v1.35.0 (Debian 1:1.35.0-4+deb12u1+b1) multi-call binary.\n\nUsage:"

# A command and why it fails, then each flavour with its exit code and what it said.
FLAVOURS: dict[tuple[str, FailureCategory], tuple[tuple[str, int, str], ...]] = {
    ("awk '{' text", _SYNTAX): (
        ("mawk", 2, "awk: line 2: missing } near end of file"),
        (
            "gawk",
            1,
            "awk: cmd. line:1: {\nawk: cmd. line:1:  ^ unexpected newline or end of string",
        ),
        (
            *("original-awk", 2),
            "awk: syntax error at source line 1\n context is\n\t >>> { <<< \n"
            "awk: illegal statement at source line 1\n\tmissing }",
        ),
        ("BusyBox", 1, "awk: cmd. line:1: Unexpected token"),
    ),
    ("awk 'BEGIN { print (1 }' text", _SYNTAX): (
        ("mawk", 2, "awk: line 1: missing ) near }"),
        (
            *("gawk", 1),
            "awk: cmd. line:1: BEGIN { print (1 }\n"
            "awk: cmd. line:1:                  ^ syntax error",
        ),
        (
            *("original-awk", 2),
            "awk: syntax error at source line 1\n context is\n\tBEGIN { print (1 >>>  } <<< ",
        ),
        ("BusyBox", 1, "awk: cmd. line:1: Unexpected token"),
    ),
    ("awk '/[/' text", _SYNTAX): (
        ("mawk", 2, "awk: line 1: runaway regular expression /[/ ..."),
        ("gawk", 1, "awk: cmd. line:1: /[/\nawk: cmd. line:1:  ^ unterminated regexp"),
        (
            *("original-awk", 2),
            "awk: nonterminated character class [\n source line number 1\n context is\n\t >>> /[/",
        ),
        ("BusyBox", 1, "awk: bad regex '[': Invalid regular expression"),
    ),
    ("awk '/(/' text", _SYNTAX): (
        ("mawk", 2, "awk: line 1: regular expression compile failed (missing ')')\n("),
        ("gawk", 1, "awk: cmd. line:1: error: Unmatched ( or \\(: /(/"),
        (
            *("original-awk", 2),
            "awk: illegal primary in regular expression ( at \n source line number 1",
        ),
        ("BusyBox", 1, "awk: bad regex '(': Unmatched ( or \\("),
    ),
    ("awk 'BEGIN { print \"a' text", _SYNTAX): (
        ("mawk", 2, 'awk: line 1: runaway string constant "a ...'),
        ("gawk", 1, "awk: cmd. line:1:               ^ unterminated string"),
        (
            *("original-awk", 2),
            'awk: non-terminated string a... at source line 1\n context is\n\tBEGIN { print >>>  "a'
            "\nawk: giving up\n source line number 1",
        ),
        ("BusyBox", 1, "awk: cmd. line:1: Unexpected end of string"),
    ),
    (f"awk {_OPTION} text", _SYNTAX): (
        ("mawk", 2, f"awk: not an option: {_OPTION}"),
        (
            *("gawk", 1),
            "Usage: awk [POSIX or GNU style options] -f progfile [--] file ...\n"
            "Usage: awk [POSIX or GNU style options] [--] 'program' file ...",
        ),
        ("BusyBox", 1, f"awk: unrecognized option '{_OPTION}'\n{_BUSYBOX} awk [OPTIONS]"),
    ),
    ("awk -f", _SYNTAX): (
        ("mawk", 2, "awk: option -f lacks argument"),
        (
            "gawk",
            1,
            "awk: option requires an argument -- f\nUsage: awk [POSIX or GNU style options]",
        ),
        ("BusyBox", 1, f"awk: option requires an argument -- 'f'\n{_BUSYBOX} awk [OPTIONS]"),
    ),
    ("awk '{ print }' nosuch", _MISSING): (
        ("mawk", 2, "awk: cannot open nosuch (No such file or directory)"),
        (
            *("gawk", 2),
            "awk: fatal: cannot open file `nosuch' for reading: No such file or directory",
        ),
        ("BusyBox", 1, "awk: nosuch: No such file or directory"),
    ),
    ("find . -name", _SYNTAX): (
        ("GNU", 1, "find: missing argument to `-name'"),
        ("BusyBox", 1, "find: -name requires an argument"),
        ("Toybox", 1, "find: '-name' needs 1 arg"),
    ),
    ("find . -no-such", _SYNTAX): (
        ("GNU", 1, "find: unknown predicate `-no-such'"),
        ("BusyBox", 1, f"find: unrecognized: -no-such\n{_BUSYBOX} find [-HL] [PATH]..."),
    ),
    ("find . '('", _SYNTAX): (
        (
            *("GNU", 1),
            "find: invalid expression; expected to find a ')' but didn't see one.",
        ),
        ("BusyBox", 1, "find: unpaired '('"),
    ),
    ("grep '[' text", _SYNTAX): (
        ("GNU", 2, "grep: Invalid regular expression"),
        ("BusyBox", 2, "grep: bad regex '['"),
        ("Toybox", 2, "grep: bad regex '[': Invalid regular expression"),
    ),
    ("id nosuch", _MISSING): (
        ("GNU", 1, "id: 'nosuch': no such user"),
        ("BusyBox", 1, "id: unknown user nosuch"),
        ("uutils", 1, "id: 'nosuch': no such user"),
    ),
    (f"ls {_OPTION}", _SYNTAX): (
        ("GNU", 2, f"ls: unrecognized option '{_OPTION}'\nTry 'ls --help' for more information."),
        ("BusyBox", 1, f"ls: unrecognized option '{_OPTION}'\n{_BUSYBOX} ls [-1AaCxd] [FILE]..."),
        ("Toybox", 1, "ls: Unknown option 'no-such-option' (see \"ls --help\")"),
        (
            *("uutils", 2),
            f"error: Found argument '{_OPTION}' which wasn't expected, or isn't valid in this "
            "context\n\nUSAGE:\n    ls [OPTION]... [FILE]...\n\nFor more information try --help",
        ),
        (
            *("uutils with a newer parser", 1),
            f"error: unexpected argument '{_OPTION}' found\n\n"
            "Usage: ls [OPTIONS]\n\nFor more information, try '--help'.",
        ),
    ),
    ("ls nosuch", _MISSING): (
        ("GNU", 2, "ls: cannot access 'nosuch': No such file or directory"),
        ("BusyBox", 1, "ls: nosuch: No such file or directory"),
        ("Toybox", 1, "ls: nosuch: No such file or directory"),
        ("uutils", 2, "ls: cannot access 'nosuch': No such file or directory"),
    ),
    ("mv text", _SYNTAX): (
        (
            *("GNU", 1),
            "mv: missing destination file operand after 'text'\n"
            "Try 'mv --help' for more information.",
        ),
        ("BusyBox", 1, f"{_BUSYBOX} mv [-finT] SOURCE DEST"),
        ("Toybox", 1, "mv: Needs 2 arguments"),
        (
            *("uutils", 2),
            "error: The argument '<files>...' requires at least 2 values, but only 1 was provided"
            "\n\nUsage: mv [OPTION]... [-T] SOURCE DEST",
        ),
    ),
    (f"ps {_OPTION}", _SYNTAX): (
        ("procps", 1, "error: unknown gnu long option\n\nUsage:\n ps [options]\n"),
        ("BusyBox", 1, f"ps: unrecognized option '{_OPTION}'\n{_BUSYBOX} ps [-o COL1] [-T]"),
        ("Toybox", 1, "ps: Unknown option 'no-such-option' (see \"ps --help\")"),
    ),
    ("cut text", _SYNTAX): (
        (
            *("GNU", 1),
            "cut: you must specify a list of bytes, characters, or fields\n"
            "Try 'cut --help' for more information.",
        ),
        ("Toybox", 1, 'cut: Needs -CFfcb (see "cut --help")'),
    ),
    ("pgrep", _SYNTAX): (
        (
            *("procps", 2),
            "pgrep: no matching criteria specified\nTry `pgrep --help' for more information.",
        ),
        ("Toybox", 1, 'pgrep: No PATTERN (see "pgrep --help")'),
    ),
    ("rm", _SYNTAX): (
        ("GNU", 1, "rm: missing operand\nTry 'rm --help' for more information."),
        ("BusyBox", 1, f"{_BUSYBOX} rm [-irf] FILE..."),
        ("Toybox", 1, 'rm: Needs 1 argument (see "rm --help")'),
        ("uutils", 1, "rm: missing operand\nTry 'rm --help' for more information."),
    ),
    ("sed 's/a' text", _SYNTAX): (
        ("GNU", 1, "sed: -e expression #1, char 3: unterminated `s' command"),
        ("BusyBox", 1, "sed: unmatched '/'"),
        ("Toybox", 1, "sed: bad pattern 's/a'@2 (/)"),
    ),
    ("tar -tf nosuch.tar", _MISSING): (
        (
            *("GNU", 2),
            "tar: nosuch.tar: Cannot open: No such file or directory\n"
            "tar: Error is not recoverable: exiting now",
        ),
        ("BusyBox", 1, "tar: can't open 'nosuch.tar': No such file or directory"),
        ("Toybox", 1, "tar: nosuch.tar: No such file or directory"),
    ),
    ("timeout 0.1 sleep 5", _TIMEOUT): (
        ("GNU", 124, ""),
        ("BusyBox", 143, ""),
        ("Toybox", 124, ""),
        ("uutils", 124, ""),
    ),
    ("wget -O - http://127.0.0.1:1/", _NETWORK): (
        ("GNU", 4, "Connecting to 127.0.0.1:1... failed: Connection refused."),
        (
            *("BusyBox", 1),
            "Connecting to 127.0.0.1:1 (127.0.0.1:1)\n"
            "wget: can't connect to remote host (127.0.0.1): Connection refused",
        ),
        ("Toybox", 1, "wget: connect: Connection refused"),
    ),
}
