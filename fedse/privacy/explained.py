"""Each protection in words for who answers for it: what it bounds, what it cost, what it does not.

Every figure was measured by the command that is named with it, most with one small model; the tests
compare them with the files in docs/results/.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fedse.config.presets import Preset, least_audit, stated, written
from fedse.config.schema import Config


class Protection(NamedTuple):
    """One thing that can be on or off."""

    name: str
    on: Callable[[Config], bool]
    does: str
    bounds: str
    cost: str
    """As it was measured."""
    price: str
    """The same in a few words, for a table."""
    lacks: str
    source: str
    """The command that measured it."""


PROTECTIONS: Sequence[Protection] = (
    Protection(
        "secrets are replaced before anything is stored",
        lambda config: config.redact.secrets,
        "passwords, keys, tokens and card numbers in what the agent saw and wrote get a mark",
        "0.996 of 10,400 secrets in texts of a new kind were found",
        "0.33 false alarms in 1,000 words and signs of documentation, none in our environments",
        "0.33 false alarms in 1,000 tokens of documentation",
        "passwords of plain words; anything without a form that is known",
        "python -m research.measure_redaction docs/results/redaction.json",
    ),
    Protection(
        "personal data is replaced before anything is stored",
        lambda config: config.redact.personal,
        "addresses, telephone and identity numbers become made-up ones of the same shape; names do "
        "if the site lists them in redact.words",
        "1.000 of 2,600 such data were found",
        "none: 324 of 600 games were won with stand-ins, 319 with the real names",
        "324 of 600 games won, 319 without",
        "names on no list; a story that tells who it is about without naming anybody",
        "python -m research.measure_redaction docs/results/redaction.json; python -m "
        "research.compare_redaction docs/results/redaction-training.json",
    ),
    Protection(
        "the coordinator sees only a sum",
        lambda config: config.aggregate.secure,
        "no site's update can be read by the coordinator, only the sum of all",
        "AUC 0.52 to 0.55 for attacks that do not know the other sites' updates; 0.5 is a guess",
        "1.47 times the CPU time of a round without playing and training; three sites or more",
        "1.47 times the CPU time of a round without playing and training",
        "a third of the sites working with the coordinator: AUC 0.75 where all others did; and "
        "what the sum itself tells",
        "python -m research.measure_secure_sum docs/results/secure-sum.json; python -m "
        "research.leakage_table docs/results/leakage-table.json --cells runs/leakage",
    ),
    Protection(
        "noise bounds what any attack can tell",
        lambda config: config.privacy.on,
        "every step has noise, of which each site adds its share to the sum (step.units above 0) "
        "or all of its own; a budget counts all that ever leaves, and when it is spent the site "
        "abstains",
        "at epsilon 8 an AUC of at most 0.88 in private steps and other full batches, and 0.74 in "
        "20 steps at rate 0.1, for every attack, whatever it knows (fedse privacy budget)",
        "in 36 private steps of five sites with 200 lessons each, 119 of 600 games with epsilon 8, "
        "137 without noise, 63 before training, for 14 times the CPU time of learning; where "
        "each site has noise of its own all of the gain: 67 of 600 games with epsilon 8, 118 "
        "without noise, 63 before training (fedse privacy plan tells what yours buy)",
        "119 of 600 games, 137 without noise, 63 before training; 14 times the CPU time of "
        "learning",
        "results of held-out games; when a site answers; what its owner exports; where sites share "
        "the noise, a third of them or more working with the coordinator",
        "python -m research.private_step docs/results/private-step.json --cells runs/private-step; "
        "python -m research.leakage_table docs/results/leakage-table.json --cells runs/leakage",
    ),
    Protection(
        "an answer that tells too much stays at the site",
        lambda config: bool(least_audit(config)),
        "a site attacks its own answer before it leaves; policy.toml can only make that stricter",
        "an AUC of 0.75, one in ten at 1 % false alarms, 3 bits of a planted secret",
        "an audited round trains nine times and more; with fewer than 100 lessons nothing leaves",
        "an audited round trains nine times and more",
        "attacks that are not among its four; private steps, which send no adapter; runs on one "
        "machine, where nothing leaves",
        "fedse privacy audit",
    ),
)
NEVER: Sequence[str] = (
    "Without noise a reply tells which lessons were learned: AUC 0.69 with the default settings.",
    "Episodes are on the site's disk: encrypt them (fedse privacy encrypt), limit storage.days.",
    "What an adapter learned is not unlearned when a person is forgotten.",
    "Nobody can see whether a site redacts, audits or adds noise: agree on it in writing.",
    "Whether data may be used at all is for your organisation: docs/how-to/security-officer.md.",
)
"""What no preset changes."""


def named_settings(preset: Preset) -> tuple[str, str, str]:
    """What is agreed, what is the site's own in site.toml, and its least strict [audit]."""
    audit = [f"audit.{key} = {value:g}" for key, value in preset.audit.items()]
    agreed, own = ([written(*one) for one in part.items()] for part in (preset.agreed, preset.own))
    agreed += [stated(*one) for one in preset.helps.items()]
    return ", ".join(agreed), ", ".join(own), ", ".join(audit)
