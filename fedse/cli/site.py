"""`fedse site`: join a federation, preview what would leave, take part, pause, review."""

import json as json_format
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import App, Parameter

from fedse.adapters.base import spec_of
from fedse.aggregate.factors import narrowed, travelling_spec
from fedse.cli.agreement import agreement
from fedse.cli.display import Json
from fedse.cli.env import Options
from fedse.cli.federation_options import require_flower, require_flower_and_model
from fedse.cli.site_options import HERE, HomeOption, opened
from fedse.cli.site_start import start
from fedse.cli.site_status import status
from fedse.config.file import parse_options
from fedse.envs.base import make_env
from fedse.federation.security import note
from fedse.site.acting import engine_of
from fedse.site.rules import set_pause
from fedse.stats.verdict import p_text

if TYPE_CHECKING:
    from fedse.flower.preview import Preview
    from fedse.site.choose_adapter import ChosenAdapter

app = App(name="site", help_format="plaintext", help_epilogue="")

Experience = Annotated[
    Path | None, Parameter(help="Home in an earlier federation: what it has learned from moves.")
]

Roles = Annotated[
    list[str], Parameter(help="A role of the agent that acts here; may be repeated. None = all.")
]


@app.command
def join(
    invite: Annotated[Path, Parameter(help="The file the coordinator sent.")],
    /,
    *,
    home: HomeOption = HERE,
    env: Annotated[str, Parameter(help="The environment played here; it stays here.")],
    option: Options = [],  # noqa: B006  only read
    base: Annotated[str | None, Parameter(help="Folder of the base model, if not shipped.")] = None,
    role: Roles = [],  # noqa: B006  only read
    fingerprint: Annotated[
        str, Parameter(help="Fingerprint of the coordinator's key, as they read it to you.")
    ] = "",
    experience: Experience = None,
) -> None:
    """Check an invitation, make the site's key and its rules; nothing is sent.

    Example: fedse site join clinic-a.invite.json --env my_env:MyEnv --fingerprint 12ab-...
    """
    require_flower()
    from fedse.federation.experience import move_experience
    from fedse.federation.home import agreed_config
    from fedse.federation.home import join as join_federation
    from fedse.federation.invite import read_invite
    from fedse.flower.messages.bundle import own_digest

    offered = read_invite(invite, trusted=fingerprint, now=time.time())
    options = parse_options(option)
    make_env(env, options).close()
    config = agreed_config(offered, env=env, options=options, base=base, roles=role)
    move = partial(move_experience, home=home, config=config, clock=time.time)
    settle = partial(move, experience) if experience else None
    made = join_federation(offered, config, home, bundle=own_digest(), settle=settle)
    note(home, "site.joined", clock=time.time)
    print(f"joined   {made.card.federation} as {made.card.site}; nothing was sent")
    if experience:
        print(f"moved    episodes and privacy budget, from {experience}; keep its ledger")
    print(f"rules    {made.policy}  (yours to change)")
    print(f"send     {home / 'enrolment.json'} to the coordinator")
    print(f"next     fedse site preview --home {home}")


app.command(agreement)


@app.command
def preview(*, home: HomeOption = HERE, json: Json = False) -> None:
    """Show every field and every byte that would leave in a round, and what would not.

    Example: fedse site preview --json
    """
    site = opened(home)
    from fedse.flower.preview import preview as preview_round

    place = sorted(site.config.members).index(site.card.site)
    voted = site.config.roles.blocks_voted_on(site.config.client(site.card.site).roles)
    sent = narrowed(travelling_spec(spec_of(site.config), site.config), voted)
    contents = preview_round(sent, place=place)
    if json:
        print(contents.model_dump_json())
        return
    print(f"One round of {site.card.site}, to {site.card.server} and nowhere else\n")
    print("\n".join([*_what_leaves(contents), "", *_what_stays(contents)]))


def _what_leaves(contents: "Preview") -> Iterator[str]:
    from fedse.federation.rotation import RotationRequest

    rotation = RotationRequest.model_fields
    yield "numbers (examples)"
    longest = max(len(field.name) for field in contents.numbers)
    for field in contents.numbers:
        yield f"  {field.name:<{longest}}  {field.kind:<5}  {field.example}"
    kinds = tensor_kinds(contents.tensors)
    numbers = sum(alike.times * prod(alike.shape) for alike in kinds)
    yield ""
    size = f"{numbers} numbers in {len(contents.tensors)} tensors"
    yield f"adapter, {contents.adapter_bytes} bytes: {size}"
    for alike in kinds:
        yield f"  {alike.times:>3} of  {alike.name}  {' x '.join(map(str, alike.shape))}"
    yield "  (* is the number of a layer; --json lists every tensor)"
    yield "\nas Flower packs it, bytes"
    for part in contents.parts:
        yield f"  {part.kind:<16}  {part.bytes:>10}"
    yield f"  {'all':<16}  {contents.bytes:>10}  (at most {contents.bytes_at_most})"
    yield f"\nFlower adds to a message: {', '.join(contents.envelope)}"
    yield "and to each request these headers (examples)"
    longest = max(map(len, contents.headers))
    for name, value in contents.headers.items():
        yield f"  {name:<{longest}}  {value[:60]}"
    yield f"it asks for: {', '.join(contents.requests)}"
    yield f"if something breaks, instead of a reply: {'; or: '.join(contents.when_it_breaks)}"
    yield f"before that, once, sent by you: enrolment.json ({', '.join(contents.once)})"
    yield f"if you replace the site's key, sent by you: rotation.json ({', '.join(rotation)})"


def _what_stays(contents: "Preview") -> Iterator[str]:
    yield "stays here, no reply has a field for it"
    for kind, names in contents.stays.items():
        yield f"  {kind:<12}  {', '.join(names)}"
    yield "  files         buffer.db, worker.log, policy.toml, experiment.toml, node.key"
    yield "\nThe adapter is learned from what stays here, and can reveal parts of it."


class TensorKind(NamedTuple):
    """Tensors that differ in nothing but the number of their layer."""

    name: str
    shape: tuple[int, ...]
    times: int


def tensor_kinds(tensors: Mapping[str, tuple[int, ...]]) -> list[TensorKind]:
    """The tensors by kind, in the order they come."""
    alike = [(re.sub(r"(?<=\.)\d+(?=\.)", "*", name), shape) for name, shape in tensors.items()]
    return [TensorKind(name, shape, times) for (name, shape), times in Counter(alike).items()]


app.command(start)
app.command(status)


@app.command
def rotate(*, home: HomeOption = HERE) -> None:
    """Create a new key for this site and a request that asks the coordinator to accept it.

    Nothing is sent. The site uses the old key until the request is accepted, and then switches to
    the new one. If the old key may have been stolen, ask to be revoked instead.

    Example: fedse site rotate --home site
    """
    site = opened(home)
    from fedse.federation.rotation import begin_rotation

    begin_rotation(site)
    note(home, "key.requested", clock=time.time)
    accept = f"fedse federation enrol {site.card.site}-rotation.json"
    print(f"send     {home / 'rotation.json'} to the coordinator, who accepts it with: {accept}")
    print(f"next     fedse site start --home {home}, unless it is already running")


@app.command
def adapter(
    *,
    home: HomeOption = HERE,
    out: Annotated[Path, Parameter(help="The new folder; PEFT and vLLM load it.")],
    games: Annotated[int, Parameter(help="Validation games each candidate plays.")] = 200,
    risk: Annotated[
        float,
        Parameter(help="Highest probability of an adapter worse than working alone."),
    ] = 0.05,
    json: Json = False,
) -> None:
    """Export the adapter that serves this site best: shared, personal, or made without others.

    All candidates play the site's validation games. An adapter of the federation is exported only
    if it is significantly better than one trained on the site's own data. Nothing leaves the site.

    Example: fedse site adapter --out best --games 200
    """
    require_flower_and_model()
    from fedse.adapters.peft_folder import export_whole
    from fedse.site.choose_adapter import choose_adapter
    from fedse.site.open import open_site

    own = opened(home)
    with engine_of(own.config).ready(own.path / "engine"):
        site = open_site(own.config, own.card.site, own.path, clock=time.time)
        with closing(site.buffer):
            chosen = choose_adapter(site, own.config, own.path, games=games, risk=risk)
    export_whole(chosen.adapter, out)
    _print_choice(chosen, out, risk, json=json)


def _print_choice(chosen: "ChosenAdapter", out: Path, risk: float, *, json: bool) -> None:
    choice = chosen.choice
    if json:
        facts = {**choice._asdict(), "games": chosen.games, "adapter": chosen.adapter.digest}
        print(json_format.dumps(facts))
        return
    for name, won in choice.won.items():
        better = f"  better than alone: p {p_text(choice.p[name])}" if name in choice.p else ""
        print(f"{name:<9} {won} of {chosen.games} succeeded{better}")
    print(
        f"exported {choice.name} to {out}; worse than alone with a probability of {risk:g} at most"
    )


@app.command
def pause(
    *,
    home: HomeOption = HERE,
    end: Annotated[bool, Parameter(help="End the pause and take part again.")] = False,
) -> None:
    """Do no work and cast no vote until the pause ends; a running site obeys at the next request.

    Example: fedse site pause --end
    """
    set_pause(opened(home).policy, not end)
    again = f"paused; take part again with: fedse site pause --end --home {home}"
    print("takes part again from the next request on" if end else again)
