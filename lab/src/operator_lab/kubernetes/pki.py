"""Certificates and kubeconfigs of a rig: one authority, and a certificate for each part."""

from __future__ import annotations

import argparse
import ipaddress
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["main", "make_all"]

DAYS = 30
SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
# File name -> organisation, common name.
_CLIENTS = {
    "admin": ("system:masters", "admin"),
    "controllers": ("", "system:kube-controller-manager"),
    "scheduler": ("", "system:kube-scheduler"),
    "proxy": ("", "system:kube-proxy"),
    "front": ("", "front-proxy-client"),
}
SERVICE_ADDRESS = "10.96.0.1"


class _Authority:
    """Signs what the parts of the cluster show each other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "operator-lab")])
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        certificate = builder.sign(self._key, hashes.SHA256())
        _write(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))
        _write(folder / "ca.key", _pem(self._key))

    def issue(self, file: str, organisation: str, name: str, names: tuple[str, ...] = ()) -> None:
        """A key and a certificate for a client, or for a server with these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organisation:
            parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
        builder = _builder(x509.Name(parts), self._name, key.public_key())
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), False)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(each) for each in names]), False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        _write(self._folder / f"{file}.crt", pem)
        _write(self._folder / f"{file}.key", _pem(key))


def make_all(folder: Path, *, server: str, outside: str, nodes: dict[str, str]) -> None:
    """Everything into a folder. `server` is where parts reach the API server, `outside` where this
    machine does; both are URLs. `nodes` has the address of each.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _Authority(folder)
    host = server.partition("//")[2].rpartition(":")[0]
    names = (*SERVICE_NAMES, host, "127.0.0.1", SERVICE_ADDRESS)
    authority.issue("apiserver", "", "kube-apiserver", tuple(dict.fromkeys(names)))
    for file, (organisation, name) in _CLIENTS.items():
        authority.issue(file, organisation, name)
        _write_kubeconfig(folder, file, server)
    for node, address in nodes.items():
        authority.issue(node, "system:nodes", f"system:node:{node}", (node, address))
        _write_kubeconfig(folder, node, server)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write(folder / "accounts.key", _pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(folder / "accounts.pub", public)
    _write_kubeconfig(folder, "admin", outside, file="kubeconfig")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=DAYS))
    )


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(path: Path, text: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(text)


def _write_kubeconfig(folder: Path, user: str, server: str, *, file: str = "") -> None:
    """As JSON, which every reader of YAML reads."""
    cluster = {"server": server, "certificate-authority": str(folder / "ca.crt")}
    keys = {
        "client-certificate": str(folder / f"{user}.crt"),
        "client-key": str(folder / f"{user}.key"),
    }
    record = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": user, "user": keys}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
        "current-context": "lab",
    }
    text = json.dumps(record, indent=1).encode()
    _write(folder / (file or f"{user}.kubeconfig"), text)


def main() -> None:
    """Make all files of one rig."""
    parser = argparse.ArgumentParser(prog="pki", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--server", required=True)
    parser.add_argument("--outside", required=True)
    parser.add_argument("--node", action="append", default=[], metavar="NAME=ADDRESS")
    given = parser.parse_args()
    nodes = dict(each.split("=", 1) for each in given.node)
    make_all(given.folder, server=given.server, outside=given.outside, nodes=nodes)


if __name__ == "__main__":
    main()
