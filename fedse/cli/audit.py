"""`fedse privacy audit`: what does a reply reveal about the lessons behind it?"""

import json as json_format
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fedse.api.auditing import ClientAudit, audit_home, audit_run
from fedse.audit.canary import exposure
from fedse.audit.scores import Estimate, lessons_for
from fedse.audit.verdict import CONTROL_WORDS, AuditResult, AuditRules
from fedse.cli.display import Json, print_aside
from fedse.cli.phrases import counted
from fedse.cli.resume import RunName
from fedse.cli.site_options import opened
from fedse.errors import ConfigError
from fedse.faults import Fault
from fedse.site.rules import in_force, read_rules

Shadows = Annotated[
    int | None,
    Parameter(help="Adapters trained to calibrate the strongest attack; default: as in the rules."),
]
Seed = Annotated[int, Parameter(help="A different seed splits the lessons differently.")]
WIDTHS = (0.1, 0.05)
ATTACKS = {
    "loss": "by its loss under the reply",
    "difference": "by how much its loss fell",
    "lira": "by shadow adapters (LiRA)",
    "cosine": "by the step it asks for",
}
PLACES = {"typed": "typed by the agent", "seen": "seen by the agent"}


def audit(
    run: RunName | None = None,
    /,
    *,
    home: Annotated[
        Path | None, Parameter(help="Audit the next reply of the site in this folder instead.")
    ] = None,
    client: Annotated[str | None, Parameter(help="Only this site; default: all.")] = None,
    round: Annotated[
        int | None, Parameter(help="Audit the reply of this round; default: the last.")
    ] = None,
    shadows: Shadows = None,
    seed: Seed = 0,
    policy: Annotated[
        Path | None, Parameter(help="Judge by [audit] in this policy.toml; default: a new site's.")
    ] = None,
    json: Json = False,
) -> int:
    """Measure what a server can find out from a reply about the lessons behind it; nothing leaves.

    The replies are those of a run (default: the last), or the next one of a site, judged by its
    own policy.toml. The exit code is 40 if one would not pass. With `every` above 0 in [audit] a
    site does this by itself before an answer leaves.

    Example: fedse privacy audit last --json
    """
    if home is None:
        rules = with_shadows(read_rules(policy).audit if policy else AuditRules(), shadows)
        of = partial(audit_run, run or "last", client=client, round=round)
        return show(of(rules=rules, seed=seed, tell=print_aside), rules, json=json)
    if any(given is not None for given in (run, client, round, policy)):
        raise ConfigError(
            "--home audits the next reply of one site, by its own policy.toml",
            hint=f"fedse privacy audit --home {home}",
        )
    return _audit_site(home, shadows, seed, json=json)


def _audit_site(home: Path, shadows: int | None, seed: int, *, json: bool) -> int:
    site = opened(home)
    rules = with_shadows(in_force(read_rules(site.policy), site.config).audit, shadows)
    own = (site.config, site.card.site, site.path)
    return show([audit_home(*own, rules=rules, seed=seed, tell=print_aside)], rules, json=json)


def with_shadows(rules: AuditRules, shadows: int | None) -> AuditRules:
    if shadows is None:
        return rules
    if shadows < 4 or shadows % 2:
        raise ConfigError(
            f"--shadows must be an even number from 4 on, got {shadows}", hint="--shadows 4"
        )
    return rules.model_copy(update={"shadows": shadows})


def show(audits: Sequence[ClientAudit], rules: AuditRules, *, json: bool) -> int:
    """The audits are on stdout; 0 if all of them pass."""
    if json:
        print(json_format.dumps([_facts(audit, rules) for audit in audits]))
    else:
        print("\n\n".join("\n".join(audit_lines(audit, rules)) for audit in audits))
    return 0 if all(audit.result.passes(rules) for audit in audits) else Fault.WITHHELD


def _facts(audit: ClientAudit, rules: AuditRules) -> dict[str, Any]:
    result = audit.result
    return {
        "client": audit.client,
        "round": audit.round,
        "passed": result.passes(rules),
        "objections": list(result.objections(rules)),
        **result.model_dump(mode="json"),
    }


def audit_lines(audit: ClientAudit, rules: AuditRules) -> Iterator[str]:
    """The findings in plain words, for the person who decides."""
    result = audit.result
    yield f"{audit.client}, a reply to round {audit.round}, as the server sees it"
    yield f"  {counted(result.lessons, 'lesson')}, {counted(result.shadows, 'shadow adapter')}"
    if result.attacks:
        yield from _figures(result)
    yield from _precision(result.lessons)
    objections = list(result.objections(rules))
    if not objections:
        limits = f"AUC {rules.max_auc:g}, found {rules.max_tpr:g}, {rules.max_bits:g} bits"
        yield f"  passes: nothing is above the limits ({limits})"
    for objection in objections:
        yield f"  DOES NOT PASS: {objection}"


def _figures(result: AuditResult) -> Iterator[str]:
    yield "  can it tell a lesson from any other episode? AUC, 0.5 = it cannot; 95 % interval"
    for one in result.attacks:
        found = f"found at 1 % false alarms: {_span(one.tpr)}"
        yield f"    {ATTACKS[one.attack]:<28}  {_span(one.auc)}   {found}"
    yield "  does it know a secret? bits of exposure, mean; 1.4 = it does not"
    for canary in result.canaries:
        told = f"{canary.planted} planted once, the worst {canary.most:.1f}"
        most = f"{exposure(1, canary.candidates):g}"
        yield f"    {PLACES[canary.place]:<28}  {_span(canary.bits)}   {told}, of {most}"
    yield "  controls of the audit itself"
    for control in result.controls:
        sign = "yes" if control.succeeded else "NO "
        bounds = f"{control.figure:.2f}, expected {control.low:.2f} to {control.high:.2f}"
        yield f"    {sign}  {CONTROL_WORDS[control.control]}: {bounds}"


def _precision(lessons: int) -> Iterator[str]:
    """A caution where the figures are uncertain."""
    needed = [f"{lessons_for(width)} for +- {width:g}" for width in WIDTHS]
    if lessons < lessons_for(WIDTHS[-1]):
        yield f"  too few lessons: an AUC near 0.5 needs {', '.join(needed)} (95 %)"
    if lessons < 100:
        yield "  with fewer than 100 lessons, a false-alarm rate of 1 % means no false alarm at all"


def _span(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
