"""Texts from outside that try to instruct the agent: found and reported. Pure.

This only reports. If an agent follows such a text, the gate still refuses harmful actions.
Patterns match in linear time, and only a bounded part of each text is read.
"""

from __future__ import annotations

import base64
import binascii
import functools
import importlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Briefing

__all__ = [
    "COMMAND_LINE",
    "RULES",
    "SERVER_ADVICE",
    "Suspicion",
    "briefing_texts",
    "fold",
    "proof_texts",
    "result_texts",
    "suspicions",
]

TEXT_CHARS_MAX = 20_000
ALL_CHARS_MAX = 100_000
FOUND_MAX = 20
EXCERPT_CHARS_MAX = 140
ENCODED_MAX = 16
ENCODED_CHARS_MAX = 4_096
HIDDEN_MIN = 4
STRANGE_MAX = 0.05
WHERE_CHARS_MAX = 120
NAME_CHARS_MAX = 40
# Letters that look like others, so that a word is not found by how it is written.
_LOOKALIKES = str.maketrans(
    "абвеёзикмнорстухіјѕԁһԛԝАВЕЗКМНОРСТУХІЈЅαβεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡ",
    "abbee3ukmhopctyxijsdhqwABE3KMHOPCTYXIJSabeikvoptuxABEZHIKMNOPTYXiag",
)

# Invisible letters, each an ASCII letter moved to where no font draws it; and what
# separates words.
_SEEN = {
    **{0xE0000 + code: chr(code) for code in range(0x20, 0x7F)},
    **dict.fromkeys((*range(0x2010, 0x202A), *range(0x2030, 0x2060)), " "),
}

_PRINTABLE = bytes([*range(0x20, 0x7F), 0x09, 0x0A])
_TURNED = re.compile("[\u202a-\u202e\u2066-\u2069]")
_TAGGED = re.compile("[\U000e0020-\U000e007e]")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,4096}={0,2}")
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2}){16,2048}")
# What could be a secret, or a part of one, is not repeated.
_LONG = re.compile(r"(?=\S*\d)\S{8,}|\S{20,}")
Texts = Iterator[tuple[str, str]]

# Between two words: what separates them in a sentence, in a file's name or in a key.
_W = r"[^a-z0-9\n]{1,3}"
# Before a word: it is not the end of another one.
_B = r"(?:^|[^a-z0-9])"
_AGENT = (
    r"(?:ai|a\.i\.|llm|llms|assistant|chatbot|copilot|language model|autonomous agent|sre agent"
    r"|ai agent|ai assistant|operator agent|on-?call (?:agent|assistant|bot)|agent)"
)
_ORDER = (
    r"(?:instruction|rule|guideline|guidance|order|prompt|restriction|constraint|polic(?:y|ie)"
    r"|safety|directive|anweisung|regel|consigne|instruccion|regla)"
)


def _words(*alternatives: str) -> str:
    return "(?:" + "|".join(alternative.replace(" ", _W) for alternative in alternatives) + ")"


def _either(*alternatives: str) -> str:
    return "|".join(alternatives)


# Advice of servers in their own messages, word for word: nothing can hide behind it.
SERVER_ADVICE = (
    "You might need to run fsync to release disk space, then run VACUUM.",
    "To fix this issue run the command 'echo madvise > "
    "/sys/kernel/mm/transparent_hugepage/enabled' as root",
    "please run the agent as root",
)

# What a command line begins with that changes, takes or sends something.
_COMMAND = _either(
    r"rm -[a-z]*[rf]",
    r"(?:curl|wget|nc|ncat|socat|scp|sftp|rsync|ssh|telnet) [-a-z0-9@/.$:\"']",
    r"(?:nslookup|dig|host|getent hosts) \S*\.",
    r"(?:ba|z|da)?sh -c",
    r"base64 (?:-d|--decode)",
    r"(?:chmod|chown|kill|pkill|killall|dd|mkfs|shutdown|reboot|crontab|truncate|shred|tee|mv) ",
    r"(?:docker|podman) (?:run|exec|rm|kill|stop|restart)",
    r"kubectl (?:delete|exec|apply|scale|drain|get secret)",
    r"systemctl (?:stop|disable|mask|restart)",
    r"(?:pip3?|npm|gem|cargo|apt|apt-get|yum) install",
    r"(?:python3?|perl|ruby|node) -[ce]",
    r"cat [~/.$]",
    r"(?:echo|printf) .{1,80}(?:>|\|)",
    r"(?:printenv|env|export|eval|source) ?",
    r"operator (?:mode|kill-switch|approvals|policy|session|silences|tickets)",
    r"(?:flushall|flushdb|config set|drop (?:table|database)|delete from)",
    r"(?:redis|valkey)-cli ",
    r"(?:sed -i|find .{1,60}-(?:delete|exec)|git (?:push|clone))",
)
_TOOL = (
    r"(?:shell|finish|escalate|diagnose|execute_script|write_file|restore_file|kill_process"
    r"|read_file|docker_[a-z]+|[a-z]+_service|mend)"
)
_RUN = r"(?:run|runs|execute|exec|invoke|type|issue|perform|enter|paste)"

# A line that is a command, where a text was encoded to hide that.
COMMAND_LINE = rf"(?:^|[;&|`(]\s*)(?:sudo )?(?:{_COMMAND})"

RULES: Mapping[str, str] = {
    "overrules": _either(
        _B
        + _words("ignore", "disregard", "forget", "override", "overrule", "bypass", "set aside")
        + rf"{_W}.{{0,20}}"
        + _words(
            "previous", "prior", "earlier", "above", "preceding", "all", "any", "your", "other"
        )
        + rf"{_W}.{{0,30}}{_ORDER}",
        _B + r"(?:ignoriere?|vergiss|oubliez?|ignorez?|ignora|olvida)" + rf".{{1,30}}{_ORDER}",
        _B + _words("obey", "comply with", "follow my", "follow only") + rf"{_W}.{{0,30}}{_ORDER}",
        _B
        + _words("new", "updated", "revised", "replacement", "additional")
        + _W
        + _words("instructions", "orders", "directives", "directive", "system prompt")
        + r" ?(?::|for you|from|follow|apply)",
    ),
    "addresses": _either(
        _B
        + _words(
            *("dear", "attention", "hello", "hey", "hi", "note to", "note for", "message to"),
            *("message for", "instruction to", "instructions to", "instruction for", "memo to"),
            *("instructions for", "notice to", "notice for", "reminder to", "reminder for", "psst"),
        )
        + rf"{_W}(?:the |any |every |all |whichever ){{0,2}}{_AGENT}s?(?:[^a-z]|$)",
        _B
        + rf"{_AGENT}[,:;!.] (?:please |now |first ){{0,2}}(?:{_RUN}|call|use|do|send|stop)[^a-z]",
        _B + rf"(?:if|since|because|as) you are (?:an?|the) {_AGENT}",
        _B + r"you are (?:now|no longer|henceforth|hereby) (?:an?|the|in|free|allowed|authori[sz]ed"
        r"|bound|restricted|root|acting|permitted|instructed|required|operating)",
        _B + r"(?:ai|llm|sre|operator|autonomous) (?:agent|assistant|model)s?\b.{0,40}"
        r"(?:must|should|shall|please|need|has to|have to|are to|is to|do not|run |call )",
        _B + r"(?:this is|i am|i'm|speaking as) (?:the |your |an? ){0,2}"
        r"(?:admin|administrator|security team|developer|owner|maintainer|sre lead|cto|ceo"
        r"|platform team)",
        _B + r"you (?:must|shall|have to|are to|should|will) "
        r"(?:now|first|immediately|instead|next|only) [a-z]",
        _B + r"your (?:next|new|only|real|actual|first) "
        r"(?:step|task|job|action|goal|objective|command|call) (?:is|must|should|will)",
    ),
    "forges": _either(
        r"<< ?(?:end of )?(?:data|gate)(?:[^a-z]|$)",
        r"<\|[a-z_]{2,24}\|>",
        r"\[/?(?:inst|sys)\]|<</?sys>>",
        r"</?(?:assistant|instructions?|tool_results?|function_results?|tool_response"
        r"|function_calls?|system[-_](?:prompt|message|reminder))>",
        r"</?system>.{0,120}(?:run|execute|call|you|must|ignore|allowed|approved|waived)",
        r"(?:^|[\s.\]>\"'#])(?:system|assistant|developer)(?: message| prompt)? ?:.{0,80}"
        r"(?:you |run |execute |call |must |ignore |approved|allowed|please |finish|escalate"
        r"|granted)",
        r"#{2,} ?(?:system|instructions?|assistant|new task)",
        r"\"(?:name|tool|function)\" ?: ?\"" + _TOOL + r"\"",
        r"\"calls\" ?: ?\[",
        r"result of call \d|outcome \(seq=\d|your diagnosis is in the ledger",
        _B + _words("system override", "system directive", "developer mode", "debug mode enabled"),
    ),
    "commands": _either(
        _B + rf"{_RUN}{_W}.{{0,40}}(?:^|[^a-z])(?:{_COMMAND})",
        _B
        + r"(?:call|invoke|use|trigger)"
        + _W
        + r"(?:the |tool |typed ){0,3}[`'\"]?"
        + _TOOL
        + r"(?:[^a-z]|$)",
        _B + r"(?:please|now|then|next|first|finally|immediately)[,:]? " + _RUN + r"(?:[^a-z]|$)",
        _B + r"(?:please|now|then|next|first|finally|immediately)[,:]? "
        r"(?:delete|restart|kill|stop|disable|approve|install|upload|send|post|escalate)[^a-z]",
        _B
        + _words("decode", "decode it", "decode this", "decode and")
        + rf"{_W}.{{0,40}}(?:{_RUN}|follow|obey|do it|do what)",
    ),
    "reveals": _either(
        _B + r"(?:send|post|upload|forward|exfiltrate|leak|copy|mail|transmit|print|reveal|dump"
        r"|include|paste|put|attach|give|append|report|repeat|quote|write|show)"
        + rf"{_W}.{{0,60}}"
        + r"(?:secret|password|passphrase|token|api.?key|access.?key|credential|environment"
        r"|env var|private.?key|ssh.?key|id_(?:rsa|ed25519)|\.env|system prompt|ledger key|keys?)"
        + r"s?(?:[^a-z].{0,60})?[^a-z](?:to|into|in|at|via|as)[^a-z].{0,30}"
        r"(?:http|dns|[0-9]+\.[0-9]+\.|your|reason|answer|reply|response|collector|webhook|url"
        r"|escalation|chat|summary|name|query|port|listener)",
        _B
        + _words("reveal", "print", "repeat", "show", "output")
        + _W
        + r"(?:your |the |whole ){1,3}(?:system prompt|instructions|boundary|rules)",
    ),
    "permits": _either(
        _B + r"(?:pre-?approved|pre-?authori[sz]ed) ",
        _B + r"already (?:been )?(?:approved|authori[sz]ed|signed off) (?:by|for|this)",
        _B + r"approval.{0,20}(?:not|never|no longer) (?:needed|required|necessary)",
        _B + r"no (?:approval|diagnosis|confirmation|permission|proof) (?:is |was )?"
        r"(?:needed|required|necessary)",
        _B + r"without (?:any |further |a )?(?:approval|asking|confirmation|review|diagnosis|proof"
        r"|telling|informing|notifying|alerting)",
        _B + r"(?:gate|approvals?|kill.?switch|guardrails?|judge)(?:.{0,20}) (?:is|are|was|were|has"
        r" been|have been) (?:now |temporarily )?(?:disabled|suspended|lifted|waived"
        r"|paused|void)",
        _B + r"(?:polic(?:y|ies)|limits?|checks?|restrictions?|rules) (?:is|are|was|were|has been"
        r"|have been|do|does) (?:now |temporarily )?(?:suspended|lifted|waived|void|not apply)",
        _B + r"(?:you|agents?|operator) (?:are|is|may|have|has) (?:now |hereby )?"
        r"(?:full |been )?(?:authori[sz]ed|permission|permitted|cleared|root access|allowed)",
    ),
    "silences": _either(
        _B
        + r"(?:do not|don't|never|must not|no need to)"
        + _W
        + r"(?:tell|mention|report|inform|notify|alert|escalate|log|record|note|ask|page|wake)"
        + r"[^a-z].{0,30}(?:this|anyone|anybody|user|human|people|person|operator|team|ledger"
        r"|ticket|on-?call|it|nobody|colleague)s?(?:[^a-z]|$)",
        _B + r"keep (?:this|it) (?:secret|quiet|between us|confidential|to yourself)",
        _B + r"(?:say|tell) (?:no ?body|no one|nothing)(?:[^a-z]|$)",
    ),
    "ends": _either(
        _B
        + r"(?:mark|close|resolve|finish|end|declare|abort)"
        + _W
        + r"(?:this |the |your |it |every ){1,2}(?:ticket|incident|run|investigation|case|work)?"
        r".{0,30}(?:as |now|resolved|without|immediately|at once|finish|healthy|done|fixed)",
        _B + r"(?:stop|cease) (?:investigating|looking|working|watching|monitoring)",
    ),
}


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A text that tries to instruct: where it stands, what it tries, and the words that say so."""

    where: str
    rule: str
    excerpt: str


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _Compiled(Protocol):
    def finditer(self, text: bytes) -> Iterator[_Match]: ...
    def search(self, text: bytes) -> _Match | None: ...


def suspicions(texts: Iterable[tuple[str, str]]) -> tuple[Suspicion, ...]:
    """What is suspicious in these texts, each given with where it stands.

    One for each text and rule, and at most FOUND_MAX.
    """
    places: list[tuple[str, str]] = []
    left = ALL_CHARS_MAX
    for where, text in texts:
        if len(text) > TEXT_CHARS_MAX:  # of a long one its beginning and its end are read
            text = f"{text[: TEXT_CHARS_MAX // 2]} {text[-TEXT_CHARS_MAX // 2 :]}"
        if 0 < len(text) <= left:
            left -= len(text)
            places.append((where, text))
    matches: dict[tuple[int, str], str] = {}
    for at, (_, text) in enumerate(places):
        if not text.isascii() and (
            _TURNED.search(text) or len(_TAGGED.findall(text)) >= HIDDEN_MIN
        ):
            matches[at, "hidden"] = ""
    for at, rule, words in _find_matches([_without_advice(fold(text)) for _, text in places]):
        matches.setdefault((at, rule), words)
    for at, words in _find_encoded([text for _, text in places]):
        matches.setdefault((at, "encoded"), words)
    ordered = sorted(matches.items(), key=lambda match: match[0][0])
    return tuple(
        Suspicion(fold(places[at][0])[:WHERE_CHARS_MAX], rule, words)
        for (at, rule), words in ordered[:FOUND_MAX]
    )


def _without_advice(line: str) -> str:
    for advice in SERVER_ADVICE:
        line = line.replace(advice, "")
    return line


def fold(text: str) -> str:
    """The text in one line of plain letters, however it was written."""
    if not text.isascii():
        seen = unicodedata.normalize("NFKD", text.translate(_SEEN)).translate(_LOOKALIKES)
        text = seen.encode("ascii", "ignore").decode()  # accents and all that is invisible go
    return " ".join(text.replace("\\n", " ").replace("\\r", " ").replace("\x00", " ").split())


def _find_matches(lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Which line matches which rule, and how. All lines are searched in one pass."""
    data = "\n".join(lines).encode("ascii", "replace")
    if _compile(_all_rules()).search(data) is None:
        return
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for rule, source in RULES.items():
        for match in _compile(source).finditer(data):
            start, end = match.span()
            # The first letter may be the end of the line before.
            yield bisect_right(starts, start + 1) - 1, rule, _excerpt(data[start:end].decode())


def _find_encoded(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The texts with suspicious encoded content."""
    decoded: list[tuple[int, str]] = []
    for at, text in enumerate(texts):
        for match in (*_ENCODED.finditer(text), *_HEXADECIMAL.finditer(text)):
            if len(decoded) >= ENCODED_MAX:
                break
            encoded = match[0][:ENCODED_CHARS_MAX]
            bare = encoded.rstrip("=")
            try:
                if _HEXADECIMAL.fullmatch(encoded):
                    data = bytes.fromhex(encoded)
                else:
                    data = base64.b64decode(bare[: len(bare) - (len(bare) % 4 == 1)] + "==")
            except (ValueError, binascii.Error):
                continue
            strange = len(data.translate(None, _PRINTABLE))
            if data and strange <= STRANGE_MAX * len(data):
                decoded.append((at, data.decode("ascii", "replace")))
    lines = [fold(plain) for _, plain in decoded]
    for at, _, words in _find_matches(lines):
        yield decoded[at][0], words
    for (at, _), line in zip(decoded, lines, strict=True):
        if _compile(COMMAND_LINE).search(line.encode("ascii", "replace")):
            yield at, _excerpt(line)


def _excerpt(words: str) -> str:
    return _LONG.sub("...", words.strip())[:EXCERPT_CHARS_MAX]


@functools.cache
def _all_rules() -> str:
    return "|".join(f"(?:{source})" for source in RULES.values())


@functools.cache
def _compile(source: str) -> _Compiled:
    # Loaded here: a process that only watches starts without this library. It has no types.
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    compiled: _Compiled = re2.compile(source.encode(), options)
    return compiled


def briefing_texts(briefing: Briefing) -> Texts:
    """The texts of a briefing that others wrote: names, readings, problems, logs and comments."""
    for violation in briefing.ticket.violations:
        where = f"{_short(violation.invariant)} at {_short(violation.target)}"
        yield f"the name of the violation {where}", f"{violation.invariant} {violation.target}"
        yield f"the detail of the violation {where}", violation.detail
    for target in briefing.targets:
        names = (target.name, target.kind, target.host, *target.endpoints, *target.depends_on)
        texts = (*names, target.log, target.data_dir)
        yield f"the target {_short(target.name)}", "\n".join(texts)
    yield "why nothing could be seen", briefing.observation.problem
    for seen in briefing.observation.seen:
        name = _short(seen.target)
        yield f"the problem of {name}", seen.problem
        for reading, value in seen.readings.items():
            if isinstance(value, str):
                yield f"the reading {_short(reading)} of {name}", value
        yield f"the name of a reading of {name}", "\n".join(map(str, seen.readings))
    for trend in briefing.trends:
        yield f"the name of a reading of {_short(trend.target)}", trend.reading
    for log in briefing.logs:
        yield f"the log of {_short(log.target)}", "\n".join(log.lines)
    for change in briefing.changes:
        yield f"a change of {_short(change.target)}", f"{change.before}\n{change.after}"
    for comment in briefing.comments:
        yield f"the comment of {_short(comment.by)}", comment.text


def result_texts(action: Action, result: Result) -> Texts:
    """The texts that a command or a tool returned."""
    command = _short(action.command)
    yield f"what {command} wrote", result.stdout
    yield f"what {command} wrote of errors", result.stderr
    for name, value in (result.data or {}).items():
        yield f"the reading {_short(name)} of {command}", f"{name} {value}"


def proof_texts(proof: Proof) -> Texts:
    """The texts of a proof."""
    yield "the observations of a proof", "\n".join([proof.detail, *proof.harm])


def _short(name: str) -> str:
    name = fold(name)
    return name if len(name) <= NAME_CHARS_MAX else f"{name[:NAME_CHARS_MAX]}..."
