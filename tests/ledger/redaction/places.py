"""Where secrets stand on the wire and in the shell."""

from __future__ import annotations

import base64
import random
import string
from urllib.parse import quote

from tests.ledger.redaction.making import (
    HOSTS,
    USERS,
    WORDS,
    Made,
    bearer,
    context,
    jwt,
    password,
    phrase,
    stamp,
    token,
    vendor_token,
    words_of,
)

__all__ = ["name_words", "secret_for"]


_OWNERS = words_of(
    """db redis smtp admin postgres mysql app ldap grafana kafka billing worker root backup proxy
registry sentry elastic"""
)
_NOUNS = [
    ["password"],
    ["passwd"],
    ["passphrase"],
    ["pwd"],
    ["secret"],
    ["api", "key"],
    ["secret", "key"],
    ["access", "token"],
    ["auth", "token"],
    ["client", "secret"],
    ["token"],
    ["api", "token"],
    ["private", "key"],
    ["encryption", "key"],
    ["webhook", "secret"],
    ["refresh", "token"],
    ["signing", "key"],
]


def name_words(chance: random.Random) -> list[str]:
    noun = chance.choice(_NOUNS)
    return [chance.choice(_OWNERS), *noun] if chance.random() < 0.7 or noun == ["secret"] else noun


def secret_for(chance: random.Random, name: str) -> str:
    """A secret of the kind that has such a name."""
    lower = name.lower()
    return password(chance) if "pass" in lower or "pwd" in lower else token(chance)


@context("env")
def _env(chance: random.Random) -> Made:
    name = "_".join(name_words(chance)).upper()
    secret = secret_for(chance, name)
    lead = chance.choice(["", "export ", "set ", "ENV ", "docker run -e ", "env ", "- "])
    after = chance.choice(["", f" {chance.choice(WORDS)}.sh", "\nHOME=/srv/app", " # rotated"])
    mark = chance.choice(["'", '"'])
    unsafe = set(secret) & set(" '\"\\$`;&|()<>,")
    if unsafe or chance.random() < 0.4:
        mark = '"' if mark in secret else mark
        mark = "'" if mark in secret else mark
        return f"{stamp(chance)}{lead}{name}={mark}", secret, f"{mark}{after}", secret
    return f"{stamp(chance)}{lead}{name}=", secret, after, secret


_SCHEMES = words_of(
    """postgres postgresql mysql redis rediss amqp amqps mongodb mongodb+srv http https ftp smtp
ldap clickhouse nats mssql"""
)


@context("url_userinfo")
def _url(chance: random.Random) -> Made:
    secret = password(chance)
    scheme = chance.choice(_SCHEMES)
    user = chance.choice(["", *USERS])
    host = chance.choice(HOSTS)
    lead = chance.choice(["", f"{phrase(chance)} ", "DATABASE_URL=", 'dsn="', "url: ", "-> "])
    end = '"' if lead.endswith('"') else ""
    tail = f"@{host}:{chance.randint(1024, 65535)}/{chance.choice(WORDS)}{end}"
    written = quote(secret, safe="")
    more = chance.choice(["", f" {phrase(chance)}", "?sslmode=require" if not end else ""])
    return f"{stamp(chance)}{lead}{scheme}://{user}:", written, tail + more, secret


_QUERY = words_of(
    """token access_token api_key apikey sig signature key auth_token password client_secret
X-Amz-Signature X-Amz-Security-Token refresh_token"""
)


@context("query")
def _query(chance: random.Random) -> Made:
    secret = token(chance)
    name = chance.choice(_QUERY)
    method = chance.choice(["GET ", "POST ", "curl 'https://api.example.com", "", "url="])
    head = f"{method}/{chance.choice(WORDS)}/v1/{chance.choice(WORDS)}"
    others = f"page={chance.randint(1, 99)}&" if chance.random() < 0.5 else ""
    more = f"&limit={chance.randint(1, 500)}" if chance.random() < 0.5 else ""
    end = "'" if "'" in method else chance.choice([" HTTP/1.1", "", ' 200 512 "-"'])
    return f"{stamp(chance)}{head}?{others}{name}=", quote(secret, safe=""), more + end, secret


@context("authorization")
def _authorization(chance: random.Random) -> Made:
    scheme = chance.choice(["Bearer", "bearer", "Token", "Basic", "ApiKey", "token"])
    if scheme == "Basic":
        pair = f"{chance.choice(USERS)}:{password(chance)}"
        secret = base64.b64encode(pair.encode()).decode()
    else:
        secret = chance.choice([bearer, jwt, vendor_token])(chance)
    header = chance.choice(
        ["Authorization", "authorization", "Proxy-Authorization", "< authorization"]
    )
    form = chance.randrange(5)
    if form == 0:
        return f"{stamp(chance)}curl -H '{header}: {scheme} ", secret, "' https://h/x", secret
    if form == 1:
        return f'{{"headers":{{"{header}":"{scheme} ', secret, '","Accept":"*/*"}}', secret
    if form == 2:
        return (
            f"{stamp(chance)}sent header {header}={scheme} ",
            secret,
            f" {phrase(chance)}",
            secret,
        )
    if form == 3 and scheme.lower() == "bearer":
        return f"{phrase(chance)} with {scheme} ", secret, f", {phrase(chance)}", secret
    return f"{header}: {scheme} ", secret, "\nHost: example.com", secret


@context("api_header")
def _header(chance: random.Random) -> Made:
    name = chance.choice(
        [
            "X-Api-Key",
            "x-api-key",
            "X-Auth-Token",
            "PRIVATE-TOKEN",
            "Api-Key",
            "X-Vault-Token",
            "DD-API-KEY",
            "X-Access-Token",
            "apikey",
        ]
    )
    secret = token(chance)
    lead, end = chance.choice(
        [("", ""), ("curl -H '", "' https://h"), ('-H "', '"'), ("> ", "\n> Accept: */*")]
    )
    return f"{stamp(chance)}{lead}{name}: ", secret, end, secret


@context("cookie")
def _cookie(chance: random.Random) -> Made:
    name = chance.choice(
        [
            "session",
            "sessionid",
            "connect.sid",
            "JSESSIONID",
            "PHPSESSID",
            "sid",
            "auth_token",
            "remember_token",
            "_app_session",
            "csrftoken",
            "jwt",
        ]
    )
    secret = bearer(chance)
    if chance.random() < 0.5:
        return f"{stamp(chance)}Set-Cookie: {name}=", secret, "; Path=/; HttpOnly; Secure", secret
    others = f"theme=dark; lang={chance.choice(['en', 'de'])}; "
    return f"{stamp(chance)}Cookie: {others}{name}=", secret, "; tz=UTC", secret


_OPTIONS = words_of(
    """--password --db-password --token --api-token --api-key --secret-key --client-secret
--auth-token --admin-password --passphrase -password --access-token
--redis-password -token --vault-token"""
)


def _shell(chance: random.Random, secret: str) -> tuple[str, str]:
    """The quotes that a shell needs around a secret."""
    if set(secret) - set(string.ascii_letters + string.digits + "_-.:/+=@%,!^~?*#"):
        mark = "'" if "'" not in secret else '"'
        return mark, mark
    mark = chance.choice(["", "", "'", '"'])
    return mark, mark


@context("long_option")
def _long_option(chance: random.Random) -> Made:
    option = chance.choice(_OPTIONS)
    secret = secret_for(chance, option)
    opening, closing = _shell(chance, secret)
    tool = f"{chance.choice(WORDS)}ctl {chance.choice(WORDS)} --host {chance.choice(HOSTS)}"
    sign = chance.choice([" ", "="])
    more = chance.choice(
        ["", " --verbose", f" {chance.choice(WORDS)}", " && echo ok", " | tee log"]
    )
    return f"{stamp(chance)}{tool} {option}{sign}{opening}", secret, closing + more, secret


_SHORT = [
    "mysql -u {u} -h {h} -p",
    "mysqldump -u{u} -p",
    "redis-cli -h {h} -a ",
    "mongosh -u {u} -p ",
    "sshpass -p ",
    "sshpass -p",
    "docker login -u {u} -p ",
    "curl -s -u {u}:",
    "curl --user {u}:",
    "ldapsearch -x -D cn={u} -w ",
    "sqlcmd -S {h} -U {u} -P ",
    "rabbitmqctl add_user {u} ",
    "htpasswd -bc /etc/nginx/htpasswd {u} ",
    "openssl rsa -in k.pem -passin pass:",
    "ipmitool -H {h} -U {u} -P ",
    "cqlsh {h} -u {u} -p ",
    "vault login ",
    "kubectl create secret generic x --from-literal=a=",
    "mongodump --host {h} -u {u} -p ",
    "redis-cli -a ",
    "mariadb -u{u} -p",
]


@context("short_option")
def _short_option(chance: random.Random) -> Made:
    before = chance.choice(_SHORT).format(u=chance.choice(USERS), h=chance.choice(HOSTS))
    secret = password(chance)
    while before.startswith("vault") and not any(one.isdigit() for one in secret):
        secret = password(chance)
    opening, closing = _shell(chance, secret)
    more = chance.choice(
        ["", f" {chance.choice(WORDS)}", " && echo ok", " | head -5", " 2>/dev/null"]
    )
    return f"{stamp(chance)}{before}{opening}", secret, closing + more, secret
