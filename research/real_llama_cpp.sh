#!/usr/bin/env bash
# Makes GGUF files of a base model and an exported adapter with llama.cpp's own scripts, runs them in
# llama.cpp, and compares what it answers with transformers and PEFT.
#
#   bash research/real_llama_cpp.sh BASE ADAPTER RESULT.json [FOLDER]     1 GB, three minutes of CPU time
#
# BASE is the folder of the base model, ADAPTER what `fedse export adapter` made. The scripts come out of
# the source archive of llama-cpp-python, llama.cpp itself out of the wheel of xllamacpp.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
base=$(realpath "$1") adapter=$(realpath "$2") result=$(realpath "$3")
place=$(realpath "${4:-.real-llama-cpp}")
mkdir -p "$place"
export OMP_WAIT_POLICY=PASSIVE HF_HUB_OFFLINE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
archive=llama_cpp_python-0.3.36 scripts="$place/llama_cpp_python-0.3.36/vendor/llama.cpp"
python="$place/venv/bin/python"

if [ ! -x "$python" ]; then
  python3 -m venv "$place/venv"
  # What this checkout has installed is lent: a second torch would cost minutes.
  "$root/.venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lent.pth"
  "$python" -m pip install --quiet sentencepiece xllamacpp==2026.10.11549
fi
if [ ! -d "$scripts" ]; then
  (cd "$place" && "$python" -m pip download --quiet --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36)
  tar --extract --gzip --file "$place/$archive.tar.gz" --directory "$place" "$archive/vendor/llama.cpp"
fi
"$python" "$scripts/convert_hf_to_gguf.py" "$base" --outfile "$place/base.gguf" --outtype f32
"$python" "$scripts/convert_lora_to_gguf.py" --base "$base" --outfile "$place/adapter.gguf" --outtype f32 "$adapter"
cd "$root"
"$python" -m research.compare_llama_cpp "$result" --base "$base" --adapter "$adapter" --gguf "$place"
