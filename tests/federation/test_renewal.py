"""Certificates: renewed under the authority that sites trust, and told of before they run out."""

import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from fedse.cli.federation_view import view_of
from fedse.errors import ConfigError, StoreError
from fedse.federation import keys
from fedse.federation.expiry import (
    DAY_SECONDS,
    DailyWarning,
    Expiry,
    certificates_of,
    coordinator_warnings,
    served_until,
    site_warnings,
    warnings,
)
from fedse.federation.folder import AUTHORITY_DAYS, CERTIFICATE_DAYS
from fedse.federation.renewal import renew, require_fitting_keys
from tests.federation.scene import NOW, Scene

BEGUN = datetime.fromtimestamp(NOW, UTC)
HOST = "fed.example.org"


def certificate(scene: Scene) -> x509.Certificate:
    return x509.load_pem_x509_certificate(scene.federation.identity.certificate.read_bytes())


def trusted(ca: bytes, shown: x509.Certificate, *, days: float, host: str = HOST) -> bool:
    """Whether a site with this authority believes the certificate so many days from now."""
    store = Store([x509.load_pem_x509_certificate(ca)])
    at = BEGUN + timedelta(days=days)
    # The verifier takes times without a zone.
    builder = PolicyBuilder().store(store).time(at.replace(tzinfo=None))
    try:
        builder.build_server_verifier(x509.DNSName(host)).verify(shown, [])
    except VerificationError:
        return False
    return True


def test_a_renewed_certificate_is_trusted_by_a_site_that_joined_long_before(scene: Scene):
    ca = scene.join().authority.read_bytes()
    first = certificate(scene)
    assert [trusted(ca, first, days=d) for d in (0, 364, 366)] == [True, True, False]
    ends = renew(scene.federation, now=BEGUN + timedelta(days=360))
    second = certificate(scene)
    assert [trusted(ca, second, days=d) for d in (360, 724, 726)] == [True, True, False]
    assert ends == second.not_valid_after_utc
    assert scene.federation.identity.ca.read_bytes() == ca
    assert second.public_key() == first.public_key()
    require_fitting_keys(scene.federation)


def test_ten_years_of_renewals_end_with_the_authority(scene: Scene):
    ca = scene.join().authority.read_bytes()
    for year in range(1, 10):
        renew(scene.federation, now=BEGUN + timedelta(days=CERTIFICATE_DAYS * year - 10))
        assert trusted(ca, certificate(scene), days=CERTIFICATE_DAYS * year)
    last = renew(scene.federation, now=BEGUN + timedelta(days=AUTHORITY_DAYS - 100))
    assert last == keys.valid_until(scene.federation.identity.ca)
    with pytest.raises(ConfigError, match="authority that sites trust expires"):
        renew(scene.federation, now=BEGUN + timedelta(days=AUTHORITY_DAYS))


def test_a_new_key_is_new_and_fits(scene: Scene):
    before = scene.federation.identity.key.read_bytes()
    renew(scene.federation, now=BEGUN, new_key=True)
    assert scene.federation.identity.key.read_bytes() != before
    require_fitting_keys(scene.federation)


def test_a_renewal_that_was_cut_short_is_noticed_and_made_good_by_another(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    write = keys._write

    def killed(path: Path, data: bytes) -> Path:
        if path.name == "server.pem":
            raise KeyboardInterrupt
        return write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(keys, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            renew(scene.federation, now=BEGUN, new_key=True)
    with pytest.raises(StoreError, match="was a renewal cut short") as refused:
        require_fitting_keys(scene.federation)
    assert refused.value.hint == f"fedse federation renew --dir {scene.federation.path}"
    renew(scene.federation, now=BEGUN)
    require_fitting_keys(scene.federation)


def test_without_the_authoritys_key_or_with_another_nothing_is_renewed(scene: Scene):
    file = scene.federation.path / "keys" / "ca.key"
    before = scene.federation.identity.certificate.read_bytes()
    own = file.read_bytes()
    file.write_bytes(scene.federation.identity.key.read_bytes())
    with pytest.raises(StoreError, match=r"ca\.key is not the key of"):
        renew(scene.federation, now=BEGUN)
    file.unlink()
    with pytest.raises(ConfigError, match=r"has no ca\.key"):
        renew(scene.federation, now=BEGUN)
    assert scene.federation.identity.certificate.read_bytes() == before
    assert own


def test_the_authority_is_private_and_vouches_for_this_server_only(scene: Scene):
    file = scene.federation.path / "keys" / "ca.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ca = scene.federation.identity.ca.read_bytes()
    assert b"ca.key" not in scene.invite.read_bytes()
    key = keys._read_key(file)
    stolen = keys._Authority(x509.load_pem_x509_certificate(ca), key)
    own = ec.generate_private_key(ec.SECP384R1()).public_key()
    for host, believed in ((HOST, True), ("bank.example.org", False)):
        names = [x509.DNSName(host)]
        shown = keys._server_certificate(stolen, "x", names, own, BEGUN, 30)
        assert trusted(ca, shown, days=1, host=host) is believed


def test_an_authority_for_one_certificate_keeps_no_key(tmp_path: Path):
    made = keys.make_identity(tmp_path, now=BEGUN)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "ca.crt",
        "server.key",
        "server.pem",
    ]
    assert keys.fits(made)


def test_a_certificate_of_another_authority_does_not_fit(scene: Scene, tmp_path: Path):
    other = keys.make_identity(tmp_path / "other", now=BEGUN)
    scene.federation.identity.certificate.write_bytes(other.certificate.read_bytes())
    assert not keys.fits(scene.federation.identity)


@pytest.mark.parametrize(
    ("days", "told"),
    [
        (0, []),
        (CERTIFICATE_DAYS - 30, []),
        (CERTIFICATE_DAYS - 29.5, ["the server certificate expires in 30 days"]),
        (CERTIFICATE_DAYS - 1, ["the server certificate expires in 1 days"]),
        (CERTIFICATE_DAYS + 1, ["the server certificate expired on"]),
        (
            AUTHORITY_DAYS - 3,
            ["the server certificate expired", "the authority certificate expires in 3 days"],
        ),
    ],
)
def test_status_warns_thirty_days_ahead(scene: Scene, days: float, told: list[str]):
    said = view_of(scene.federation, now=NOW + days * DAY_SECONDS).warnings
    assert len(said) == len(told)
    for line, beginning in zip(said, told, strict=True):
        assert line.startswith(beginning)


def test_a_warning_names_the_command_that_ends_it(scene: Scene):
    late = NOW + (CERTIFICATE_DAYS - 5) * DAY_SECONDS
    (line,) = warnings(certificates_of(scene.federation), late)
    assert line.endswith(f": fedse federation renew --dir {scene.federation.path}")
    renew(scene.federation, now=datetime.fromtimestamp(late, UTC))
    assert warnings(certificates_of(scene.federation), late) == []


def test_without_the_authoritys_key_the_warning_names_no_command_that_would_fail(scene: Scene):
    (scene.federation.path / "keys" / "ca.key").unlink()
    late = NOW + (CERTIFICATE_DAYS - 5) * DAY_SECONDS
    (line,) = warnings(certificates_of(scene.federation), late)
    assert "renew" not in line


def test_a_warning_is_told_at_once_and_then_once_a_day():
    told: list[str] = []
    soon = Expiry("server", 10 * DAY_SECONDS, "renew")
    daily = DailyWarning(lambda now: warnings([soon], now), told.append)
    for hour in range(49):
        daily.look(hour * 3600.0)
    assert len(told) == 3
    assert told[0] == "warning: the server certificate expires in 10 days, on 1970-01-11: renew"


def test_a_clock_that_was_set_back_or_forth_delays_no_warning():
    told: list[float] = []
    daily = DailyWarning(lambda now: [str(now)], lambda line: told.append(float(line.split()[-1])))
    year = 365 * DAY_SECONDS
    for now in (0.0, 60.0, year, year + 60, 120.0, 180.0, 120.0 + DAY_SECONDS):
        daily.look(now)
    assert told == [0.0, year, 120.0, 120.0 + DAY_SECONDS]


def test_a_clock_before_the_authority_began_is_named_instead_of_its_certificate(scene: Scene):
    early = NOW - 10 * DAY_SECONDS
    (line,) = coordinator_warnings(scene.federation, early)
    assert "set the clock" in line
    assert site_warnings(scene.join(), early) == [line]
    assert coordinator_warnings(scene.federation, NOW) == []


@contextmanager
def shown_by_a_server(certificate: Path, key: Path) -> Iterator[str]:
    """Its address; one handshake after another is made with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    taken, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError), taken, context.wrap_socket(taken, server_side=True) as end:
                    end.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"localhost:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_site_sees_the_end_of_the_servers_certificate_and_warns(scene: Scene):
    home = scene.join()
    ends = renew(scene.federation, now=BEGUN, days=20)
    _, certificate, key = scene.federation.identity
    with shown_by_a_server(certificate, key) as server:
        assert served_until(server, home.authority) == ends
        here = home._replace(card=home.card.model_copy(update={"server": server}))
        (line,) = site_warnings(here, NOW)
        assert line.startswith("the server certificate expires in 20 days")
        assert line.endswith("ask the coordinator for: fedse federation renew")
        renew(scene.federation, now=BEGUN - timedelta(days=40), days=20)
    with shown_by_a_server(certificate, key) as server:
        here = home._replace(card=home.card.model_copy(update={"server": server}))
        (line,) = site_warnings(here, NOW)
        assert "is refused (certificate has expired)" in line
    assert served_until(server, home.authority) is None, "nobody answers any more"
    assert site_warnings(here, NOW) == []


def test_what_a_renewed_certificate_is_signed_with_is_the_authoritys_key(scene: Scene):
    renew(scene.federation, now=BEGUN)
    ca = x509.load_pem_x509_certificate(scene.federation.identity.ca.read_bytes())
    shown = certificate(scene)
    shown.verify_directly_issued_by(ca)
    other = keys._new_authority("x", BEGUN, 1, only=None)
    with pytest.raises((InvalidSignature, ValueError)):
        shown.verify_directly_issued_by(other.certificate)
    assert isinstance(shown.signature_hash_algorithm, hashes.SHA384)
    assert shown.public_bytes(Encoding.PEM) == scene.federation.identity.certificate.read_bytes()
