# `just check` is what CI runs; `just demo` is what a newcomer runs.

python := ".venv/bin/python"

setup:
    .ci/install

lint:
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/mypy

fast := "not slow and not federated and not long"

test:
    {{python}} -m pytest -m "{{fast}}" -n 2 --dist worksteal

# Fails below the share of lines and branches that pyproject.toml names.
coverage:
    {{python}} -m pytest -m "{{fast}}" -n 2 --dist worksteal --cov

# Breaks the laws of scripts/mutations.toml one by one in a copy; fails if the fast tests do not notice.
mutations:
    {{python}} scripts/mutations.py

# The fast tests on another Python, as in: just on 3.13
on version:
    python{{version}} -m venv .venv-{{version}}
    .venv-{{version}}/bin/pip install -c .ci/constraints.txt torch==2.13.0 -e ".[all,dev]" -r plugins/editable.txt
    .venv-{{version}}/bin/python -m pytest -m "not slow and not federated and not long" -n 2

check: lint
    {{python}} -m pytest -m "not federated and not long" -n 2
    {{python}} -m pytest -m "federated and not long"

# What takes minutes of both cores each, and is not in `check`.
long:
    .ci/long

docs:
    .venv/bin/zensical build --clean --strict
    {{python}} -m scripts.check_site site

demo:
    {{python}} -m fedse demo
