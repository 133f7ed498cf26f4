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

cp "$work/axe-core/axe.min.js" "$tests/axe.min.js"
cp "$work/axe-core/LICENSE" "$tests/axe-core.LICENSE.txt"
