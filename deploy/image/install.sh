#!/bin/sh
# Usage: install.sh IMAGE EXTRAS [uv options]: /opt/fedse has fed-se, the packages of IMAGE's lock with
# the hashes it names and no others, their bytecode, and a list of what is inside (sbom.cdx.json).
set -eu
image=$1 extras=$2
shift 2
python=/opt/fedse/bin/python3

/opt/tools/bin/uv pip install --no-cache --python "$python" --no-deps --require-hashes \
  --only-binary :all: "$@" --requirement "deploy/requirements/$image.txt"
wheel=$(ls /built/fed_se-*.whl)
/opt/tools/bin/uv pip install --no-cache --python "$python" --no-deps --offline "$wheel"
# Fails if the lock lacks something that the extras need.
/opt/tools/bin/uv pip install --no-cache --python "$python" --dry-run --offline --no-index \
  "fed-se[$extras] @ file://$wheel"
# The root is read-only later, so what is not compiled now would be compiled at every start. Some
# packages bring files for later Pythons, which cannot be compiled and are never imported.
"$python" -m compileall -qq -j 0 /opt/fedse/lib || true
/opt/tools/bin/python deploy/image/sbom.py "$python" dpkg-status /opt/fedse/sbom.cdx.json
