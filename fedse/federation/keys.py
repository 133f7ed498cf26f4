"""Keys and certificates of a deployment: an own authority, the server's certificate, node keys.

Private keys are readable by their owner only. The authority's key is never written: it signs one
server certificate and is discarded, so it cannot be stolen.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedse.store.files import OWNER_ONLY, write_durably

VALID_DAYS = 90
# Clocks of two machines may differ by this much before a new certificate is refused.
CLOCK_SLACK = timedelta(minutes=5)


class Identity(NamedTuple):
    """Files a SuperLink proves itself with; `ca` is the one others need to check it."""

    ca: Path
    certificate: Path
    key: Path


class NodeKey(NamedTuple):
    private: Path
    public: Path
    """What the server's operator registers."""


def make_identity(
    folder: Path,
    *,
    hosts: Sequence[str] = (),
    name: str = "Fed-SE loopback",
    days: int = VALID_DAYS,
    now: datetime | None = None,
) -> Identity:
    """A certificate for `hosts`, localhost and 127.0.0.1 under an authority made for it alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    start = now or datetime.now(UTC)
    ca_key, key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    ca_name, subject = _name(f"{name} authority"), _name(name)
    ca = (
        _certificate(ca_name, ca_name, ca_key.public_key(), start, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA384())
    )
    named = [_host(host) for host in dict.fromkeys((*hosts, "localhost", "127.0.0.1"))]
    certificate = (
        _certificate(subject, ca_name, key.public_key(), start, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(named), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False
        )
        .sign(ca_key, hashes.SHA384())
    )
    return Identity(
        _write(folder / "ca.crt", ca.public_bytes(Encoding.PEM)),
        _write(folder / "server.pem", certificate.public_bytes(Encoding.PEM)),
        _write(
            folder / "server.key",
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ),
    )


def make_node_key(folder: Path) -> NodeKey:
    """A P-384 key pair in OpenSSH's format, the one Flower reads; an existing one is kept."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = NodeKey(folder / "node.key", folder / "node.pub")
    if not all(file.exists() for file in files):
        key = ec.generate_private_key(ec.SECP384R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        _write(files.private, private)
        _write(files.public, public + b"\n")
    return files


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    start: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - CLOCK_SLACK)
        .not_valid_after(start + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, data: bytes) -> Path:
    write_durably(path, data, mode=OWNER_ONLY)
    return path
