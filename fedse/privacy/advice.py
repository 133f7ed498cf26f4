"""Settings with which noise costs more than it must; each with what to set instead."""

from collections.abc import Iterator

from fedse.config.schema import Config

FASTER = 5
"""Times the `train.lr` that is right without noise: 0.01 instead of 2e-3 in the one measurement
that was made, with few steps of all units. AdamW divides by the size of what it gets, which is
mostly noise, so the same rate hardly moves along the lessons."""


def advice(config: Config) -> Iterator[tuple[str, str]]:
    """What costs more than it must, and what to do; nothing where no noise is added."""
    if not config.privacy.on:
        return
    if config.train.factors == "both":
        yield (
            'privacy.epsilon with train.factors = "both": A has no gradient at the start, and gets '
            "as much noise as B",
            'agree on train.factors = "b" with the other sites: half of the numbers get no noise',
        )
        yield (
            f"privacy.epsilon with train.lr = {config.train.lr:g}: AdamW divides by the size of "
            "the noise, so a rate for training without noise hardly moves along the lessons",
            f"try {FASTER} times the rate that is right without noise, on public lessons, with few "
            "steps of many units (privacy.rate = 1)",
        )
