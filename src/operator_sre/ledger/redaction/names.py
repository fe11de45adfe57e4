"""Which names are names of secrets, and how much such a name proves about its value."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["NAME", "NOTHING", "ORDINARY", "STEMS", "TECHNICAL", "Name", "Trust", "name_of"]

# Never a secret, wherever it stands. `changeme` is not here: it is a password in use.
NOTHING = frozenset(
    b"null none nil undefined empty unset missing true false yes no on off enabled disabled"
    b" required optional string str text boolean bool int integer number object array any"
    b" unknown n/a na not-set notset not_set unavailable hidden masked redacted filtered removed"
    b" omitted sensitive protected unchanged".split()
)

# A secret only where nothing but a value can stand.
ORDINARY = NOTHING | frozenset(
    # what happens to passwords and tokens
    b"invalid valid incorrect correct wrong expired expires expiring expiry change changed changing"
    b" changes reset resets updated update set rotated rotate rotation revoked revoke failed fails"
    b" fail failure success succeeded successful accepted rejected denied granted allowed blocked"
    b" refused used reused unused found present absent created deleted verified validated refreshed"
    b" generated provided given specified supplied configured stored encrypted decrypted encoded"
    b" decoded hashed signed issued mounted loaded read written sent received requested"
    b" authenticated unauthenticated authorized unauthorized forbidden mismatch match matches"
    b" matched malformed corrupt locked unlocked leaked exposed compromised scanned detected"
    b" skipped ignored retry retrying pending ready done ok okay error errors warning warn info"
    b" debug fatal notice passed obtained acquired returned fetched cached"
    # what they are
    b" pwd pw keyfile passfile authentication authorization auth bearer basic digest jwt oauth"
    b" oauth2 saml ldap kerberos"
    b" gssapi password passwd passwords secret secrets token tokens key keys credential"
    b" credentials username user users login logout session cookie cookies file files path env"
    b" environment variable variables vault keychain keyring stdin stdout input output prompt"
    b" interactive manual automatic auto plaintext plain base64 hex json yaml bytes char varchar"
    b" field column value values name names type id url uri header headers parameter param option"
    b" options flag argument config configuration setting settings policy rule length minimum"
    b" maximum min max characters chars digits letters lowercase uppercase symbols special strength"
    b" weak strong short long self this cls data body payload access refresh identity management"
    b" manager store storage provider backend service services account accounts role roles"
    b" scram-sha-256 md5 trust peer ident cert pam radius native caching_sha2_password opaque"
    b" literal expression identifier keyword operator eof newline end start optional[str] secretstr"
    b" option vec list dict map set tuple char* const let var new return await async def func"
    b" function class struct enum interface public private static final void self.password"
    # what sentences are made of
    b" a an the is was are were be been being has have had do does did not for from to of in at by"
    b" with without and or but if when while then than as on via into onto over under about after"
    b" before during until since because so that which who whom whose what where why how it its"
    b" they them their there these those we our us you your i my me he she his her all any each"
    b" every some no none only also just still already never always again once twice here now"
    b" today later soon please must should shall may might can cannot could will would need needs"
    b" needed see use using uses check try contact ask check-in make sure let too very more less"
    b" most least other another same different first last next previous old current default"
    b" example sample both either neither out up down off back via per".split()
)

# Terms with digits in them, alone or as the first part of a longer one: sha256-hashed.
TECHNICAL = (
    b"md[45]",
    b"hmac-?sha-?\\d*",
    b"sha-?(?:1|2|3|224|256|384|512)",
    b"utf-?(?:8|16|32)",
    b"base-?(?:32|58|64)",
    b"oauth-?[12]?(?:\\.0)?",
    b"http/?[123]?",
    b"ipv[46]",
    b"k[38]s",
    b"s3",
    b"ec2",
    b"rds",
    b"x\\.?509",
    b"ed25519",
    b"p-?(?:256|384|521)",
    b"(?:rs|hs|es|ps)(?:256|384|512)",
    b"argon2(?:id?|d)?",
    b"bcrypt",
    b"scrypt",
    b"pbkdf2",
    b"aes-?(?:128|192|256)?",
    b"[23]fa",
    b"tlsv?1?(?:\\.[0-3])?",
    b"pkcs#?(?:1|5|7|8|11|12)",
    b"p12",
    b"rfc\\d+",
    b"iso-?8601",
    b"log4j\\d?",
    b"python[23]?",
    b"php[5-8]?",
    b"node\\d{0,2}",
    b"win(?:32|64)",
    b"x86(?:_64)?",
    b"amd64",
    b"arm64",
    b"i18n",
    b"l10n",
    b"e2e",
    b"h2",
    b"web3",
    b"ntlmv?[12]?",
    b"smbv?[123]?",
    b"mysql[58]?",
    b"pg\\d{0,2}",
    b"us-(?:east|west)-\\d\\w?",
    b"eu-(?:west|central|north)-\\d\\w?",
    b"ap-\\w+-\\d\\w?",
)


NAME_BYTES_MAX = 128
# Every name of a secret holds one of these; the detectors look for them first.
STEMS = (
    rb"passw|passphrase|passcode|pass|pwd|pswd|bindpw|rootpw|userpw|[_-]pw|\bpw\b|kennwort|secret"
    rb"|token|jwt|key|auth|cred|sessionid|sessid|\bsid\b|psk|pepper|sig(?:nature)?|bearer|community"
    rb"|license|\bseed\b|cookie|refresh|assertion|csrf|xsrf|\bcrumb|\bencrypt\b"
)

# A name that may be one, with a word before it that is written apart.
NAME = (
    rb"(?:(?:api|access|account|secret|private|encryption|signing|master|shared|auth|unseal"
    rb"|recovery|storage|license|webhook|root|client|activation|preshared|pre-shared) )?"
    rb"[\w.$-]*(?:" + STEMS + rb")[\w.-]*(?: ID\b)?"
)


class Trust(IntEnum):
    """What a value must be for its name to make it a secret."""

    MADE = 0  # it is random beyond doubt, and no UUID
    RANDOM = 1  # it looks as if a machine had made it
    CHOSEN = 2  # or as if a person had chosen it: letters with digits or signs
    SAID = 3  # or words with dashes and a digit, where no object has such a name
    ANY = 4  # anything but a placeholder


@dataclass(frozen=True, slots=True)
class Name:
    """A name of secrets: what they are, and what a value must be."""

    kind: str
    trust: Trust


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PASSWORD = Name("password", Trust.ANY)
_TOKEN = Name("token", Trust.CHOSEN)
_SECRET = Name("secret", Trust.ANY)
_KEY = Name("api_key", Trust.ANY)

# The last word of a name says what it names: PASSWORD_FILE is a file.
_LAST = {
    "password": _PASSWORD,
    "passwords": _PASSWORD,
    "passwd": _PASSWORD,
    "passphrase": _PASSWORD,
    "passcode": _PASSWORD,
    "passwort": _PASSWORD,
    "kennwort": _PASSWORD,
    "pwd": _PASSWORD,
    "pswd": _PASSWORD,
    "pw": Name("password", Trust.SAID),
    "pass": Name("password", Trust.SAID),
    "psk": _PASSWORD,
    "requirepass": _PASSWORD,
    "masterauth": _PASSWORD,
    "bindpw": _PASSWORD,
    "rootpw": _PASSWORD,
    "userpw": _PASSWORD,
    # Alone it is as often the name of a Kubernetes object as it is a secret.
    "secret": Name("secret", Trust.CHOSEN),
    "pepper": Name("secret", Trust.RANDOM),
    "token": _TOKEN,
    "jwt": Name("token", Trust.RANDOM),
    "bearer": Name("token", Trust.RANDOM),
    "auth": Name("credential", Trust.RANDOM),
    "authorization": Name("credential", Trust.RANDOM),
    "credential": Name("credential", Trust.RANDOM),
    "credentials": Name("credential", Trust.RANDOM),
    "creds": Name("credential", Trust.RANDOM),
    "dockerconfigjson": Name("credential", Trust.RANDOM),
    "dockercfg": Name("credential", Trust.RANDOM),
    "sessionid": Name("session", Trust.RANDOM),
    "sid": Name("session", Trust.MADE),
    "seed": Name("secret", Trust.MADE),
    "cookie": Name("session", Trust.MADE),
    "refresh": Name("token", Trust.MADE),
    "assertion": Name("token", Trust.MADE),
    "csrf": Name("token", Trust.MADE),
    "crumb": Name("token", Trust.MADE),
    "xsrf": Name("token", Trust.MADE),
    "encrypt": Name("secret", Trust.MADE),
    "sessid": Name("session", Trust.RANDOM),
    "phpsessid": Name("session", Trust.RANDOM),
    "jsessionid": Name("session", Trust.RANDOM),
    "storepass": _PASSWORD,
    "keypass": _PASSWORD,
    "masterpass": _PASSWORD,
    "community": Name("secret", Trust.SAID),
    "sig": Name("signature", Trust.RANDOM),
    "signature": Name("signature", Trust.RANDOM),
}
# A word that ends like this, as in PGPASSWORD, authtoken, clientsecret.
_ENDS = (
    ("password", _PASSWORD),
    ("passwd", _PASSWORD),
    ("passphrase", _PASSWORD),
    ("secret", _SECRET),
    ("apikey", _KEY),
    ("secretkey", _SECRET),
    ("accesskey", _SECRET),
    ("privatekey", Name("private_key", Trust.ANY)),
    ("apitoken", _TOKEN),
    ("community", Name("secret", Trust.CHOSEN)),
    ("license", Name("api_key", Trust.MADE)),
    ("appkey", _KEY),
    ("authkey", Name("api_key", Trust.CHOSEN)),
    ("presharedkey", _SECRET),
    ("authtoken", _TOKEN),
    ("accesstoken", _TOKEN),
    ("refreshtoken", _TOKEN),
    ("identitytoken", _TOKEN),
    ("pwd", _PASSWORD),
)
_PASS_OWNERS = _set(
    "admin bind broker db database elastic ftp http imap jdbc key ldap login mail mongo mq my mysql"
    " pg pop postgres proxy rabbitmq redis root sasl sftp smtp sql ssh ssl store sudo trust user"
    " vault vnc vpn web auth chap ppp wifi become rpc git svn nexus registry docker es db1 app"
)
# A key is a secret by what it opens; primary, cache, partition and public keys open nothing.
_KEY_OWNERS = _set(
    "access account admin api app application auth authentication aws client consumer crypto"
    " decryption deploy encryption hmac ingest ingestion integration jwt license master mac"
    " private rsa secret service sas session shared signing ssh storage subscription unseal"
    " recovery vault webhook write aes cipher fernet preshared activation instrumentation"
)
# These keys are found everywhere in ordinary text, and often end in something random.
_NOT_KEYS = _set(
    "public pub primary foreign partition partitioning sort cache host object row record group lock"
    " map hash hot dict dictionary index lookup shard sharding idempotency dedup deduplication"
    " correlation message tracking registry event translation i18n gpg pgp composite natural"
    " surrogate unique duplicate candidate super join order range cluster clustering document doc"
    " item entry field property config option setting metric label tag annotation header attribute"
    " param parameter query json yaml xml column table trusted authorized known cookie session s3"
    " bucket file path blob redis etcd consul memcached kv storage request trace span etag content"
    " rsa dsa ecdsa ed25519 eddsa pubkey fingerprint verification verify x509 certificate cert"
    " any each every this next prev previous last first wrong missing unknown invalid bad"
)
# These come before `token` in pagination, grammars and the budgets of language models.
_NOT_TOKENS = _set(
    "next page paging pagination continuation continue cancel cancellation start end stop eos bos"
    " pad unk sep cls mask max min num total prompt completion output input context per syntax"
    " parse design unexpected resume cursor sync first last"
)
# These come before `secret` where it is the name of an object that holds one.
_NOT_SECRETS = _set("existing pull tls image kube kubernetes k8s sealed external top")
# Words after the decisive word, which change nothing: DB_PASSWORD_PROD, client-key-data.
_QUALIFIERS = _set(
    "value data prod production dev staging stage live primary secondary new old current previous"
    " base64 b64 plain plaintext raw string hash hashed base default main backup ro rw local"
    " encrypted a b x"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def name_of(name: bytes) -> Name | None:
    """The kind of secret that a name announces; None for any other name."""
    return _look_up(name[-NAME_BYTES_MAX:])


@functools.lru_cache(maxsize=4096)
def _look_up(name: bytes) -> Name | None:
    # The words of `DB_PASSWORD`, `clientSecret`, `-Dssl.key-password`, without qualifiers.
    words = [word.lower() for word in _WORDS.findall(name.decode("ascii", "replace"))]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _QUALIFIERS):
        words.pop()
    # In logs `session id` tells requests apart; as a cookie it is found anyway.
    if not words or words[-2:] == ["session", "id"]:
        return None
    if name in (b"PWD", b"OLDPWD"):
        return Name("password", Trust.RANDOM)  # as a rule it is the working directory
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if last == "key":
        if not before or before in _NOT_KEYS - _KEY_OWNERS:
            return None
        if before not in _KEY_OWNERS:
            return Name("api_key", Trust.MADE)
        if before in {"private", "rsa", "client"}:
            return Name("private_key", Trust.ANY)
        if before in {"secret", "access", "account", "storage", "shared"}:
            return _SECRET
        if before in {"api", "app", "application", "subscription", "license"}:
            return _KEY
        return Name("secret", Trust.CHOSEN)
    if last == "pass":
        return _PASSWORD if before in _PASS_OWNERS else _LAST[last]
    if last == "secret" and before:
        return _LAST[last] if before in _NOT_SECRETS else _SECRET
    if last == "token" and before in _NOT_TOKENS:
        return None
    if last == "cookie" and before in ("", "set"):
        return None  # a header, which is read as one
    if last == "id" and before == "secret":
        return Name("secret", Trust.RANDOM)  # as Consul and Nomad call their tokens
    if last == "pw" and before:
        return _PASSWORD
    if last == "auth" and before == "rediscli":
        return _PASSWORD
    if last in _LAST:
        return _LAST[last]
    if last.endswith("pass") and last.removesuffix("pass") in _PASS_OWNERS:
        return _PASSWORD
    return next((named for end, named in _ENDS if last.endswith(end)), None)
