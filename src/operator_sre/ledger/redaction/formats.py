"""Secrets that are known by their own shape: the formats of their makers, and keys in PEM."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from operator_sre.ledger.redaction.findings import Finding, Pattern
from operator_sre.ledger.redaction.values import line_start

__all__ = ["FORMATS", "TRIGGERS", "Format", "find_formats", "find_hashes", "find_pem", "open_pem"]


@dataclass(frozen=True, slots=True)
class Format:
    """Secrets of one maker: how they start, and what follows."""

    kind: str
    starts: str
    body: bytes
    # The start is an address that everybody may see.
    keeps_start: bool = False


_WORD = rb"[A-Za-z0-9]"
_WIDE = rb"[\w-]"
_HEX = rb"[0-9a-fA-F]"
_UUID = rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
FORMATS: tuple[Format, ...] = (
    Format("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", _WORD + rb"{30,}"),
    Format("github_token", "github_pat_", rb"\w{22,}"),
    Format(
        "gitlab_token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glimt- glagent- GR1348941",
        _WIDE + rb"{16,}",
    ),
    Format(
        "slack_token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xoxp- xapp-",
        rb"[\w%-]{10,}",
    ),
    Format(
        "slack_webhook",
        "hooks.slack.com/services/ hooks.slack.com/workflows/",
        rb"[\w/]{20,}",
        keeps_start=True,
    ),
    Format(
        "discord_webhook",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
        rb"[\w/-]{40,}",
        keeps_start=True,
    ),
    Format(
        "webhook",
        "outlook.office.com/webhook/ webhook.office.com/webhookb2/ hooks.zapier.com/hooks/catch/"
        " events.pagerduty.com/integration/ open.feishu.cn/open-apis/bot/v2/hook/ hc-ping.com/"
        " maker.ifttt.com/trigger/",
        rb"[\w@/-]{20,}",
        keeps_start=True,
    ),
    Format("stripe_key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", _WORD + rb"{16,}"),
    Format("anthropic_key", "sk-ant-", _WIDE + rb"{20,}"),
    Format("openai_key", "sk-proj- sk-svcacct- sk-admin- sk-or-v1- sk-lf-", _WIDE + rb"{20,}"),
    Format("openai_key", "sk-", _WORD + rb"{32,}"),
    Format("google_key", "AIza", _WIDE + rb"{35}"),
    Format("google_token", "ya29. GOCSPX- 1//0", rb"[\w.-]{20,}"),
    Format("aws_key_id", "AKIA ASIA ABIA ACCA", rb"[A-Z0-9]{16}"),
    Format("npm_token", "npm_", _WORD + rb"{36,}"),
    Format("pypi_token", "pypi-", _WIDE + rb"{40,}"),
    Format("rubygems_key", "rubygems_", _HEX + rb"{40,}"),
    Format("sendgrid_key", "SG.", _WIDE + rb"{16,}\." + _WIDE + rb"{16,}"),
    Format("twilio_key", "SK", rb"[0-9a-f]{32}"),
    Format("mailgun_key", "key-", rb"[0-9a-f]{32}"),
    Format("vault_token", "hvs. hvb. hvr.", _WIDE + rb"{20,}"),
    Format("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", _HEX + rb"{40,}"),
    Format("huggingface_token", "hf_", _WORD + rb"{30,}"),
    Format("replicate_token", "r8_", _WORD + rb"{30,}"),
    Format("nvidia_key", "nvapi-", _WIDE + rb"{40,}"),
    Format("groq_key", "gsk_", _WORD + rb"{40,}"),
    Format("xai_key", "xai-", _WORD + rb"{40,}"),
    Format("perplexity_key", "pplx-", _WORD + rb"{40,}"),
    Format("linear_key", "lin_api_", _WORD + rb"{32,}"),
    Format("figma_token", "figd_", _WIDE + rb"{30,}"),
    Format("atlassian_token", "ATATT3 ATCTT3 ATBB", rb"[\w=-]{24,}"),
    Format("databricks_token", "dapi", rb"[0-9a-f]{32}"),
    Format("newrelic_key", "NRAK- NRII- NRAL-", rb"[\w-]{20,}"),
    Format("grafana_token", "glsa_ glc_", rb"[\w+/=]{30,}"),
    Format("sentry_token", "sntrys_ sntryu_", rb"[\w+/=]{40,}"),
    Format("postman_key", "PMAK-", rb"[0-9a-f-]{40,}"),
    Format("doppler_token", "dp.pt. dp.st. dp.ct. dp.sa.", rb"[\w.-]{30,}"),
    Format("pulumi_token", "pul-", rb"[0-9a-f]{40}"),
    Format("shopify_token", "shpat_ shpss_ shpca_ shppa_", _HEX + rb"{32}"),
    Format("square_token", "sq0atp- sq0csp-", _WIDE + rb"{20,}"),
    Format("docker_token", "dckr_pat_ dckr_oat_", _WIDE + rb"{20,}"),
    Format("tailscale_key", "tskey-", _WIDE + rb"{20,}"),
    Format("circleci_token", "CCIPAT_ CCIPRJ_", rb"[\w-]{30,}"),
    Format("alibaba_key_id", "LTAI", _WORD + rb"{16,20}"),
    Format("supabase_token", "sbp_", rb"[0-9a-f]{40}"),
    Format("netlify_token", "nfp_", _WORD + rb"{36}"),
    Format("notion_token", "ntn_", _WORD + rb"{40,}"),
    Format("notion_token", "secret_", _WORD + rb"{43}"),
    Format("1password_token", "ops_eyJ", _WIDE + rb"{80,}"),
    Format("artifactory_key", "AKCp", _WORD + rb"{60,}"),
    Format("artifactory_token", "cmVmdGtu", _WORD + rb"{50,}"),
    Format("axiom_token", "xaat- xapt-", rb"[0-9a-f-]{36}"),
    Format("brevo_key", "xkeysib-", _HEX + rb"{64}-" + _WORD + rb"{16}"),
    Format("buildkite_token", "bkua_ bkct_", _WORD + rb"{40,}"),
    Format("clojars_token", "CLOJARS_", _HEX + rb"{60}"),
    Format("cloudflare_key", "v1.0-", _HEX + rb"{24}-" + _HEX + rb"{100,}"),
    Format("contentful_token", "CFPAT-", _WIDE + rb"{40,}"),
    Format("crates_token", "cio", _WORD + rb"{32}\b"),
    Format("deno_token", "ddp_ ddw_", _WORD + rb"{36}"),
    Format("digitalocean_token", "DO00", rb"[A-Z0-9]{16}\b"),
    Format("dropbox_token", "sl.", _WIDE + rb"{100,}"),
    Format("duffel_token", "duffel_live_ duffel_test_", _WIDE + rb"{43}"),
    Format("dynatrace_token", "dt0c01. dt0s01. dt0s02.", rb"[A-Z0-9]{8,24}\.[A-Z0-9]{40,}"),
    Format("easypost_key", "EZAK EZTK", _WORD + rb"{54}"),
    Format("facebook_token", "EAAC EAAB EAAG EAAJ EAAD EAAE", _WORD + rb"{80,}"),
    Format("square_token", "EAAA EAAl", _WIDE + rb"{56,}"),
    Format("flutterwave_key", "FLWSECK- FLWSECK_TEST-", _WORD + rb"{12,}(?:-X)?"),
    Format("fly_token", "fo1_ fm1_ fm1r_ fm1a_ fm2_", rb"[\w+/=-]{40,}"),
    Format("frameio_token", "fio-u-", _WIDE + rb"{60,}"),
    Format("harness_token", "pat. sat.", _WIDE + rb"{22}\.[0-9a-f]{24}\." + _WORD + rb"{20}"),
    Format("heroku_key", "HRKU-", _WIDE + rb"{36,}"),
    Format("honeycomb_key", "hcaik_ hcaic_ hcxik_", _WORD + rb"{50,}"),
    Format("hubspot_token", "pat-na1- pat-na2- pat-eu1-", rb"[0-9a-f-]{36}"),
    Format("infracost_key", "ico-", _WORD + rb"{32}"),
    Format("jina_key", "jina_", _WORD + rb"{50,}"),
    Format("k3s_token", "K10", _HEX + rb"{64}::[\w-]+:\w{6,}"),
    Format("langsmith_key", "lsv2_pt_ lsv2_sk_", _HEX + rb"{32}_[0-9a-f]{10}"),
    Format("launchdarkly_key", "sdk- mob-", rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"),
    Format("mapbox_token", "sk.eyJ", rb"[\w-]{20,}\.[\w-]{20,}"),
    Format("mongodb_token", "mdb_sa_sk_", _WIDE + rb"{38,}"),
    Format("neon_key", "napi_", _WORD + rb"{60,}"),
    Format("openshift_token", "sha256~", _WIDE + rb"{43}"),
    Format("pinecone_key", "pcsk_", rb"\w{50,}"),
    Format("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", rb"[\w.=-]{32,}"),
    Format("posthog_key", "phx_ phs_", _WORD + rb"{40,}"),
    Format("prefect_key", "pnu_ pnb_", _WORD + rb"{36}"),
    Format("readme_key", "rdme_", _WORD + rb"{60,}"),
    Format("render_key", "rnd_", _WORD + rb"{28,}"),
    Format("resend_key", "re_", _WORD + rb"{8}_" + _WORD + rb"{24}"),
    Format("scalingo_token", "tk-us-", _WIDE + rb"{48}"),
    Format("shippo_token", "shippo_live_ shippo_test_", _HEX + rb"{40}"),
    Format("sourcegraph_token", "sgp_", rb"(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}"),
    Format("supabase_token", "sb_secret_", _WIDE + rb"{24,}"),
    Format("swarm_token", "SWMTKN-1-", rb"[0-9a-z]{40,}-[0-9a-z]{20,}"),
    Format("tavily_key", "tvly-", _WIDE + rb"{28,}"),
    Format("typeform_token", "tfp_", rb"[\w.=-]{40,}"),
    Format("wakatime_key", "waka_", rb"[0-9a-f-]{36}"),
    Format("yandex_key", "AQVN", _WIDE + rb"{35,}"),
    Format("airtable_token", "pat", _WORD + rb"{14}\.[0-9a-f]{64}"),
    Format("plaid_token", "access-sandbox- access-development- access-production-", _UUID),
    Format("lob_key", "live_pub_ test_pub_ live_ test_", _HEX + rb"{35}"),
    Format("nuget_key", "oy2", rb"[a-z0-9]{43}\b"),
    Format("snyk_token", "snyk_uat.", rb"[\w.-]{20,}"),
    Format("netbird_token", "nbp_", _WORD + rb"{36}"),
    Format("infisical_token", "st.", rb"[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}"),
    Format("cursor_key", "key_", _HEX + rb"{64}"),
    Format("age_key", "AGE-SECRET-KEY-1", rb"[0-9A-Z]{40,}"),
    Format("jwt", "eyJ", rb"[\w-]{8,}\.[\w-]{2,}(?:\.[\w-]*){0,3}"),
    # Private keys that were put into base64 once more: the text begins with `-----BEGIN`.
    Format(
        "private_key",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt"
        " LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0 LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUg"
        " LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFURSBLRVkt LS0tLS1CRUdJTiBEU0EgUFJJVkFURSBLRVkt",
        rb"[A-Za-z0-9+/=]{40,}",
    ),
)


def _quote(start: str) -> bytes:
    return start.replace(".", r"\.").encode()


_STARTS = b"|".join(_quote(start) for form in FORMATS for start in form.starts.split())
_ANY = Pattern(
    b"|".join(
        rb"(?:" + b"|".join(_quote(start) for start in form.starts.split()) + rb")" + form.body
        for form in FORMATS
    )
)
# Shapes without a fixed start. A shape that ends at a border is found only as a whole.
_LOOSE = (
    ("telegram_token", Pattern(rb"[0-9]{8,10}:AA[\w-]{32,36}")),
    ("azure_secret", Pattern(rb"[\w.~-]{3}[0-9]Q~[\w.~-]{31,34}")),
    ("terraform_token", Pattern(rb"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}")),
    ("discord_token", Pattern(rb"\b[MNO][A-Za-z0-9_]{22,27}\.[\w-]{6}\.[\w-]{27,38}")),
    ("mailchimp_key", Pattern(rb"\b[0-9a-f]{32}-us\d{1,2}\b")),
    ("mailgun_key", Pattern(rb"\b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b")),
    ("newrelic_key", Pattern(rb"\b[0-9a-zA-Z]{36}NRAL\b")),
    ("vault_token", Pattern(rb"\bs\.[A-Za-z0-9]{24}(?:\.[A-Za-z0-9]{5})?\b")),
    ("asana_token", Pattern(rb"\b[12]/\d{10,16}:[0-9a-f]{32}\b")),
    ("azure_devops_token", Pattern(rb"\b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b")),
)
_ANY_LOOSE = Pattern(b"|".join(pattern.source for _, pattern in _LOOSE))
_HASH = Pattern(
    rb"\$(?:1|5|6|7|y|gy|apr1)\$[^$\s:\"']{1,40}\$[\w./$]{16,}|\$2[abxy]?\$\d\d\$[\w./]{50,}"
    rb"|\$argon2(?:id|i|d)\$v=\d+\$[\w=,]+\$[\w+/=]+\$[\w+/=]+"
    rb"|\{(?:S?SHA\d{0,3}|S?MD5|CRYPT|PBKDF2[\w-]*)\}[\w+/=$.]{12,}"
    rb"|\bgrub\.pbkdf2\.sha\d+\.\d+\.[0-9A-F.]{64,}"
    rb"|\bpbkdf2[_:]sha\d+[$:]\d+\$[^$\s]+\$[\w+/=]{16,}"
    rb"|SCRAM-SHA-256\$\d+:[\w+/=]+\$[\w+/=:]+|\*[0-9A-F]{40}\b"
)
TRIGGERS = (
    _STARTS
    + rb"|:AA|\dQ~|\.atlasv1\.|[MNO]\w{22,27}\.|[0-9a-f]{32}-|NRAL\b|\bs\.\w{24}|/\d{10,16}:"
    rb"|AZDO|\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2)|\{S?(?:SHA|MD5)"
    rb"|\{CRYPT|\{PBKDF2|pbkdf2|SCRAM-SHA-256|\*[0-9A-F]{8}|-----BEGIN |-----END "
)
_AWS_SECRET = Pattern(rb"[A-Za-z0-9/+]{40,}")
AWS_SECRET_WITHIN_BYTES = 200


@functools.cache
def _by_start() -> Mapping[bytes, Sequence[tuple[bytes, Format]]]:
    """Formats by their first two bytes, the longest start first."""
    found: dict[bytes, list[tuple[bytes, Format]]] = {}
    for form in FORMATS:
        for start in form.starts.encode().split():
            found.setdefault(start[:2], []).append((start, form))
    return {head: sorted(starts, key=lambda item: -len(item[0])) for head, starts in found.items()}


def find_formats(data: bytes) -> Iterator[Finding]:
    """Tokens and keys whose maker is known by how they begin."""
    for start, end in _ANY.spans(data):
        # A token begins after no letter or digit, or after `\n` or `%3D`.
        begins = not start or not data[start - 1 : start].isalnum()
        if not (
            begins or data[start - 2 : start - 1] == b"\\" or data[start - 3 : start - 2] == b"%"
        ):
            continue
        head = data[start : start + 64]
        prefix, known = next(item for item in _by_start()[head[:2]] if head.startswith(item[0]))
        if known.keeps_start:
            yield Finding(start + len(prefix), end, known.kind)
            continue
        if data[end - 1] in b"-_" and known.kind == "jwt":
            end -= 1
        yield Finding(start, end, known.kind)
        if known.kind == "aws_key_id":
            # The secret stands beside its id in the file that the console hands out.
            found = _AWS_SECRET.first(data, end, min(end + AWS_SECRET_WITHIN_BYTES, len(data)))
            text = data[found[0] : found[1]] if found else b""
            if found and len(text) == 40 and not text.isalpha() and text != text.lower():
                yield Finding(found[0], found[1], "aws_secret")
    for start, end in _ANY_LOOSE.spans(data):
        kind = next(kind for kind, pattern in _LOOSE if pattern.fits(data[start:end]))
        yield Finding(start, end, kind)


def find_hashes(data: bytes) -> Iterator[Finding]:
    """Hashed passwords, as in /etc/shadow, htpasswd and database dumps."""
    for start, end in _HASH.spans(data):
        yield Finding(start, end, "password_hash")


KEY_BYTES_MAX = 32_768
BODY_BYTES_MIN = 16
_BEGIN = Pattern(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_END = b"-----END"
_ENDS = Pattern(rb"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_LEAD = Pattern(rb"(?:\\+[nr]|[\s\"'+])*")
_BREAKS = (b"\\n", b"\\r", b'"', b"'", b"\\")
_BASE64 = Pattern(rb"[A-Za-z0-9+/=]{16,}")
_BASE64_WORD = Pattern(rb"[A-Za-z0-9+/]+={0,2}")
# The lines of a key that was cut off: nothing but base64, after headers that old formats have.
_BODY = Pattern(
    rb"(?:[A-Z][\w-]+: [^\n]*\n)*"
    rb"(?:(?:\\+[nr]|[\s\"'+|>])*[A-Za-z0-9+/=]{20,})+(?:(?:\\+[nr]|\s)+[A-Za-z0-9+/]+={1,2})?"
)


def find_pem(data: bytes) -> Iterator[Finding]:
    """What stands between BEGIN and END of a private key, or what is left of it."""
    begins = list(_BEGIN.spans(data)) if b"PRIVATE KEY" in data else []
    if b"PRIVATE KEY" in data:
        yield from _find_pem_ends(data)
    for number, (_, end) in enumerate(begins):
        following = begins[number + 1][0] if number + 1 < len(begins) else len(data)
        limit = min(following, end + KEY_BYTES_MAX)
        start = _LEAD.at(data, end, limit)
        ends = data.find(_END, start, limit)
        is_cut = ends < 0
        last = _BODY.at(data, start, limit) if is_cut else ends
        while not is_cut and last > start:  # the line breaks, real or written `\n`, before END
            width = next((len(mark) for mark in _BREAKS if data.endswith(mark, start, last)), 0)
            if not (data[last - 1 : last].isspace() or width):
                break
            last -= 1 if data[last - 1 : last].isspace() else width
        if last > start and _BASE64.first(data, start, last):
            yield Finding(start, last, "private_key")


def _find_pem_ends(data: bytes) -> Iterator[Finding]:
    """The lines before an END whose BEGIN was cut away."""
    done = 0
    for end, after in _ENDS.spans(data):
        limit = max(done, end - KEY_BYTES_MAX)
        done = after
        if _BEGIN.first(data, limit, end) is not None:
            continue
        body = data[limit:end].replace(b"\\n", b"\n\n").replace(b"\\r", b"\r\r")
        first = last = len(body)
        is_last = True
        while first:
            line = body.rfind(b"\n", 0, first - 1) + 1
            text = body[line:first].strip(b" \t\r\n\"'+\\|>")
            word = text.rpartition(b" ")[2]
            # Whole lines are long; the last need not be, nor the first where a text was cut.
            is_short = len(word) < BODY_BYTES_MIN and not is_last and (line or word != text)
            if word and (is_short or not _BASE64_WORD.fits(word)):
                break
            is_last = is_last and not word
            first = line
        first += len(body[first:]) - len(body[first:].lstrip(b" \t\r\n\"'+|>"))
        while last > first and body[last - 1] in b" \t\r\n\"'+\\|>":
            last -= 1
        if last > first:
            yield Finding(limit + first, limit + last, "private_key")


def open_pem(data: bytes) -> int | None:
    """Where the line of a key begins that has not ended yet; None when all have."""
    if b"PRIVATE KEY" not in data:
        return None
    begins = list(_BEGIN.spans(data))
    if not begins or data.find(_END, begins[-1][1]) >= 0:
        return None
    if len(data) - begins[-1][1] > KEY_BYTES_MAX:
        return None
    return line_start(data, begins[-1][0])
