"""The version of this package, which the build reads as well, and that of what travels."""

__version__ = "0.2.0.dev0"
PROTOCOL = 1
"""Of the messages, and of what the agreed settings mean. Releases with the same number work
together in one round; `tests/invariants/protocol.json` has what belongs to it."""
