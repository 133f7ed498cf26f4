"""`fedse privacy keys`: the public keys that a secure sum trusts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.cli.site_options import HERE, HomeOption
from fedse.errors import ConfigError, require_packages

Keys = Annotated[str, Parameter(help="NAME=KEY for every site; without any, show the keys.")]


def keys(
    *keys: Keys,
    home: HomeOption = HERE,
    dir_: Annotated[
        Path | None, Parameter(name="--dir", help="At the coordinator: the federation's folder.")
    ] = None,
) -> None:
    """Show this site's own key, and record the keys of all sites for secure sums.

    Get the keys from the sites themselves, not through the coordinator, and compare the
    fingerprint with them: anyone who can replace a key here can impersonate that site. The
    coordinator needs them too, to verify who sent what in a sum.

    Example: fedse privacy keys --home site
    """
    require_packages("a secure sum", "cryptography", "Crypto", extra="secure")
    folder, members = _site(home, keys) if dir_ is None else _coordinator(dir_)
    if keys:
        from fedse.secure_sum.directory import parse_directory, write_directory

        write_directory(folder, parse_directory(parse_keys(keys, members=members)))
    _show(folder)


def _site(home: Path, keys: Sequence[str]) -> tuple[Path, Sequence[str]]:
    """Where a site keeps the keys, and its name; its own key is printed and must match."""
    from fedse.federation.home import open_home
    from fedse.ledger.keys import new_signer

    site = open_home(home)
    own = new_signer(site.path)
    assert own
    mine, members = f"{site.card.site}={own.public}", tuple(site.config.members)
    print(f"this site: {mine}")
    if keys and mine not in keys:
        parse_keys(keys, members=members)
        raise ConfigError(
            f"the key given for {site.card.site} is not this site's own", hint="fedse privacy keys"
        )
    return site.path, members


def _coordinator(folder: Path) -> tuple[Path, Sequence[str]]:
    from fedse.federation.folder import open_federation
    from fedse.store.run_folder import run_config

    run = open_federation(folder).run
    return run, tuple(run_config(run).members)


def parse_keys(given: Sequence[str], *, members: Sequence[str]) -> dict[str, str]:
    """The key of every member; a missing, unknown or repeated member is refused."""
    pairs = [one.partition("=")[::2] for one in given]
    told = dict(pairs)
    if len(told) != len(pairs) or set(told) != set(members):
        raise ConfigError(
            f"expected one key for each of {', '.join(sorted(members))}, "
            f"got {', '.join(name for name, _ in pairs)}",
            hint="each site shows its own: fedse privacy keys",
        )
    return told


def _show(folder: Path) -> None:
    from fedse.secure_sum.directory import MEMBERS, directory_fingerprint, read_directory

    if not (folder / MEMBERS).exists():
        print("no keys yet: add NAME=KEY for every site")
        return
    known = read_directory(folder)
    for name, key in sorted(known.items()):
        print(f"{name}={key}")
    print(f"fingerprint, the same at every site: {directory_fingerprint(known)}")
