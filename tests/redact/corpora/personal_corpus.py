"""Made-up personal data with correct check digits, inside texts such as an agent meets."""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from random import Random

from stdnum.de import idnr
from stdnum.es import dni
from stdnum.gb import nhs
from stdnum.iso7064 import mod_11_10
from stdnum.it import codicefiscale
from stdnum.pl import pesel

from fedse.seeds import seed_of
from tests.redact.corpora.secret_corpus import HEX, Planted, letters, planted

FIRST = ("Amara", "Bjorn", "Celeste", "Dmitri", "Eleni", "Farid", "Greta", "Hiro", "Ines", "Jonas")
LAST = ("Okafor", "Lindqvist", "Moreau", "Petrov", "Stavros", "Haddad", "Vogel", "Tanaka", "Duarte")
NAMES = tuple(f"{first} {last}" for first in FIRST for last in LAST)
CARRIERS: Sequence[str] = (
    "Contact: {}",
    "The record of the client says {}, please check.",
    '{"field": "{}", "row": 7}',
    "Action: search[{}]",
    "Observation: 1 result for {}.",
    "| {} | open | 3 days |",
)


def digits(random: Random, count: int) -> str:
    return letters(string.digits, count)(random)


def email(random: Random) -> str:
    name = f"{random.choice(FIRST)}.{random.choice(LAST)}".lower()
    return f"{name}@{random.choice(['example.org', 'mail.example.co.uk', 'corp.local'])}"


def phone(random: Random) -> str:
    return random.choice(
        [
            f"+49 30 {random.randrange(200000, 999999)}",
            f"+1 212-{random.randrange(200, 999)}-{random.randrange(1000, 9999)}",
            f"(415) {random.randrange(200, 999)}-{random.randrange(1000, 9999)}",
            f"+44 20 7946 {random.randrange(100, 999):04}",
        ]
    )


def ssn(random: Random) -> str:
    area = random.choice([n for n in range(1, 900) if n != 666])
    return f"{area:03}-{random.randrange(1, 100):02}-{random.randrange(1, 10000):04}"


def nino(random: Random) -> str:
    never = ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")
    while (pair := "".join(random.choices("ABCEGHJKLMPRSTWXYZ", k=2))) in never:
        pass
    return f"{pair}{digits(random, 6)}{random.choice('ABCD')}"


def nhs_number(random: Random) -> str:
    while not nhs.is_valid(number := digits(random, 10)):
        pass
    return nhs.format(number)


def nif(random: Random) -> str:
    body = digits(random, 8)
    return body + dni.calc_check_digit(body)


def tax_id(random: Random) -> str:
    while True:
        body = random.choice("123456789") + digits(random, 9)
        number = body + mod_11_10.calc_check_digit(body)
        if idnr.is_valid(number):
            return number


def birthday(random: Random) -> date:
    return date(1950, 1, 1) + timedelta(days=random.randrange(18000))


def polish(random: Random) -> str:
    body = birthday(random).strftime("%y%m%d") + digits(random, 4)
    return body + pesel.calc_check_digit(body)


def italian(random: Random) -> str:
    capitals, born = letters("BCDFGLMNPRSTV", 6)(random), birthday(random)
    month = "ABCDEHLMPRST"[born.month - 1]
    body = f"{capitals}{born:%y}{month}{born.day:02}H{digits(random, 3)}"
    return body + codicefiscale.calc_check_digit(body)


def ip(random: Random) -> str:
    return ".".join(str(random.randrange(1, 255)) for _ in range(4))


def ip6(random: Random) -> str:
    return ":".join(letters(HEX, 4)(random) for _ in range(8))


def mac(random: Random) -> str:
    return ":".join(letters(HEX, 2)(random) for _ in range(6))


FORMATS: Mapping[str, Callable[[Random], str]] = {
    "e-mail address": email,
    "telephone number": phone,
    "US social security number": ssn,
    "UK national insurance number": nino,
    "UK NHS number": nhs_number,
    "Spanish DNI": nif,
    "German tax number": tax_id,
    "Polish PESEL": polish,
    "Italian fiscal code": italian,
    "IPv4 address": ip,
    "IPv6 address": ip6,
    "MAC address": mac,
    "name on the site's own list": lambda random: random.choice(NAMES),
}


def personal(seed: int, per_format: int) -> Iterator[Planted]:
    """So many texts of each format."""
    for name, make in FORMATS.items():
        random = Random(seed_of("personal corpus", seed, name))
        for _ in range(per_format):
            yield planted(name, "personal", random.choice(CARRIERS), make(random))
