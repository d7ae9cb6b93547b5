#!/usr/bin/env bash
# An application with sqlx in two cells in automatic mode: the tests of examples/sqlx.
# test: long
. "$(dirname "$0")/../applications.bash"

cd "$CLAIMS_ROOT/examples/sqlx"
# In the folder of the other Rust programs, and with their profile (Cargo.toml): what they have in common is compiled once.
export CARGO_TARGET_DIR=$CLAIMS_TARGET CARGO_PROFILE_DEV_DEBUG=line-tables-only
cargo metadata --locked --format-version 1 --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" >/dev/null 2>"$CLAIMS_TMP/metadata" || {
  ! grep -q 'lock file' "$CLAIMS_TMP/metadata" || die "$(cat "$CLAIMS_TMP/metadata")"
  skip 'cargo cannot get packages'
}
cargo fmt --check
# Run without cargo, which waits while another one builds in the folder.
test=$(cargo test --locked --quiet --no-run --message-format=json | sed -nE '/"kind":\["test"\]/s/.*"executable":"([^"]+)".*/\1/p')
start_application
in_each_cell make_tables
declare_names
test_application "$test" --quiet
nothing_is_left
