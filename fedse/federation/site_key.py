"""Whether the key in a site's home is intact."""

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)

from fedse.errors import StoreError, boundary
from fedse.federation.keys import NodeKey
from fedse.store.files import from_backup


def require_node_key(key: NodeKey) -> None:
    """The node's key is usable, and the public part beside it matches."""
    private, public = key
    lost = f"{from_backup(private)}; without one, ask the coordinator to revoke this site and for "
    with boundary(StoreError, f"key {private} is damaged", hint=f"{lost}a new invitation"):
        own = load_ssh_private_key(private.read_bytes(), password=None).public_key()
    made = own.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    if not public.is_file() or public.read_bytes().strip() != made:
        raise StoreError(
            f"{public} is not the public part of {private}",
            hint=f"ssh-keygen -y -f {private} > {public}",
        )
