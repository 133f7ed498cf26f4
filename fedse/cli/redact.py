"""`fedse privacy redact`: what is or would be replaced in the episodes that a site has stored."""

import json as json_format
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from fedse.adapters.base import base_path
from fedse.cli.display import Json
from fedse.cli.phrases import counted
from fedse.cli.site_options import HERE, HomeOption, buffer_of, idle, opened
from fedse.config.redaction import RedactSection
from fedse.errors import ConfigError, MachineError, boundary, is_installed
from fedse.redact.episode import Redactor, episode_filter, pseudonyms_in
from fedse.redact.finding import finder_for
from fedse.redact.pseudonyms import Replacement, plan_redaction
from fedse.types import Trajectory

if TYPE_CHECKING:
    from fedse.federation.home import Home

Texts = Annotated[
    list[Path], Parameter(name="--text", help="Check this text file instead.", show_default=False)
]


class Looked(NamedTuple):
    """What was found in one episode or file."""

    replacements: tuple[Replacement, ...]
    already: Counter[str]
    """Pseudonyms that it contains now, by kind."""


def redact(
    *,
    home: HomeOption = HERE,
    dry_run: Annotated[bool, Parameter(help="Change nothing, only count.")] = False,
    show: Annotated[bool, Parameter(help="With --dry-run: also print each value.")] = False,
    text: Texts = [],  # noqa: B006  only read
    json: Json = False,
) -> None:
    """Replace secrets and personal data in the stored episodes with pseudonyms.

    [redact] in site.toml sets what is looked for. New episodes are redacted before they are
    stored; this command is for those stored earlier, and to try settings. Adapters trained
    earlier do not change.

    Example: fedse privacy redact --dry-run
    """
    site = opened(home)
    settings = site.config.redact
    if dry_run:
        _dry_run(site, text, show=show, json=json)
        return
    if text or show:
        raise ConfigError(
            "--text and --show change nothing, so they need --dry-run",
            hint="fedse privacy redact --dry-run",
        )
    if not settings.on:
        raise ConfigError(
            f"nothing is redacted at this site: [redact] in {home / 'site.toml'} is off",
            hint=f"set secrets = true there; first: fedse privacy redact --dry-run --home {home}",
        )
    changed = _rewrite(site)
    print(json_format.dumps({"changed": changed}) if json else f"changed  {changed} stored records")


def _rewrite(site: "Home") -> int:
    from fedse.agent.tokens import load_encoder

    settings, home = site.config.redact, site.path
    with idle(home, "privacy redact"):
        encoder = load_encoder(base_path(site.config.model.base))
        made = episode_filter(settings, home, encoder)
        with buffer_of(home, redact=made) as buffer:
            return buffer.rewrite()


def _dry_run(site: "Home", files: Iterable[Path], *, show: bool, json: bool) -> None:
    settings = site.config.redact
    tried = _tried(settings)
    texts = list(files)
    redactor = Redactor(finder_for(tried, site.path))
    looked = list(_files(texts, redactor) if texts else stored_findings(site))
    if json:
        print(json_format.dumps(_facts(looked, show=show)))
        return
    if tried != settings:
        print(f"[redact] is off; with secrets = true, personal = {str(tried.personal).lower()}:")
    _print(looked, what="file" if texts else "episode", show=show)


def _tried(settings: RedactSection) -> RedactSection:
    return settings.or_all(personal=is_installed("presidio_analyzer"))


def stored_findings(site: "Home") -> Iterator[Looked]:
    """What is found in each stored episode with the site's settings, or with all on."""
    home, settings = site.path, site.config.redact
    redactor = Redactor(finder_for(_tried(settings), home))
    if not (home / "buffer.db").is_file():
        return
    with buffer_of(home) as buffer:
        seen: set[str] = set()
        for episode in buffer.episodes():
            digest = episode.content_digest
            if digest not in seen:
                seen.add(digest)
                yield _look(episode, redactor)


def _look(episode: Trajectory, redactor: Redactor) -> Looked:
    plan = redactor.plan(episode)
    return Looked(tuple(plan.replacements()) if plan else (), pseudonyms_in(episode))


def _files(files: Iterable[Path], redactor: Redactor) -> Iterator[Looked]:
    for file in files:
        with boundary(MachineError, f"cannot read {file}"):
            content = file.read_text(encoding="utf-8")
        yield Looked(
            tuple(plan_redaction([content], redactor.find, shapes={}).replacements()), Counter()
        )


def _facts(looked: list[Looked], *, show: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "looked_at": len(looked),
        "changed": sum(bool(one.replacements) for one in looked),
        "kinds": count_kinds(looked),
    }
    if show:
        facts["replacements"] = [r._asdict() for one in looked for r in one.replacements]
    return facts


def count_kinds(looked: list[Looked]) -> dict[str, dict[str, int]]:
    """By kind: places and values found, episodes they are in, and places replaced before."""
    kinds: dict[str, dict[str, int]] = defaultdict(
        lambda: {"places": 0, "values": 0, "in": 0, "already": 0}
    )
    for one in looked:
        for replacement in one.replacements:
            kinds[replacement.kind]["places"] += replacement.times
            kinds[replacement.kind]["values"] += 1
        for kind in {replacement.kind for replacement in one.replacements}:
            kinds[kind]["in"] += 1
        for kind, times in one.already.items():
            kinds[kind]["already"] += times
    return dict(sorted(kinds.items()))


def _print(looked: list[Looked], *, what: str, show: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fedse.cli.transcript import visible

    console = Console(soft_wrap=True)
    table = Table("kind", "places", "values", f"{what}s", "replaced before", box=None)
    for kind, numbers in count_kinds(looked).items():
        table.add_row(kind, *map(str, numbers.values()))
    console.print(table)
    if show:
        for one in looked:
            for kind, value, pseudonym, times in one.replacements:
                console.print(Text(f"{kind}  {visible(value)} -> {pseudonym}  ({times})"))
    changed = sum(bool(one.replacements) for one in looked)
    print(f"{changed} of {counted(len(looked), what)} would change; nothing was changed")
