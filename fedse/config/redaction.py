"""What a machine hides before it stores anything; each machine decides this for itself."""

from typing import Literal

from fedse.config.section import Section

Country = Literal["au", "ca", "de", "es", "fi", "in", "it", "kr", "pl", "se", "sg", "uk", "us"]


class RedactSection(Section):
    """What is replaced by pseudonyms in every episode before it is stored at this site."""

    secrets: bool = False
    """Redact keys, tokens, passwords, private keys, payment cards and IBANs."""
    personal: bool = False
    """Redact e-mail addresses, telephone numbers, IP and MAC addresses, crypto wallets and national
    identity numbers. Names of people cannot be recognised by their form: list them in `words`."""
    countries: tuple[Country, ...] = ("de", "es", "fi", "it", "pl", "se", "uk", "us")
    """Countries whose telephone and identity numbers `personal` looks for."""
    words: tuple[str, ...] = ()
    """Files with one name or phrase per line, matched as whole words in upper or lower case.
    The file's name is their kind: STAFF for `staff.txt`. A relative path starts at the site's
    folder."""
    patterns: tuple[str, ...] = ()
    """TOML files with lines such as CASE = 'C-\\d{6}': a kind, and the regular expression that
    finds it; if the expression has groups, only the first group is redacted."""
    keep: tuple[str, ...] = ()
    """Texts that are never redacted, such as a public telephone number."""

    def or_all(self, *, personal: bool) -> "RedactSection":
        """Itself or, if nothing is redacted, the same with everything on that can be."""
        found = {"secrets": True, "personal": personal}
        return self if self.on else self.model_copy(update=found)

    @property
    def on(self) -> bool:
        """Whether anything is redacted at all."""
        return bool(self.secrets or self.personal or self.words or self.patterns)
