"""`fedse site members`, `fedse federation members`: whose public keys a secure sum believes in."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.cli.federation_options import HERE, Folder
from fedse.errors import ConfigError, require_packages

SITE = Path("site")
Keys = Annotated[str, Parameter(help="Every member as NAME=KEY; without any, what is there.")]


def site_members(
    *keys: Keys, home: Annotated[Path, Parameter(help="The site's folder.")] = SITE
) -> None:
    """Show this site's own key, and write down the keys of all members for secure sums.

    Get the keys from the members themselves, not through the coordinator, and compare the
    fingerprint with them: whoever can replace a key here can pass for that member.
    Example: fedse site members --home site
    """
    _require()
    from fedse.federation.home import open_home
    from fedse.ledger.keys import new_signer

    site = open_home(home)
    own = new_signer(site.path)
    assert own
    print(f"this site: {site.card.site}={own.public}")
    if keys:
        told = parse_keys(keys, members=tuple(site.config.members))
        if told[site.card.site] != own.public:
            raise ConfigError(
                f"the key given for {site.card.site} is not this site's own",
                hint="fedse site members",
            )
        _write(site.path, told)
    _show(site.path)


def federation_members(*keys: Keys, dir_: Folder = HERE) -> None:
    """Write down the keys of all members, by which the server tells who sent what in a sum.

    Example: fedse federation members --dir federation
    """
    _require()
    from fedse.config.file import load_config
    from fedse.federation.folder import open_federation

    run = open_federation(dir_).run
    if keys:
        members = tuple(load_config(run / "config.resolved.toml").members)
        _write(run, parse_keys(keys, members=members))
    _show(run)


def parse_keys(given: Sequence[str], *, members: Sequence[str]) -> dict[str, str]:
    """The key of every member; one that is missing, strange or twice is refused."""
    pairs = [one.partition("=")[::2] for one in given]
    told = dict(pairs)
    if len(told) != len(pairs) or set(told) != set(members):
        raise ConfigError(
            f"expected one key for each of {', '.join(sorted(members))}, "
            f"got {', '.join(name for name, _ in pairs)}",
            hint="each site shows its own: fedse site members",
        )
    return told


def _write(folder: Path, keys: Mapping[str, str]) -> None:
    from fedse.secure_sum.directory import parse_directory, write_directory

    write_directory(folder, parse_directory(keys))


def _show(folder: Path) -> None:
    from fedse.secure_sum.directory import MEMBERS, directory_fingerprint, read_directory

    if not (folder / MEMBERS).exists():
        print("no keys of members yet: add NAME=KEY for every member")
        return
    known = read_directory(folder)
    for name, key in sorted(known.items()):
        print(f"{name}={key}")
    print(f"fingerprint, the same at every member: {directory_fingerprint(known)}")


def _require() -> None:
    require_packages("a secure sum", "cryptography", "Crypto", extra="secure")
