#!/usr/bin/env bash
# Fetch the pinned browser libraries of the docs site from npm: Mermaid, which draws the diagrams,
# and the shim with which the search works on pages opened as files.
# Needs npm. What it writes is committed, so building the site and reading it need no network.
set -euo pipefail
cd "$(dirname "$0")/.."
vendor=docs/assets/vendor
version=11.17.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$vendor"

unpack() { # PACKAGE VERSION FOLDER: the package's files are in $work/FOLDER
  mkdir "$work/$3"
  tar xzf "$work/$(cd "$work" && npm pack --silent "$1@$2")" -C "$work/$3" --strip-components=1
}

unpack @mermaid-js/tiny "$version" mermaid
unpack iframe-worker 1.0.4 iframe-worker
cp "$work/mermaid/dist/mermaid.tiny.js" "$vendor/mermaid.js"
cp "$work/mermaid/LICENSE" "$vendor/mermaid.LICENSE.txt"
cp "$work/iframe-worker/shim/index.js" "$vendor/iframe-worker.js"
cp "$work/iframe-worker/LICENSE" "$vendor/iframe-worker.LICENSE.txt"

# mermaid.js has packages inside. Which of them the tiny build leaves out is not published, so the
# licences of all that Mermaid depends on are kept; equal texts are written once.
npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$work/tree" "mermaid@$version"
cd "$work/tree/node_modules"
declare -A names texts
while read -r licence; do
  folder=$(dirname "${licence#./}")
  [[ "$folder" == */node_modules/* || "$folder" == @types/* || "$folder" == mermaid ]] && continue
  digest=$(tr -d '\r' < "$licence" | sha256sum | cut -c 1-64)
  names[$digest]+="${names[$digest]:+, }$folder"
  texts[$digest]=$(tr -d '\r' < "$licence")
done < <(find . -maxdepth 3 -type f -iname 'licen[cs]e*' ! -name '*js' | LC_ALL=C sort)
cd - > /dev/null
for digest in $(printf '%s\n' "${!names[@]}" | sort); do
  printf '%s\n\n%s\n\n\n' "${names[$digest]}" "${texts[$digest]}"
done > "$vendor/bundled.LICENSE.txt"
