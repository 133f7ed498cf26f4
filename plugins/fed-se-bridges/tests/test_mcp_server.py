"""A server's process as the MCP bridge meets it: polite, unfriendly, late, dying, abandoned."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.needs import needs

needs("mcp")

from fedse.errors import EnvError
from fedse_bridges.mcp_call import manual, state_of, text_of
from fedse_bridges.mcp_server import McpServer, Refused

# Shakes hands; then each test's own lines speak: `read()` gives a request, `say(...)` writes.
STUB = """
import json, sys, time
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def read():
    while "id" not in (asked := json.loads(sys.stdin.readline())):
        pass
    return asked
hello = read()
say(id=hello["id"], result={
    "protocolVersion": hello["params"]["protocolVersion"],
    "capabilities": {}, "serverInfo": {"name": "stub", "version": "1"}})
"""
LEAVES = "\nsys.stdin.read()"
STAYS = "\ntime.sleep(60)"


def stub(code: str, *, timeout: float = 30.0) -> McpServer:
    return McpServer([sys.executable, "-c", STUB + code + LEAVES], timeout=timeout)


def stubs() -> list[int]:
    """Those that this process has running."""
    running = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            running += [child.pid] if STUB in "".join(child.cmdline()) else []
    return running


@pytest.fixture(autouse=True)
def _all_end() -> Iterator[None]:
    yield
    ends = time.monotonic() + 20
    while stubs() and time.monotonic() < ends:
        time.sleep(0.05)
    assert stubs() == []


def test_tools_come_page_by_page_and_as_the_server_wrote_them() -> None:
    """What the agent reads of a schema is the schema: order, nulls and unknown keys."""
    schema = {"type": "object", "z": 1, "properties": {"q": {"default": None}}, "a": None}
    server = stub(
        f"""
one = {{"name": "one", "description": None, "inputSchema": {schema!r}}}
two = {{"name": "two", "description": "The  second.", "inputSchema": {{"type": "object"}}}}
say(id=read()["id"], result={{"tools": [one], "nextCursor": "more"}})
asked = read()
assert asked["params"]["cursor"] == "more", asked
say(id=asked["id"], result={{"tools": [two]}})
"""
    )
    assert manual(server.tools()).splitlines()[-2:] == [
        '- one:  Arguments: {"type": "object", "z": 1, "properties": {"q": {"default": null}}, '
        '"a": null}',
        '- two: The second. Arguments: {"type": "object"}',
    ]
    server.end()


def test_arguments_arrive_and_results_return_as_they_are() -> None:
    server = stub(
        """
asked = read()
said = json.dumps([asked["params"]["name"], asked["params"]["arguments"]])
content = [{"type": "text", "text": said}]
say(id=asked["id"], result={"content": content, "structuredContent": {"x": None}})
asked = read()
contents = [{"uri": asked["params"]["uri"], "text": "[1, null]"}]
say(id=asked["id"], result={"contents": contents})
"""
    )
    arguments = {"none": None, "big": 10**30, "text": "é\u2028", "list": [None, {"a": None}]}
    result = server.call("tool", arguments)
    assert text_of(result) == (
        '["tool", {"none": null, "big": 1000000000000000000000000000000, "text": "\\u00e9\\u2028", '
        '"list": [null, {"a": null}]}]'
    )
    assert state_of(result) == {"x": None}
    assert state_of(server.read("shop://state")) == [1, None]
    server.end()


def test_a_server_that_refuses_or_asks_something_itself_lives_on() -> None:
    server = stub(
        """
asked = read()
say(id="x", method="ping")
assert read() == {"jsonrpc": "2.0", "id": "x", "result": {}}
say(method="notifications/message", params={"level": "info", "data": "by the way"})
say(id=asked["id"], error={"code": -32000, "message": "not on Sundays"})
say(id=read()["id"], result={"content": []})
"""
    )
    with pytest.raises(Refused, match=r"^not on Sundays$"):
        server.call("tool", {})
    assert text_of(server.call("tool", {})) == "(nothing)"
    server.end()


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("print('[1]', flush=True)", r"expected JSON on its stdout, got b'\[1\]'"),
        ("print('hm', flush=True)", "expected JSON on its stdout, got b'hm'"),
        ("sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()", "expected JSON"),
        ("say(id=read()['id'], result={})", "broke off in tools/call"),
        ("say(id=read()['id'], result=[])", "expected JSON"),
        ("sys.exit('out of paper')", "it closed its stdout; its stderr ends with: out of paper"),
        (STAYS, "gave no answer to tools/call in 1 s"),
    ],
)
def test_what_is_no_answer_breaks_the_request_in_time(code: str, cause: str) -> None:
    """Also a server that does not read what it is sent, which is more than a pipe holds."""
    server = stub(code, timeout=30.0)
    server._timeout = 1.0 if code == STAYS else 30.0
    began = time.monotonic()
    with pytest.raises(EnvError, match=cause):
        server.call("tool", {"much": "x" * 2_000_000})
    assert time.monotonic() - began < 5
    with pytest.raises(EnvError, match="has ended before tools/call"):
        server.call("tool", {})


def test_one_that_died_while_nobody_asked_is_seen() -> None:
    server = stub("say(id=read()['id'], result={})")
    assert server.alive
    [pid] = stubs()
    psutil.Process(pid).kill()
    assert not server.alive
    assert not server.end.alive


LEFT_OPEN = """
import sys
from fedse_bridges.mcp_server import McpServer
from fedse.errors import EnvError
server = McpServer([sys.executable, "-c", sys.argv[1]], timeout=30)
late = McpServer([sys.executable, "-c", sys.argv[1]], timeout=30)
late._timeout = 0.1
try:
    late.call("tool", {})
except EnvError:
    print("late", flush=True)
"""


def test_a_program_that_forgets_its_servers_ends_and_they_do(tmp_path: Path) -> None:
    started = tmp_path / "pids"
    told = f"\nimport os; print(os.getpid(), file=open({str(started)!r}, 'a'))"
    code = [sys.executable, "-c", LEFT_OPEN, STUB + told + STAYS]
    done = subprocess.run(code, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("late\n", "")
    pids = [int(line) for line in started.read_text().split()]
    assert len(pids) == 2
    assert not any(map(psutil.pid_exists, pids))
