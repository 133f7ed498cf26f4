"""Keys in a running federation: renew the server's certificate, accept a site's new key."""

from datetime import datetime, timedelta
from pathlib import Path

from fedse.errors import ConfigError, StoreError
from fedse.federation.enrolment import write_list
from fedse.federation.folder import (
    CERTIFICATE_DAYS,
    LIST,
    Federation,
    changing_list,
    write_public_key,
)
from fedse.federation.keys import AUTHORITY_KEY, FROM_SITE, fits, renew_certificate, valid_until
from fedse.federation.rotation import RotationRequest, with_rotation


def renew(
    federation: Federation,
    *,
    now: datetime,
    days: int = CERTIFICATE_DAYS,
    new_key: bool = False,
) -> datetime:
    """The server has a new certificate that its sites already trust; returns when it expires."""
    folder = federation.identity.ca.parent
    if not federation.can_renew:
        raise ConfigError(
            f"the server's certificate cannot be renewed: {folder} has no {AUTHORITY_KEY}, the "
            "key of the authority that sites trust",
            hint=f"put {AUTHORITY_KEY} back from a backup; if there never was one, finish the "
            "run and then: fedse federation create CONFIG --out NEW-FOLDER --host NAME",
        )
    ends = valid_until(federation.identity.ca, hint=FROM_SITE)
    if ends - now < timedelta(days=1):
        raise ConfigError(
            "the server's certificate cannot be renewed: the authority that sites trust expires "
            f"on {ends:%Y-%m-%d}",
            hint="fedse federation create CONFIG --out NEW-FOLDER --host NAME",
        )
    return renew_certificate(
        folder, hosts=(federation.card.host,), days=days, now=now, new_key=new_key
    )


def server_certificate(federation: Federation) -> bytes | None:
    """The file's content; None if it is missing, as while a backup is being restored."""
    try:
        return federation.identity.certificate.read_bytes()
    except OSError:
        return None


def require_fitting_keys(federation: Federation) -> None:
    """The server's certificate is for its key and under the authority that sites trust."""
    if not fits(federation.identity):
        raise StoreError(
            f"{federation.identity.certificate} does not match {federation.identity.key} and "
            f"{federation.identity.ca}; was a renewal cut short, or is one damaged?",
            hint=f"fedse federation renew --dir {federation.path}",
        )


def rotate(federation: Federation, request: RotationRequest) -> Path:
    """The site's new key is on the list in place of its old one; returns the file with it."""
    with changing_list(federation.path):
        enrolment = with_rotation(federation.sites, request)
        key = write_public_key(federation, request.site, request.new_key)
        write_list(federation.path / LIST, enrolment)
    return key
