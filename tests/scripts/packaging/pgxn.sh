#!/usr/bin/env bash
# The source distribution for PGXN: META.json is valid, each rule finds violations, and the zip is complete.
. "$(dirname "$0")/../common.bash"

python3 -B "$CLAIMS_ROOT/tests/scripts/packaging/pgxn_meta.py" "$CLAIMS_ROOT"

zip=$("$CLAIMS_ROOT/scripts/pgxn" "$CLAIMS_TMP/out" 2>/dev/null)
python3 -B -m zipfile -e "$zip" "$CLAIMS_TMP/unpacked"
expect 'one folder, named as the file is' "$(ls "$CLAIMS_TMP/unpacked")" "$(basename "$zip" .zip)"
cd "$CLAIMS_TMP/unpacked"/*
for file in META.json Makefile README.md LICENSE CHANGELOG.md Cargo.toml Cargo.lock claims.control scripts/build build.rs src/lib.rs; do
  expect "$file is in it" "$(cmp "$file" "$CLAIMS_ROOT/$file" && echo same)" same
done
expect 'no build output is in it' "$(find . -name target -o -name '*.so' -o -name node_modules -o -name .git)" ''
cp "$zip" "$CLAIMS_TMP/first.zip"
"$CLAIMS_ROOT/scripts/pgxn" "$CLAIMS_TMP/out" >/dev/null 2>&1
expect 'made twice, the same bytes' "$(cmp "$zip" "$CLAIMS_TMP/first.zip" && echo same)" same
