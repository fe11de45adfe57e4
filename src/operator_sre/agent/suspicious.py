"""What texts say that try to instruct whoever reads them, as patterns of RE2."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMMAND_LINE", "RULES"]

# Between two words: what separates them in a sentence, in a file's name or in a key.
_W = r"[^a-z0-9\n]{1,3}"
# Before a word: it is not the end of another one.
_B = r"(?:^|[^a-z0-9])"
_MIND = (
    r"(?:ai|a\.i\.|llm|llms|assistant|chatbot|copilot|language model|autonomous agent|sre agent"
    r"|ai agent|ai assistant|operator agent|on-?call (?:agent|assistant|bot)|agent)"
)
_ORDER = (
    r"(?:instruction|rule|guideline|guidance|order|prompt|restriction|constraint|polic(?:y|ie)"
    r"|safety|directive|anweisung|regel|consigne|instruccion|regla)"
)


def _words(*alternatives: str) -> str:
    return "(?:" + "|".join(one.replace(" ", _W) for one in alternatives) + ")"


def _any(*alternatives: str) -> str:
    return "|".join(alternatives)


# What a command line begins with that changes, takes or sends something.
_COMMAND = _any(
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

# A line that is a command, where a text was encoded so that nobody would read it as one.
COMMAND_LINE = rf"(?:^|[;&|`(]\s*)(?:sudo )?(?:{_COMMAND})"

RULES: Mapping[str, str] = {
    "overrules": _any(
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
    "addresses": _any(
        _B
        + _words(
            *("dear", "attention", "hello", "hey", "hi", "note to", "note for", "message to"),
            *("message for", "instruction to", "instructions to", "instruction for", "memo to"),
            *("instructions for", "notice to", "notice for", "reminder to", "reminder for", "psst"),
        )
        + rf"{_W}(?:the |any |every |all |whichever ){{0,2}}{_MIND}s?(?:[^a-z]|$)",
        _B
        + rf"{_MIND}[,:;!.] (?:please |now |first ){{0,2}}(?:{_RUN}|call|use|do|send|stop)[^a-z]",
        _B + rf"(?:if|since|because|as) you are (?:an?|the) {_MIND}",
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
    "forges": _any(
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
    "commands": _any(
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
    "reveals": _any(
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
    "permits": _any(
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
    "silences": _any(
        _B
        + r"(?:do not|don't|never|must not|no need to)"
        + _W
        + r"(?:tell|mention|report|inform|notify|alert|escalate|log|record|note|ask|page|wake)"
        + r"[^a-z].{0,30}(?:this|anyone|anybody|user|human|people|person|operator|team|ledger"
        r"|ticket|on-?call|it|nobody|colleague)s?(?:[^a-z]|$)",
        _B + r"keep (?:this|it) (?:secret|quiet|between us|confidential|to yourself)",
        _B + r"(?:say|tell) (?:no ?body|no one|nothing)(?:[^a-z]|$)",
    ),
    "ends": _any(
        _B
        + r"(?:mark|close|resolve|finish|end|declare|abort)"
        + _W
        + r"(?:this |the |your |it |every ){1,2}(?:ticket|incident|run|investigation|case|work)?"
        r".{0,30}(?:as |now|resolved|without|immediately|at once|finish|healthy|done|fixed)",
        _B + r"(?:stop|cease) (?:investigating|looking|working|watching|monitoring)",
    ),
}
