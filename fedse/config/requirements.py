"""Packages that settings need beside those of the core, and the extra that installs them."""

from collections.abc import Callable
from functools import partial

from fedse.config.schema import Config
from fedse.errors import require_all, require_packages

REQUIREMENTS: tuple[tuple[Callable[[Config], bool], str, tuple[str, ...], str], ...] = (
    (lambda c: c.aggregate.secure, "aggregate.secure", ("cryptography", "Crypto"), "secure"),
    (lambda c: c.privacy.on, "privacy.epsilon", ("dp_accounting",), "privacy"),
    (lambda c: c.redact.secrets, "redact.secrets = true", ("stdnum",), "redact"),
    (lambda c: c.redact.personal, "redact.personal = true", ("presidio_analyzer",), "redact"),
    (lambda c: c.engine.type == "vllm", "engine.type = 'vllm'", ("httpx", "psutil"), "engine"),
    (
        lambda c: c.trainer.precision == "4bit",
        "trainer.precision = '4bit'",
        ("bitsandbytes",),
        "4bit",
    ),
)
"""When a setting needs packages, how it is written, the packages, and their extra."""


def require_installed(config: Config) -> None:
    """All packages that the settings need are installed; else one error names those missing."""
    require_all(
        *(
            partial(require_packages, setting, *packages, extra=extra)
            for asks, setting, packages, extra in REQUIREMENTS
            if asks(config)
        )
    )
