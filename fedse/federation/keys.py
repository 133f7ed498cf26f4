"""Keys and certificates of a deployment: its authority, the server's certificate, node keys.

Private keys are readable by their owner only. The key of an authority made for one certificate is
discarded at once, so it cannot be stolen. An authority that outlives its certificates keeps it; it
is valid only for the server's names, so a thief could impersonate this server and no other.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedse.errors import StoreError, boundary
from fedse.store.files import OWNER_ONLY, from_backup, write_durably

VALID_DAYS = 90
AUTHORITY = " authority"
"""Ends the name of an authority."""
FROM_SITE = "copy ca.crt from the home of any site: they all have the same"
AUTHORITY_KEY = "ca.key"
PRESENCE = "node.id"
"""Beside a node's key: its number at the server, and whether it has left."""
# How far two machines' clocks may differ before a new certificate is refused.
CLOCK_SLACK = timedelta(minutes=5)


class Identity(NamedTuple):
    """Files with which a SuperLink proves its identity; others need `ca` to verify it."""

    ca: Path
    certificate: Path
    key: Path


class NodeKey(NamedTuple):
    private: Path
    public: Path
    """What the server's operator registers."""


class _Authority(NamedTuple):
    """What signs certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_identity(
    folder: Path,
    *,
    hosts: Sequence[str] = (),
    name: str = "Fed-SE loopback",
    days: int = VALID_DAYS,
    authority_days: int | None = None,
    now: datetime | None = None,
) -> Identity:
    """A certificate for `hosts`, localhost and 127.0.0.1 under its own new authority.

    With `authority_days` the authority is valid that long, and its key is kept for renewals.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    start, named = now or datetime.now(UTC), _named(hosts)
    authority = _new_authority(
        f"{name}{AUTHORITY}",
        start,
        days if authority_days is None else authority_days,
        only=None if authority_days is None else named,
    )
    key = ec.generate_private_key(ec.SECP384R1())
    signed = _server_certificate(authority, name, named, key.public_key(), start, days)
    if authority_days is not None:
        _write(folder / AUTHORITY_KEY, _private_pem(authority.key))
    return Identity(
        _write(folder / "ca.crt", authority.certificate.public_bytes(Encoding.PEM)),
        _write(folder / "server.pem", signed.public_bytes(Encoding.PEM)),
        _write(folder / "server.key", _private_pem(key)),
    )


def renew_certificate(
    folder: Path, *, hosts: Sequence[str], days: int, now: datetime, new_key: bool
) -> datetime:
    """The certificate in `folder` is new, under the same authority; returns when it expires.

    The server's key is replaced only with `new_key`. If this process is killed between writing the
    two files, they do not match, and renewing again repairs that.
    """
    with boundary(StoreError, f"keys in {folder}"):
        ca = read_authority(folder / "ca.crt", hint=FROM_SITE)
        authority = _Authority(ca, _read_key(folder / AUTHORITY_KEY))
        if authority.key.public_key() != ca.public_key():
            raise StoreError(
                f"{folder / AUTHORITY_KEY} is not the key of {folder / 'ca.crt'}",
                hint=f"put the key back that was made with {folder / 'ca.crt'}",
            )
        key = ec.generate_private_key(ec.SECP384R1()) if new_key else None
        if key:
            _write(folder / "server.key", _private_pem(key))
        another = f"fedse federation renew --new-key --dir {folder.parent}"
        key = key or _read_key(folder / "server.key", hint=another)
    # No certificate is valid longer than what it is checked with.
    left = ca.not_valid_after_utc - now
    signed = _server_certificate(
        authority, _common_name(ca), _named(hosts), key.public_key(), now, min(days, left.days)
    )
    _write(folder / "server.pem", signed.public_bytes(Encoding.PEM))
    return signed.not_valid_after_utc


def fits(identity: Identity) -> bool:
    """Whether the certificate is for the key beside it and signed by the authority."""
    ca = read_authority(identity.ca, hint=FROM_SITE)
    try:
        certificate = x509.load_pem_x509_certificate(identity.certificate.read_bytes())
        certificate.verify_directly_issued_by(ca)
        return certificate.public_key() == _read_key(identity.key).public_key()
    except (OSError, InvalidSignature, TypeError, ValueError, StoreError):
        return False


def read_authority(path: Path, *, hint: str) -> x509.Certificate:
    """An authority's certificate with a valid signature of its own."""
    found = _read_certificate(path, hint)
    with boundary(StoreError, f"certificate {path} is damaged", hint=hint):
        found.verify_directly_issued_by(found)
    return found


def _common_name(authority: x509.Certificate) -> str:
    """The name in a server's certificate, which is also in its authority's."""
    found = authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    return str(found).removesuffix(AUTHORITY)


def valid_until(certificate: Path, *, hint: str = "") -> datetime:
    """The moment from which the first certificate in the file is refused."""
    return _read_certificate(certificate, hint).not_valid_after_utc


def valid_from(certificate: Path) -> datetime:
    """The moment before which the first certificate in the file is refused."""
    return _read_certificate(certificate).not_valid_before_utc


def _read_certificate(path: Path, hint: str = "") -> x509.Certificate:
    with boundary(StoreError, f"certificate {path} is damaged", hint=hint):
        return x509.load_pem_x509_certificate(path.read_bytes())


def make_node_key(folder: Path) -> NodeKey:
    """A P-384 key pair in OpenSSH's format, as Flower expects; an existing one is kept."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = NodeKey(folder / "node.key", folder / "node.pub")
    if not all(file.exists() for file in files):
        key = ec.generate_private_key(ec.SECP384R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        _write(files.private, private)
        _write(files.public, public + b"\n")
    return files


def public_pem(key: str) -> bytes:
    """A node's public key in OpenSSH's format, as Flower stores it."""
    with boundary(StoreError, f"{key!r} on the enrolment list", hint="put enrolment.json back"):
        public = load_ssh_public_key(key.encode())
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _new_authority(
    name: str, start: datetime, days: int, *, only: Sequence[x509.GeneralName] | None
) -> _Authority:
    """`only`: the names that it may certify; None = any."""
    key, own = ec.generate_private_key(ec.SECP384R1()), _name(name)
    builder = (
        _certificate(own, own, key.public_key(), start, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )
    if only is not None:
        subtrees = [_subtree(name) for name in only]
        builder = builder.add_extension(x509.NameConstraints(subtrees, None), critical=True)
    return _Authority(builder.sign(key, hashes.SHA384()), key)


def _server_certificate(
    authority: _Authority,
    name: str,
    named: Sequence[x509.GeneralName],
    key: ec.EllipticCurvePublicKey,
    start: datetime,
    days: int,
) -> x509.Certificate:
    public = authority.key.public_key()
    return (
        _certificate(_name(name), authority.certificate.subject, key, start, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(named), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), False)
        .sign(authority.key, hashes.SHA384())
    )


def _named(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [_host(host) for host in dict.fromkeys((*hosts, "localhost", "127.0.0.1"))]


def _subtree(name: x509.GeneralName) -> x509.GeneralName:
    """The name alone, as an authority is bound to it."""
    return x509.IPAddress(ip_network(name.value)) if isinstance(name, x509.IPAddress) else name


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _read_key(path: Path, *, hint: str = "") -> ec.EllipticCurvePrivateKey:
    with boundary(StoreError, f"key {path} is damaged", hint=hint or from_backup(path)):
        key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StoreError(f"{path}: expected a P-384 key, got {type(key).__name__}")
    return key


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
