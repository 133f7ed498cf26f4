"""Network namespaces of Linux, one for each party, and lines between them that delay and lose.

Needs root, the command ip and /dev/net/tun. Nothing outside them is changed. The lines are
a program of ours, because netem is no part of many kernels: every packet of a party comes out of a
device of its namespace, and goes into that of the one it is for, later or never.

    python -m tests.system.namespaces DELAY JITTER LOSS NAMESPACE=ADDRESS ...
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

PREFIX, SUBNET, DEVICE = "fsr-", "10.77.0.", "line"
TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000
LONGEST = 65536
DESTINATION = slice(16, 20)
"""Of a packet, the address it is for."""


class Line(NamedTuple):
    """What happens to every packet."""

    delay: float
    """Seconds; so much, and up to `jitter` more."""
    jitter: float
    loss: float
    """Share of packets."""

    @property
    def words(self) -> str:
        return f"delay {1000 * self.delay:g} to {1000 * (self.delay + self.jitter):g} ms, " + (
            f"loss {100 * self.loss:g} %"
        )


@contextmanager
def parties_apart(parties: Sequence[str], line: Line) -> Iterator[Mapping[str, str]]:
    """Each party has a namespace and, by name, an address; none of it is left afterwards."""
    addresses = {party: f"{SUBNET}{place}" for place, party in enumerate(parties, 2)}
    relay = None
    try:
        for party in parties:
            _run("ip", "netns", "add", PREFIX + party)
            _inside(PREFIX + party, "ip", "link", "set", "lo", "up")
        places = [f"{PREFIX}{party}={address}" for party, address in addresses.items()]
        command = [sys.executable, "-m", "tests.system.namespaces", *map(str, line), *places]
        relay = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert relay.stdout
        assert relay.stdout.readline() == b"ready\n"
        yield addresses
    finally:
        if relay:
            relay.kill()
            relay.wait()
        for party in parties:
            with suppress(subprocess.CalledProcessError):
                _run("ip", "netns", "del", PREFIX + party)


def through(party: str) -> list[str]:
    """What a command comes after to run at the party."""
    return ["ip", "netns", "exec", PREFIX + party]


def main(argv: Sequence[str]) -> None:
    """Packets pass until it is ended."""
    line, places = Line(*map(float, argv[:3])), dict(one.split("=") for one in argv[3:])
    ends = {_packed(address): _device(space, address) for space, address in places.items()}
    print("ready", flush=True)
    ready, waiting, number = select.epoll(), list[tuple[float, int, bytes]](), 0
    for end in ends.values():
        ready.register(end, select.EPOLLIN)
    while True:
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else -1
        for end, _ in ready.poll(wait):
            packet, number = os.read(end, LONGEST), number + 1
            if random.random() >= line.loss:
                late = line.delay + line.jitter * random.random()
                heapq.heappush(waiting, (time.monotonic() + late, number, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            packet = heapq.heappop(waiting)[2]
            if (end := ends.get(packet[DESTINATION])) is not None:
                with suppress(OSError):
                    os.write(end, packet)


def _device(space: str, address: str) -> int:
    """The end of a new device in the namespace that packets of it can be read from."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{space}", os.O_RDONLY)
    _enter(other)
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    _run("ip", "address", "add", f"{address}/24", "dev", DEVICE)
    _run("ip", "link", "set", DEVICE, "up")
    _enter(own)
    os.close(own)
    os.close(other)
    return end


def _enter(space: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(space, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _packed(address: str) -> bytes:
    return socket.inet_aton(address)


def _inside(space: str, *command: str) -> None:
    _run("ip", "netns", "exec", space, *command)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main(sys.argv[1:])
