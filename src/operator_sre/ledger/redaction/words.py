"""Words that stand where a secret could, and are none."""

from __future__ import annotations

__all__ = ["NOTHING", "ORDINARY", "TECHNICAL"]

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
