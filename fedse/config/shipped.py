"""Experiments that come with the package, by the names that stand for their files."""

from collections.abc import Mapping

SHIPPED: Mapping[str, tuple[str, str]] = {
    "demo": ("fedse", "demo.toml"),
    "desk": ("fedse", "desk.toml"),
    "five-worlds": ("fedse", "experiments/five-worlds.toml"),
    "one-world": ("fedse", "experiments/one-world.toml"),
    "paper": ("fedse", "experiments/paper.toml"),
    "qwen2.5-1.5b": ("fedse", "experiments/qwen2.5-1.5b.toml"),
    "qwen2.5-7b": ("fedse", "experiments/qwen2.5-7b.toml"),
}
"""Name -> the package and the file in it."""
