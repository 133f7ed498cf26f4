"""Personal data that has a form: presidio's recognizers, each by itself, without a language model.

Presidio's engine would load a spaCy model, which is not in the Python registry. A recognizer alone
needs none: it is a set of patterns with check digits.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from fedse.config.redaction import Country
from fedse.errors import require_packages
from fedse.redact.spans import Find, Span

LEAST_SCORE = 0.5
"""Presidio's score of a form that is specific, or whose check digits agree (1.0); what is below is
any number of some digits."""
LEAST_DIGITS = 8
PHONE_REGION = {"uk": "GB"}
# Presidio's own takes only addresses below a public suffix, so none of an internal network.
EMAIL = re.compile(r"(?<![\w.+-])[\w.!#$%&'*+=?^{|}~-]{1,64}@(?:[\w-]{1,63}\.)+[\w-]{2,63}")
CALLED = re.compile(r"(?i)\b(?:tel|phone|telephone|mobile|cell|fax|call|dial)\b[^\d\n]{0,20}$")
IDENTITY: Mapping[Country, Sequence[str]] = {
    "au": ("AuTfnRecognizer", "AuMedicareRecognizer"),
    "ca": ("CaSinRecognizer",),
    "de": ("DeTaxIdRecognizer", "DeSocialSecurityRecognizer", "DeHealthInsuranceRecognizer"),
    "es": ("EsNifRecognizer", "EsNieRecognizer"),
    "fi": ("FiPersonalIdentityCodeRecognizer",),
    "in": ("InAadhaarRecognizer", "InPanRecognizer"),
    "it": ("ItFiscalCodeRecognizer",),
    "kr": ("KrRrnRecognizer",),
    "pl": ("PlPeselRecognizer",),
    "se": ("SePersonnummerRecognizer",),
    "sg": ("SgFinRecognizer",),
    "uk": ("NhsRecognizer", "UkNinoRecognizer", "UkDrivingLicenceRecognizer"),
    "us": ("UsSsnRecognizer", "UsItinRecognizer", "UsMbiRecognizer"),
}
EVERYWHERE = {"IpRecognizer": "IP", "MacAddressRecognizer": "MAC", "CryptoRecognizer": "WALLET"}


def personal_finders(countries: Sequence[Country]) -> list[Find]:
    """Finders of e-mail addresses, telephone numbers, addresses of machines, identity numbers."""
    require_packages("redact.personal = true", "presidio_analyzer", extra="redact")
    identity = [(name, "ID") for country in countries for name in IDENTITY[country]]
    regions = tuple(PHONE_REGION.get(country, country.upper()) for country in countries)
    named = [*EVERYWHERE.items(), *identity]
    return [
        find_emails,
        partial(find_phones, regions),
        *(
            partial(_recognized, partial(_recognizer, name), kind, LEAST_SCORE)
            for name, kind in named
        ),
    ]


def find_emails(text: str) -> Iterator[Span]:
    """E-mail addresses, internal ones too."""
    if "@" in text:
        for match in EMAIL.finditer(text):
            yield Span(*match.span(), "EMAIL")


def find_phones(regions: tuple[str, ...], text: str) -> Iterator[Span]:
    """Telephone numbers that are written as such, or that stand after a word for it.

    By its digits alone almost any number of nine digits is one somewhere.
    """
    for span in _recognized(partial(_phone_recognizer, regions), "PHONE", 0.0, text):
        if is_written_as_phone(text[span.start : span.end]) or CALLED.search(text[: span.start]):
            yield span


def is_written_as_phone(number: str) -> bool:
    """Whether it begins with a country's or an area's code, or has three groups or more."""
    groups = re.findall(r"\d+", number)
    if sum(map(len, groups)) < LEAST_DIGITS or re.search(r"\d\.\d", number):
        return False
    return number.startswith(("+", "00", "(")) or len(groups) > 2


def _recognized(
    recognizer: Callable[[], Any], kind: str, least: float, text: str
) -> Iterator[Span]:
    made = recognizer()
    for result in made.analyze(text, made.supported_entities, None) or ():
        if result.score >= least:
            yield Span(result.start, result.end, kind)


@cache
def _recognizer(name: str) -> Any:
    from presidio_analyzer import predefined_recognizers

    return getattr(predefined_recognizers, name)()


@cache
def _phone_recognizer(regions: tuple[str, ...]) -> Any:
    from presidio_analyzer.predefined_recognizers import PhoneRecognizer

    return PhoneRecognizer(supported_regions=regions)
