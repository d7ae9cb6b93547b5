#!/usr/bin/env bash
# No two files of Rust import each other, directly or through others, and no module of the top level uses one above it.
. "$(dirname "$0")/common.bash"

circles() { python3 -B "$CLAIMS_ROOT/tests/scripts/structure.py" "$1"; }
expect 'no circle' "$(circles "$CLAIMS_ROOT")" ''

# with FILE LINE...: what is found in a copy of the tree whose FILE has these lines more.
with() {
  rm -rf "$CLAIMS_TMP/tree"
  mkdir -p "$CLAIMS_TMP/tree/crates/model"
  cp -r "$CLAIMS_ROOT/src" "$CLAIMS_TMP/tree"
  cp -r "$CLAIMS_ROOT/crates/model/src" "$CLAIMS_TMP/tree/crates/model"
  printf '%s\n' "${@:2}" >>"$CLAIMS_TMP/tree/$1"
  circles "$CLAIMS_TMP/tree"
}
expect 'two files' "$(with src/pg/table.rs 'use super::index::find;')" 'src: pg::index uses pg::table uses pg::index'
expect 'in a list' "$(with src/pg/table.rs 'use crate::{moves, pg::{text, index::{self, find as found}}};')" 'src: pg::index uses pg::table uses pg::index'
expect 'without use' "$(with src/pg/table.rs 'fn found() { crate::pg::index::find() }')" 'src: pg::index uses pg::table uses pg::index'
expect 'through others' "$(with src/pg/gate.rs 'use crate::service::floor;' | grep -cE '^src: .* uses .* uses ')" 1
expect 'a higher module, by a file that nobody uses' "$(with src/pg/higher.rs 'use crate::service::floor;' | grep -cE '^src: .*pg uses service')" 1
expect 'of another crate' "$(with crates/model/src/claim.rs 'use crate::batch::Batch;')" 'crates/model/src: batch uses claim uses batch'
expect 'comments and tests are none' "$(with src/pg/table.rs '// use super::index::find;' '#[cfg(test)]' 'mod tests { use super::index::find; }')" ''
