"""Where command-line tools take a secret without saying so by an option's name."""

from __future__ import annotations

from dataclasses import dataclass

from operator_sre.ledger.redaction.names import Trust

__all__ = ["TOOLS", "Tool"]


@dataclass(frozen=True, slots=True)
class Tool:
    """One way: `before` matches what stands between a tool's name and the secret."""

    names: str
    before: bytes
    kind: str = "password"
    trust: Trust = Trust.ANY
    # A pattern that has to follow on the line, or it is no secret.
    after: bytes = b""
    # Whether it stands at once after the name, as in a configuration file.
    is_next: bool = False


_USER = rb"[\"']?[^\s:\"'$]*:"
_STDIN = (
    rb"\| *(?:sudo +-\S*S|(?:sudo +)?(?:chpasswd|cryptsetup|passwd +.*--stdin"
    rb"|\S+ +(?:\S+ +)?login\b.*--password-stdin|kinit))"
)
_MYSQL = "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlsh mariadb mariadb-dump mycli"

TOOLS: tuple[Tool, ...] = (
    Tool(_MYSQL, rb" -p"),
    # With a blank the tool asks for the password; people write it all the same.
    Tool(_MYSQL, rb" -p ", trust=Trust.CHOSEN),
    Tool("redis-cli valkey-cli keydb-cli redis-benchmark", rb" (?:-a|--pass) ?"),
    Tool("redis-cli valkey-cli", rb"(?i) auth (?:default )?", trust=Trust.CHOSEN),
    Tool("mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat", rb" -p ?"),
    Tool("sshpass", rb" -p ?"),
    Tool("curl", rb" (?:-[a-zA-Z]*[uU]|--user|--proxy-user)[ =]?" + _USER),
    Tool("curl", rb" (?:-b|--cookie)[ =]?[\"']?[\w.-]+=", "session", Trust.RANDOM),
    Tool(
        "docker podman buildah skopeo helm az crane oras nerdctl oc cf",
        rb"(?: registry| hub)? login(?: \S+)*? -p ?",
    ),
    Tool("ldapsearch ldapadd ldapmodify ldapwhoami ldapdelete ldappasswd", rb" -[ws] ?"),
    Tool("smbclient rpcclient smbmap", rb" (?:-U|--user)[ =]?[\"']?[^\s%\"']+%"),
    Tool("sqlcmd bcp osql", rb" -P ?"),
    Tool("cqlsh rabbitmqadmin couchbase-cli cypher-shell nats", rb" -p "),
    Tool("ipmitool", rb" -P ?"),
    Tool("snmpwalk snmpget snmpbulkwalk", rb" -[AX] "),
    Tool("zip unzip", rb" -P ?"),
    Tool("7z 7za rar unrar", rb" -h?p"),
    Tool("openssl", rb" -(?:passin|passout|pass|passwd) [\"']?pass:"),
    Tool("lftp", rb" -u [\"']?[^\s,\"']+,"),
    Tool("etcdctl", rb" --user[ =]" + _USER),
    Tool("htpasswd", rb" -[a-zA-Z]*b[a-zA-Z]*(?: -\w+)*(?: [^\s-]\S*)? [\w.@-]+ "),
    Tool("rabbitmqctl", rb" (?:add_user|change_password|authenticate_user) [\w.@-]+ "),
    Tool("vault", rb" login (?:-\S+ )*(?:token=)?", "token", Trust.SAID),
    Tool("vault", rb" (?:operator )?unseal ", "token", Trust.RANDOM),
    Tool("chpasswd", rb" *<<< ?[\"']?[\w.-]+:"),
    Tool("echo printf", rb" (?:-\w+ )*[\"']?(?:[\w.-]+:)?", after=_STDIN, is_next=True),
    Tool("kubectl oc", rb" --from-literal[= ][\"']?[\w./-]+=", "secret"),
    Tool("mc", rb" (?:alias set|config host add) \S+ \S+ \S+ ", "secret", Trust.CHOSEN),
    Tool("aws", rb" configure set (?:\S+\.)?aws_(?:secret_access_key|session_token) ", "secret"),
    Tool("npm yarn pnpm", rb" config set \S*_(?:authToken|auth|password)[ =]", "token"),
    Tool("nmcli", rb" (?:password|wifi-sec\.psk|802-1x\.password) "),
    Tool("wpa_passphrase", rb" (?:\"[^\"]*\"|'[^']*'|\S+) "),
    Tool("xfreerdp", rb" /p:"),
    Tool("requirepass masterauth bindpw rootpw", rb" +", is_next=True),
    Tool("openssl", rb" enc (?:\S+ )*?-k "),
    Tool("ssh-keygen", rb" -[NP] ?"),
    Tool("cryptsetup", rb" *<<< ?"),
    Tool("mosquitto_pub mosquitto_sub", rb" -P "),
    Tool("beeline snowsql influx trino psql-cli dsquery", rb" -p(?:assword)? "),
    Tool("snmpwalk snmpget snmpbulkwalk snmpset snmptrap", rb" -c ", "secret", Trust.CHOSEN),
    Tool("aws", rb" put-parameter .*?--value[ =]", "secret"),
    Tool("az", rb" keyvault secret set .*?--value[ =]", "secret"),
    Tool("mysqladmin mariadb-admin", rb" password "),
    Tool("vault", rb" token (?:revoke|lookup|renew) (?:-\S+ )*", "token", Trust.CHOSEN),
    Tool("nomad consul", rb" acl bootstrap ", "token", Trust.RANDOM),
    Tool("etcdctl", rb" user add [\w.-]+:"),
    Tool("net", rb" use(?: \S+){1,2} /u(?:ser)?:\S+ "),
    Tool("net", rb" user \S+ ", trust=Trust.CHOSEN),
)
