"""A password or code near a word for it is found; the same text without that word stays."""

import pytest

from fedse.redact.nearby import find_nearby, looks_like_a_password


def found(text: str) -> list[str]:
    return [text[span.start : span.end] for span in find_nearby(text)]


PASSWORDS = [
    ("{} is the password of the new laptop", "password", "name"),
    ("user | password\nanna | {}\n", "password", "town"),
    ("login,password\nanna,{},admin", "password", "town"),
    ("**Password:** {}.", "Password", "Town"),
    ("My credentials: anna / {}", "credentials", "letters"),
    ("Sign in as anna / {}", "Sign in", "Known"),
    ("curl -u anna:{} x", "curl", "look"),
]


@pytest.mark.parametrize(("text", "label", "other"), PASSWORDS)
@pytest.mark.parametrize("secret", ["Zebra#1966", "winter2657", "hunter_3898", "aB9!kQ+x"])
def test_a_password_is_found_by_its_word_and_only_by_it(text, label, other, secret):
    whole = text.format(secret)
    assert found(whole) == [secret]
    assert found(whole.replace(label, other)) == []


CODES = [
    ("{} is your verification code.", "482913", "verification code", "number of guests"),
    ("Enter {} when asked for the PIN", "4711", "PIN", "price"),
    ("Security code\n{}\nConfirm", "48291", "Security code", "Income"),
    ("Your code: {}", "482 913", "code", "sum"),
    ("G-{} is your code", "482913", "code", "street"),
]


@pytest.mark.parametrize(("text", "code", "label", "other"), CODES)
def test_a_code_is_found_by_its_word_and_only_by_it(text, code, label, other):
    whole = text.format(code)
    assert found(whole) == [code]
    assert found(whole.replace(label, other).replace("Confirm", "Next")) == []


def test_a_date_is_no_code():
    assert found("Login code sent on 20260302, valid in 2026") == []


def test_a_password_before_a_host_needs_no_scheme():
    assert found("sftp -P 22 anna:mgCeqyn_@files.internal") == ["mgCeqyn_"]
    assert found("write to mailto:anna@files.internal") == []


def test_far_away_is_not_near():
    assert found(f"password {'word ' * 40}Zebra#1966") == []
    assert found("password\n\n\n\nZebra#1966") == []
    assert found("Zebra#1966\npassword") == []


@pytest.mark.parametrize(
    "word",
    [
        "characters", "3600ms", "2026-03-02", "11:04:17", "v3.11.2", "/etc/passwd2", "line_2",
        "anna@example.org", "test_secrets.py", "PBKDF2_HMAC", "Ed25519PrivateKey", "sha256",
        "9f8b2c4d-1e3a-4f5b-8c7d-6e5f4a3b2c1d", "authenticate_user_with_token", "Zebra7",
        "12345678",
    ],
)  # fmt: skip
def test_what_is_readable_is_no_password(word: str):
    assert not looks_like_a_password(word)
    assert found(f"the password is not {word}") == []
