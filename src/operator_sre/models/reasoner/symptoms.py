"""What a text of another system says is wrong: one table of symptoms, the most specific first.

The texts are log lines, the output of commands, and alerts. Findings of subjects state their
trouble as data. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["REASONS", "SYMPTOMS", "TROUBLES", "WEAK_REASONS", "Symptom", "meaning"]


@dataclass(frozen=True, slots=True)
class Symptom:
    """A kind of message. `noun` is its name for people.

    `in_log` means that it counts in logs, `in_words` that it counts in findings as well.
    """

    noun: str
    pattern: re.Pattern[str]
    in_log: bool = False
    in_words: bool = True


def _symptom(noun: str, *patterns: str, in_log: bool = False, in_words: bool = True) -> Symptom:
    return Symptom(noun, re.compile("|".join(patterns), re.IGNORECASE), in_log, in_words)


SYMPTOMS: Mapping[str, Symptom] = {
    # Only in tickets that were stored before findings stated their trouble.
    "unconfirmed": _symptom(
        "an unconfirmed alert", r"own (look|checks?|observations?) finds? nothing wrong"
    ),
    "no_space": _symptom(
        "a full disk",
        *(
            r"no space left",
            r"disk (is )?(nearly |almost )?full",
            r"\bENOSPC\b",
            r"disk[_ ](full|space)",
        ),
        *(r"write to its disk", r"quota exceeded", r"database space exceeded", r"SQLSTATE 53100"),
        in_log=True,
    ),
    "files": _symptom(
        "a limit of open files",
        *(r"too many open files", r"\bEMFILE\b", r"\bENFILE\b", r"file descriptors?\b"),
        in_log=True,
    ),
    "memory": _symptom(
        "a lack of memory",
        *(r"out of memory", r"cannot allocate", r"\bOOM\b", r"\bENOMEM\b", r"memory limit"),
        *(r"failed to reserve", r"\bbad_alloc\b", r"OutOfMemoryError", r"oom-kill"),
        in_log=True,
    ),
    "limit": _symptom(
        "a resource limit",
        *(r"resource temporarily unavailable", r"could not fork", r"can't start new thread"),
        *(r"unable to create (new )?native thread", r"failed to create new OS thread"),
        *(r"pthread_create", r"file too large", r"\bEFBIG\b", r"\bSIGXFSZ\b", r"file size limit"),
        in_log=True,
        in_words=False,
    ),
    "address": _symptom(
        "a port in use",
        *(r"address already in use", r"\bEADDRINUSE\b", r"port (is )?(already )?(taken|in use)"),
        *(r"could not bind", r"failed listening on port"),
        in_log=True,
    ),
    "tls": _symptom(
        "a rejected certificate",
        *(
            r"\bx509\b",
            r"certificate (has )?expired",
            r"certificate verify failed",
            r"\bunknown ca\b",
        ),
        *(r"certificate.{0,80}(not yet valid|unknown authority|is not valid for|does ?n.t match)",),
        *(r"(bad|expired|revoked) certificate", r"sslv3 alert", r"handshake failure"),
        in_log=True,
        in_words=False,
    ),
    "corrupt": _symptom(
        "damaged data",
        *(r"corrupt", r"checksum (mismatch|failed|error)", r"\bcrc mismatch", r"bad file format"),
        *(r"invalid (page|magic|checkpoint|primary checkpoint|database|freelist|checksum)",),
        *(r"could not locate a valid checkpoint", r"unexpected EOF reading", r"\bfreepages\b"),
        *(
            r"wrong (signature|magic)",
            r"malformed",
            r"read \d+ of \d+",
            r"unexpected fault address",
        ),
        *(r"page expected to be", r"SQLSTATE XX00[12]", r"short read", r"\bSIGBUS\b"),
        in_log=True,
        in_words=False,
    ),
    "removed": _symptom(
        "a removal from the cluster",
        *(r"removed from the cluster", r"member .{0,60}(has been|was) removed", r"not a member of"),
        *(r"cluster ID mismatch", r"data-dir used by this member must be removed"),
        in_log=True,
        in_words=False,
    ),
    "lock_file": _symptom(
        "a lock or PID file",
        *(r"lock file .{0,200} already exists", r"pid ?file .{0,120}(exists|stale|already)"),
        r"file already locked",
        in_log=True,
        in_words=False,
    ),
    "denied": _symptom(
        "a file that it may not use",
        *(r"read-only file system", r"\bEROFS\b", r"\bEACCES\b", r"operation not permitted"),
        r"(open|read|write|writ|creat|stat|access|mkdir|unlink|lock|file|director)\w*\b"
        r".{0,200}permission denied",
        r"permission denied:? ['\"]?/",
        in_log=True,
        in_words=False,
    ),
    "missing": _symptom(
        "a missing file or missing data",
        *(r"no such file", r"not a directory", r"\bENOENT\b", r"could not find the database"),
        *(
            r"already been bootstrapped",
            r"ModuleNotFoundError",
            r"missing (wal|data|file|dir\w*|manifest)",
        ),
        in_log=True,
        in_words=False,
    ),
    "config": _symptom(
        "a rejected setting",
        *(
            r"config(uration)? file.{0,200}(error|invalid)",
            r"bad directive",
            r"failed to verify flags",
        ),
        *(
            r"unrecogni[sz]ed (configuration|option|argument|flag|parameter|key)",
            r"invalid value for",
            r"error: argument .{1,80}invalid (choice|\w+ value)",
        ),
        *(
            r"unknown (flag|option|directive|key|setting|parameter|field|variable)",
            r"cannot unmarshal",
        ),
        *(r"requires an? (boolean|numeric|integer|real)", r"is outside the valid range"),
        *(r"invalid (config|setting|flag|option)", r"flag provided but not defined"),
        *(r"(failed|unable) to (parse|load).{0,60}(config|setting|file)", r"url scheme must be"),
        *(r"JSONDecodeError", r"TOMLDecodeError", r"yaml: ", r"YAMLError", r"ScannerError"),
        *(r"error (converting|parsing|unmarshal\w*)", r"syntax error in file", r"parse error"),
        *(r"expected a .{1,40} but (got|found)", r"must be (at least|at most|positive|between)"),
        *(r"unexpected error setting up", r"conflicting (environment|flag|setting)"),
        in_log=True,
        in_words=False,
    ),
    "name": _symptom(
        "a name that does not resolve",
        *(r"no such host", r"name or service not known", r"could not translate host name"),
        *(r"failure in name resolution", r"\bENOTFOUND\b", r"\bNXDOMAIN\b", r"could not resolve"),
        *(r"nodename nor servname", r"\bunknown host\b"),
        in_log=True,
        in_words=False,
    ),
    "clock": _symptom(
        "a clock that differs",
        *(r"clock (skew|difference|drift|jump)", r"time (jumped|went) backwards?"),
        in_log=True,
        in_words=False,
    ),
    "credential": _symptom(
        "rejected credentials",
        *(
            r"wrong ?pass",
            r"no ?auth\b",
            r"password",
            r"unauthori[sz]ed",
            r"authenticat",
            r"forbidden",
        ),
        *(r"permission denied", r"credential", r"access denied", r"certificate"),
        *(r"not permitted to log ?in", r"no ?permission", r"\bnoperm\b", r"user name is empty"),
        in_log=True,
    ),
    "quorum": _symptom("a lost quorum", r"quorum|majority|no leader"),
    "drift": _symptom("settings that differ", r"drift|differs?\b|configur|mismatch|settings?\b"),
    "overload": _symptom(
        "an overload",
        r"overload|saturat|too many (requests|connections)|queue (is )?full|throttl",
    ),
    "log": _symptom("a log that grows", r"\blog\b|\blog_|logs\b"),
    "slow": _symptom("slowness", r"latency|slow|\btake up to\b|\blate\b"),
    "dependency": _symptom(
        "a dependency that it cannot reach",
        *(r"(cannot|could not|failed to|unable to) (reach|connect)", r"unreachable"),
        *(r"connection to \S+ (failed|lost|refused)", r"upstream", r"\bis lost\b"),
        in_log=True,
    ),
    "refused": _symptom("a refused connection", r"refused|connection reset"),
    "silence": _symptom("no answer", r"in time|timed? ?out|does not answer|no answer"),
}

# Which trouble the text of a finding names.
TROUBLES: Mapping[str, re.Pattern[str]] = {
    name: symptom.pattern for name, symptom in SYMPTOMS.items() if symptom.in_words
}
# Reasons that a log may name. The weak ones are often about clients or peers of the process.
REASONS = tuple(name for name, symptom in SYMPTOMS.items() if symptom.in_log)
WEAK_REASONS = frozenset({"credential", "dependency", "name", "clock", "tls"})


def meaning(text: str, *, among: tuple[str, ...] = tuple(TROUBLES)) -> str:
    """Which symptom a text names, or ""."""
    return next((name for name in among if SYMPTOMS[name].pattern.search(text)), "")
