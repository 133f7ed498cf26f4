"""Which adapter a server answers with: it is loaded under its digest before it is used.

Every reply proves its origin: with LoRA by the model's name, which is the adapter's digest and is
never reused; with merged weights by the version the server attaches to each piece of a reply.
A server that has lost an adapter because it was restarted gets it again.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Protocol

from fedse.adapters.peft_folder import WEIGHTS, export_whole
from fedse.engine.client import EngineClient, Sampled, Sampling
from fedse.errors import RunError
from fedse.types import Adapter

KEPT = 2
"""Adapters in a server at once: the one that acts and the one before it. One of several parts
counts as many."""
TRIES = 20
"""How many times an adapter is loaded for one reply before giving up on the server."""


class ActingAdapters(Protocol):
    """A server and the adapters in it."""

    def sample(self, adapter: Adapter, prompt: Sequence[int], how: Sampling) -> Sampled:
        """Tokens that `adapter`, and no other, drew after `prompt`."""
        ...

    def take_out(self) -> None:
        """No adapter loaded from here is left in the server."""
        ...


class LoraAdapters:
    """Each adapter is a LoRA of the server, named after its digest."""

    def __init__(self, client: EngineClient, folder: Path, *, kept: int = KEPT) -> None:
        self._client, self._folder, self._kept = client, folder, kept
        self._lock = threading.Lock()
        self._in: list[str] = []
        """Digests, the newest last."""

    def sample(self, adapter: Adapter, prompt: Sequence[int], how: Sampling) -> Sampled:
        for _ in range(TRIES):
            self._put_in(adapter)
            sampled = self._client.complete(adapter.digest, prompt, how)
            if sampled is not None:
                return sampled
            self._forget(adapter.digest)
        raise _lost(self._client.url, adapter.digest)

    def take_out(self) -> None:
        with self._lock:
            while self._in:
                self._take_out(self._in.pop())

    def _forget(self, digest: str) -> None:
        with self._lock:
            if digest in self._in:
                self._in.remove(digest)

    def _put_in(self, adapter: Adapter) -> None:
        digest = adapter.digest
        with self._lock:
            if digest in self._in:
                return
            if not self._is_in(adapter):
                self._client.unload_lora(digest)
                self._client.load_lora(digest, str(self._export(adapter)))
            self._in.append(digest)
            while len(self._in) > self._kept:
                self._take_out(self._in.pop(0))

    def _is_in(self, adapter: Adapter) -> bool:
        """Whether the server has it; a different adapter of that name is an error."""
        folder = self._client.models().get(adapter.digest)
        file = Path(folder or "") / WEIGHTS
        if folder is None or not file.is_file():
            return False
        if file.read_bytes() != adapter.to_bytes():
            raise RunError(
                f"the engine {self._client.url} answers to the name {adapter.digest} with "
                f"another adapter, loaded from {folder}",
                hint="restart the engine, and make sure nobody else loads adapters into it",
            )
        return True

    def _export(self, adapter: Adapter) -> Path:
        folder = self._folder / adapter.digest
        if not _holds(folder, adapter):
            shutil.rmtree(folder, ignore_errors=True)
            export_whole(adapter, folder)
        return folder

    def _take_out(self, digest: str) -> None:
        self._client.unload_lora(digest)
        shutil.rmtree(self._folder / digest, ignore_errors=True)


def _holds(folder: Path, adapter: Adapter) -> bool:
    """Whether the folder has the adapter's exact bytes; an earlier process may have damaged it."""
    file = folder / WEIGHTS
    return file.is_file() and file.read_bytes() == adapter.to_bytes()


class MergedAdapters:
    """One adapter at a time, merged into the server's weights."""

    def __init__(
        self,
        client: EngineClient,
        folder: Path,
        write_merged: Callable[[Adapter, Path], None],
    ) -> None:
        self._client, self._folder, self._write = client, folder, write_merged
        self._lock = threading.Lock()
        self._newest = ""
        """The digest that was last loaded from here; another site may have replaced it since."""

    def sample(self, adapter: Adapter, prompt: Sequence[int], how: Sampling) -> Sampled:
        if self._newest != adapter.digest:
            self._put_in(adapter)
        for _ in range(TRIES):
            sampled = self._client.generate(prompt, how)
            if set(sampled.weights) == {adapter.digest}:
                return sampled
            self._put_in(adapter)
        raise _lost(self._client.url, adapter.digest)

    def take_out(self) -> None:
        """Does nothing: the next adapter replaces the present one."""

    def _put_in(self, adapter: Adapter) -> None:
        with self._lock, _alone_with(self._client.url):
            self._newest = adapter.digest
            # Another thread or another site may already have done it.
            if self._client.weights_version() == adapter.digest:
                return
            folder = self._folder / f"merged-{adapter.digest}-{os.getpid()}"
            try:
                self._write(adapter, folder)
                self._client.replace_weights(str(folder), adapter.digest)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone_with(url: str) -> Iterator[None]:
    """No other process on this machine changes the server's weights meanwhile."""
    name = f"fedse-engine-{sha256(url.encode()).hexdigest()[:16]}.lock"
    file = os.open(Path(gettempdir()) / name, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o666)
    try:
        flock(file, LOCK_EX)
        yield
    finally:
        os.close(file)


def _lost(url: str, digest: str) -> RunError:
    return RunError(
        f"the engine {url} lost adapter {digest[:12]} {TRIES} times during a request",
        hint="two sites with different adapters each need their own engine when "
        "engine.adapters is 'merged'; otherwise see the engine's log",
    )
