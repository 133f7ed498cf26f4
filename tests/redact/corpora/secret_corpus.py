"""Made-up secrets in the published forms of many services, inside texts such as an agent meets.

The same seed gives the same corpus. None of the values ever worked anywhere. Where it stands in its
text is known for each, so a measurement can say whether every character of it was found.
"""

import base64
import json
import string
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple

from stdnum import luhn
from stdnum.iso7064 import mod_97_10

from fedse.redact.spans import Find, settled
from fedse.seeds import seed_of
from tests.redact.corpora.secret_carriers import CARRIERS
from tests.redact.corpora.tuning_carriers import Group

BASE62 = string.ascii_letters + string.digits
HEX = string.digits + "abcdef"
URL_SAFE = BASE62 + "-_"
CAPITAL = string.ascii_uppercase + string.digits
SMALL = string.ascii_lowercase + string.digits
Make = Callable[[Random], str]


class Planted(NamedTuple):
    """A text with one secret in it."""

    format: str
    carriers: str
    text: str
    start: int
    end: int


def is_found(one: Planted, find: Find) -> bool:
    """Whether no letter or digit of the secret would be left."""
    covered = {i for span in settled(one.text, find) for i in range(span.start, span.end)}
    return all(i in covered for i in range(one.start, one.end) if one.text[i].isalnum())


def letters(alphabet: str, count: int) -> Make:
    return lambda random: "".join(random.choices(alphabet, k=count))


def after(prefix: str, alphabet: str, count: int, suffix: str = "") -> Make:
    return lambda random: prefix + "".join(random.choices(alphabet, k=count)) + suffix


def jwt(random: Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": str(random.randrange(10**9)), "iat": random.randrange(10**9, 2 * 10**9)}
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.{letters(URL_SAFE, 43)(random)}"


def private_key(random: Random) -> str:
    kind = random.choice(["RSA ", "EC ", "OPENSSH ", "", "DSA "])
    lines = [letters(BASE62 + "+/", 64)(random) for _ in range(random.randint(3, 8))]
    return "\n".join(
        [f"-----BEGIN {kind}PRIVATE KEY-----", *lines, f"-----END {kind}PRIVATE KEY-----"]
    )


def password(random: Random) -> str:
    word = random.choice(["winter", "Dragon", "blueSky", "hunter", "Falcon", "kitchen", "Zebra"])
    return word + random.choice(["", "!", "_", "#"]) + str(random.randrange(1, 10**4))


def strong_password(random: Random) -> str:
    made = letters(BASE62 + "!#%&*+?@^~", random.randint(12, 20))(random)
    return made[:-1] + random.choice(string.digits + string.ascii_letters)


def url_password(random: Random) -> str:
    return letters(BASE62 + "!$*+_.-", random.randint(8, 20))(random)


def basic(random: Random) -> str:
    pair = f"{letters(string.ascii_lowercase, 7)(random)}:{strong_password(random)}"
    return base64.b64encode(pair.encode()).decode()


def card(random: Random) -> str:
    first, count = random.choice([("4", 16), ("51", 16), ("55", 16), ("34", 15), ("6011", 16)])
    body = first + letters(string.digits, count - len(first) - 1)(random)
    number = body + luhn.calc_check_digit(body)
    gap = random.choice(["", " ", "-"])
    if count == 15:
        return gap.join([number[:4], number[4:10], number[10:]])
    return gap.join(number[place : place + 4] for place in range(0, 16, 4))


# Country, digits or letters of its account number (SWIFT's registry): n = digit, a = capital.
ACCOUNTS = {"DE": "n" * 18, "GB": "aaaa" + "n" * 14, "NL": "aaaa" + "n" * 10, "PL": "n" * 24}


def iban(random: Random) -> str:
    country, form = random.choice(list(ACCOUNTS.items()))
    kinds = {"n": string.digits, "a": string.ascii_uppercase}
    body = "".join(random.choice(kinds[kind]) for kind in form)
    if country == "PL":
        body = _polish(body)
    number = country + mod_97_10.calc_check_digits(body + country) + body
    if random.random() < 0.5:
        return number
    return " ".join(number[place : place + 4] for place in range(0, len(number), 4))


def _polish(body: str) -> str:
    """The eighth digit of a Polish account number checks the first seven."""
    weights = (3, 9, 7, 1, 3, 9, 7)
    checked = sum(w * int(d) for w, d in zip(weights, body, strict=False))
    return f"{body[:7]}{-checked % 10}{body[8:]}"


def openai(random: Random) -> str:
    part = letters(URL_SAFE, 74)
    return f"sk-proj-{part(random)}T3BlbkFJ{part(random)}"


def slack(random: Random) -> str:
    numbers = "-".join(letters(string.digits, 12)(random) for _ in range(2))
    return f"xoxb-{numbers}-{letters(BASE62, 24)(random)}"


def slack_hook(random: Random) -> str:
    places = f"T{letters(CAPITAL, 8)(random)}/B{letters(CAPITAL, 8)(random)}"
    return f"https://hooks.slack.com/services/{places}/{letters(BASE62, 24)(random)}"


def sendgrid(random: Random) -> str:
    return f"SG.{letters(URL_SAFE, 22)(random)}.{letters(URL_SAFE, 43)(random)}"


def telegram(random: Random) -> str:
    return f"{random.randrange(10**8, 10**10)}:A{letters(URL_SAFE, 34)(random)}"


def parts(prefix: str, *alphabets_and_counts: tuple[str, int], gap: str = ".") -> Make:
    return lambda random: prefix + gap.join(letters(a, n)(random) for a, n in alphabets_and_counts)


def discord(random: Random) -> str:
    owner = base64.urlsafe_b64encode(str(random.randrange(10**17, 10**18)).encode()).decode()
    return f"{owner}.{letters(URL_SAFE, 6)(random)}.{letters(URL_SAFE, 38)(random)}"


FORMATS: Mapping[str, tuple[Group, Make]] = {
    "AWS access key id": ("token", after("AKIA", string.ascii_uppercase + "234567", 16)),
    "AWS secret key": ("key", letters(BASE62 + "+/", 40)),
    "GitHub token": ("token", after("ghp_", BASE62, 36)),
    "GitHub fine-grained token": ("token", after("github_pat_", BASE62 + "_", 82)),
    "GitLab token": ("token", after("glpat-", URL_SAFE, 20)),
    "Slack bot token": ("token", slack),
    "Slack webhook": ("token", slack_hook),
    "Stripe key": ("token", after("sk_live_", BASE62, 24)),
    "Google API key": ("token", after("AIza", URL_SAFE, 35)),
    "OpenAI key": ("token", openai),
    "Anthropic key": ("token", after("sk-ant-api03-", URL_SAFE, 93, "AA")),
    "Hugging Face token": ("token", after("hf_", string.ascii_letters, 34)),
    "npm token": ("token", after("npm_", BASE62, 36)),
    "PyPI token": ("token", after("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 150)),
    "SendGrid key": ("token", sendgrid),
    "Twilio key": ("token", after("SK", HEX, 32)),
    "Telegram bot token": ("token", telegram),
    "DigitalOcean token": ("token", after("dop_v1_", HEX, 64)),
    "Vault token": ("token", after("hvs.", URL_SAFE, 95)),
    "JSON web token": ("token", jwt),
    "Docker Hub token": ("token", after("dckr_pat_", URL_SAFE, 27)),
    "Databricks token": ("token", after("dapi", HEX, 32)),
    "Shopify token": ("token", after("shpat_", HEX, 32)),
    "Square token": ("token", after("EAAA", URL_SAFE, 60)),
    "Mailgun key": ("token", after("key-", HEX, 32)),
    "Discord bot token": ("token", discord),
    "Terraform token": ("token", parts("", (BASE62, 14), (URL_SAFE, 67), gap=".atlasv1.")),
    "age key": ("token", after("AGE-SECRET-KEY-1", string.digits + "ACDEFGHJKLMNPQRSTUVWXYZ", 58)),
    "1Password secret key": (
        "token",
        parts("A3-", *[(CAPITAL, n) for n in (6, 6, 5, 5, 5, 5)], gap="-"),
    ),
    "Heroku token": ("token", after("HRKU-", URL_SAFE, 60)),
    "Google OAuth secret": ("token", after("GOCSPX-", URL_SAFE, 28)),
    "Airtable token": ("token", parts("pat", (BASE62, 14), (HEX, 64))),
    "Notion token": ("token", after("ntn_", BASE62, 46)),
    "no service: 20 letters and digits": ("token", letters(BASE62, 20)),
    "no service: 40 of base64url": ("token", letters(URL_SAFE, 40)),
    "no service: 52 small letters and digits": ("token", letters(SMALL, 52)),
    "no service: 32 hexadecimals and a region": ("token", parts("", (HEX, 32), ("us", 2), gap="-")),
    "no service: 32 capitals and digits": ("token", letters(CAPITAL, 32)),
    "no service: a tilde among 40": ("token", parts("", (BASE62, 3), (URL_SAFE, 34), gap="8Q~")),
    "private key": ("block", private_key),
    "password in a URL": ("url", url_password),
    "password, simple": ("password", password),
    "password, strong": ("password", strong_password),
    "basic authorization": ("basic", basic),
    "bearer token": ("bearer", letters(BASE62 + "._-", 40)),
    "Azure storage key": ("key", after("", BASE62 + "+/", 86, "==")),
    "API key of 32 hexadecimals": ("key", letters(HEX, 32)),
    "API key of 24 letters": ("key", letters(SMALL, 24)),
    "session id": ("session", letters(BASE62, 26)),
    "PIN or one-time code": ("code", letters(string.digits, 6)),
    "payment card": ("card", card),
    "IBAN": ("iban", iban),
}


def secrets(seed: int, per_format: int, carriers: str) -> Iterator[Planted]:
    """So many texts of each format, in the carriers of one set."""
    for name, (group, make) in FORMATS.items():
        random = Random(seed_of("secret corpus", carriers, seed, name))
        for _ in range(per_format):
            yield planted(name, carriers, random.choice(CARRIERS[carriers][group]), make(random))


def planted(name: str, carriers: str, carrier: str, secret: str) -> Planted:
    """The carrier with the secret in its place."""
    before, _, behind = carrier.partition("{}")
    text = before + secret + behind
    return Planted(name, carriers, text, len(before), len(before) + len(secret))
