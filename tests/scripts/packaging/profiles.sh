#!/usr/bin/env bash
# What is installed, packed or measured is a release build, also after a quick one for tests. scripts/build is a stub here, that says what it was asked for.
. "$(dirname "$0")/../common.bash"

root=$CLAIMS_TMP/claims
mkdir -p "$root/tests/scripts/folder" "$CLAIMS_TMP/stubs"
echo 'echo run' >"$root/tests/scripts/folder/one.sh"
cp -r "$CLAIMS_ROOT/scripts" "$CLAIMS_ROOT/Makefile" "$CLAIMS_ROOT/Cargo.toml" "$root/"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "built: ${CLAIMS_PROFILE:-release}"\nexit 1\n' >"$root/scripts/build"
printf '#!/bin/sh\n' >"$root/scripts/setup"
# Any PostgreSQL is Debian's.
printf '#!/bin/sh\necho "postgresql-%s: /"\n' "$PG_MAJOR" >"$CLAIMS_TMP/stubs/dpkg-query"
printf '#!/bin/sh\n' >"$CLAIMS_TMP/stubs/cargo"
chmod +x "$root/scripts/setup" "$CLAIMS_TMP/stubs/"*

# built PROFILE COMMAND...: which build the command begins, if CLAIMS_PROFILE is PROFILE.
built() {
  (cd "$root" && unset CLAIMS_BINDIR && PATH=$CLAIMS_TMP/stubs:$PATH CARGO_TARGET_DIR=$CLAIMS_TMP/target CLAIMS_PROFILE=$1 "${@:2}" 2>&1 | sed -n 's/^built: //p')
}
for target in install deb bench; do
  expect "make $target: a release build" "$(built quick make "$target")" release
done
for target in build demo test-script; do
  expect "make $target: a quick one" "$(built '' make "$target")" quick
done
expect 'the tests: a quick one' "$(built '' scripts/test script one)" quick
expect 'or what the caller asks for' "$(built release make demo) $(built release scripts/test script one)" 'release release'

expect 'the two are different builds' "$(cd "$CLAIMS_ROOT" && python3 -B -c '
import tomllib
profiles = tomllib.load(open("Cargo.toml", "rb"))["profile"]
print(profiles["release"]["lto"], profiles["quick"]["lto"], profiles["quick"]["inherits"])')" 'fat off release'
