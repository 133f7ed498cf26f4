#!/usr/bin/env bash
# Fetch the pinned browser libraries of `fedse report` (and axe-core, which its test uses) from npm.
# Needs npm. What it writes is committed, so neither installing nor running fedse needs it.
set -euo pipefail
cd "$(dirname "$0")/.."
report=fedse/report/vendor tests=tests/report/vendor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$report" "$tests"

unpack() { # NAME VERSION: the package's files are in $work/NAME
  mkdir "$work/$1"
  tar xzf "$work/$(cd "$work" && npm pack --silent "$1@$2")" -C "$work/$1" --strip-components=1
}

unpack vega 6.4.0
unpack vega-lite 6.5.0
unpack vega-interpreter 2.3.2
unpack axe-core 4.14.0

for name in vega vega-lite; do
  sed '/^\/\/# sourceMappingURL=/d' "$work/$name/build/$name.min.js" > "$report/$name.min.js"
done
# The interpreter is published as an ES module only; a page with script hashes has no module to
# import from. `vega` holds everything the module imports.
sed -e "s|^import \(.*\) from 'vega-util';|(() => { const \1 = vega;|" \
    -e "s|^export { expression as expressionInterpreter };|globalThis.vegaInterpreter = { expressionInterpreter: expression }; })();|" \
    -e '/^\/\/# sourceMappingURL=/d' \
    "$work/vega-interpreter/build/vega-interpreter.js" > "$report/vega-interpreter.js"
for name in vega vega-lite vega-interpreter; do
  cp "$work/$name/LICENSE" "$report/$name.LICENSE.txt"
done

# vega.min.js and vega-lite.min.js have these packages inside; equal licences are written once.
npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$work/tree" \
  vega@6.4.0 vega-lite@6.5.0
cd "$work/tree/node_modules"
declare -A names texts
for folder in d3-* delaunator internmap json-stringify-pretty-compact robust-predicates \
    topojson-client tslib; do
  licence=$(ls "$folder"/LICEN* | head -n 1)
  digest=$(sha256sum < "$licence" | cut -c 1-64)
  names[$digest]+="${names[$digest]:+, }$folder"
  texts[$digest]=$(tr -d '\r' < "$licence")
done
cd - > /dev/null
for digest in $(printf '%s\n' "${!names[@]}" | sort); do
  printf '%s\n\n%s\n\n\n' "${names[$digest]}" "${texts[$digest]}"
done > "$report/bundled.LICENSE.txt"

cp "$work/axe-core/axe.min.js" "$tests/axe.min.js"
cp "$work/axe-core/LICENSE" "$tests/axe-core.LICENSE.txt"
