#!/usr/bin/env bash
# scripts/release: which files it collects, their names, their checksums, and what it refuses. The scripts that make and try an artefact are stubs here,
# which write a file of its name.
. "$(dirname "$0")/../common.bash"

root=$CLAIMS_TMP/root
target=$CLAIMS_TMP/target
out=$target/release-artefacts
mkdir -p "$root/scripts"
cp "$CLAIMS_ROOT"/scripts/{release,lib.sh,lib-debian.sh} "$root/scripts/"
printf '[workspace.package]\nversion = "9.8.7"\n\n[package]\nversion = "1.1.1"\n' >"$root/Cargo.toml"
echo changes >"$root/CHANGELOG.md"
git -C "$root" init -q
commit() { git -C "$root" add -A && git -C "$root" -c user.name=somebody -c user.email=somebody@claims.invalid commit -q --allow-empty -m "$1"; }
architecture=$(dpkg --print-architecture)

# stub SCRIPT COMMAND
stub() { printf '#!/usr/bin/env bash\nset -eu\n%s\n' "$2" >"$root/scripts/$1"; chmod +x "$root/scripts/$1"; }
# makes FILE: a command that writes below the target's folder; FILE may have the stub's first argument in it.
makes() { printf 'mkdir -p "$(dirname "$CARGO_TARGET_DIR/%s")"; echo "$0 $*" >"$CARGO_TARGET_DIR/%s"' "$1" "$1"; }
package="deb/postgresql-\$1-claims_9.8.7-1_$architecture.deb"
stub setup 'exit 0'
stub check-pgxn "$(makes pgxn/claims-9.8.7.zip)"
stub sbom "$(makes sbom/claims-9.8.7.cdx.json)"
stub check-oci "$(makes "oci/claims-9.8.7-pg18-$architecture.oci.tar")"
stub check-deb "$(makes "$package")"
commit first

# Only root enters folders with a Debian: here they are stubs.
mkdir -p "$CLAIMS_TMP/stubs"
printf '#!/bin/sh\necho "${STUB_UID:-0}"\n' >"$CLAIMS_TMP/stubs/id"
chmod +x "$CLAIMS_TMP/stubs/id"

# release PART...: prints its exit code.
release() {
  local rc=0
  PATH=$CLAIMS_TMP/stubs:$PATH CARGO_TARGET_DIR=$target "$root/scripts/release" "$@" >"$CLAIMS_TMP/out" 2>&1 || rc=$?
  echo "$rc"
}
artefacts() { (cd "$out" && find . -type f -printf '%P\n' | LC_ALL=C sort | tr '\n' ' '); }
sums() { (cd "$out" && sha256sum --check --strict --quiet SHA256SUMS && awk '{ print $2 }' SHA256SUMS | LC_ALL=C sort | tr '\n' ' '); }

all="claims-9.8.7-pg18-$architecture.oci.tar claims-9.8.7.cdx.json claims-9.8.7.zip"
for major in 15 17 18; do all+=" postgresql-$major-claims_9.8.7-1_$architecture.deb"; done
expect 'a whole release' "$(release)" 0
expect 'its files' "$(artefacts)" "SHA256SUMS $all "
expect 'every file has its checksum' "$(sums)" "$all "
expect 'the version that it leaves out' "$(grep -c '^left out: no Debian release has PostgreSQL 16' "$CLAIMS_TMP/out")" 1
expect 'it says how far it is' "$(grep -c '^==> release, part [1-6] of 6' "$CLAIMS_TMP/out")" 6

expect 'one part of the same commit' "$(release 17)" 0
expect 'the others stay' "$(sums)" "$all "
commit second
expect 'a part of another commit' "$(release pgxn)" 0
expect 'nothing of the first stays' "$(artefacts)" 'SHA256SUMS claims-9.8.7.zip '

# A stub makes the package of each revision.
stub check-deb "$(makes "deb/postgresql-\$1-claims_9.8.7-\${DEB_REVISION:-1}_$architecture.deb")"
commit revisions
expect 'a package, and the source distribution' "$(release 17 pgxn)" 0
expect 'a package of another revision' "$(DEB_REVISION=2 release 15)" 0
expect 'nothing of the first revision stays' "$(artefacts)" "SHA256SUMS postgresql-15-claims_9.8.7-2_$architecture.deb "
expect 'that of another publisher' "$(DEB_REVISION=2 DEBEMAIL=somebody@claims.invalid release 17)" 0
expect 'stays alone, too' "$(artefacts)" "SHA256SUMS postgresql-17-claims_9.8.7-2_$architecture.deb "
expect 'of the same date' "$(DEB_REVISION=2 DEBEMAIL=somebody@claims.invalid SOURCE_DATE_EPOCH="$(git -C "$root" log -1 --format=%ct)" release pgxn)" 0
expect 'both stay' "$(artefacts)" "SHA256SUMS claims-9.8.7.zip postgresql-17-claims_9.8.7-2_$architecture.deb "
expect 'of another date' "$(DEB_REVISION=2 DEBEMAIL=somebody@claims.invalid SOURCE_DATE_EPOCH=1 release pgxn)" 0
expect 'the package goes' "$(artefacts)" "SHA256SUMS claims-9.8.7.zip "

stub check-oci 'exit 1'
commit third
expect 'a part that fails' "$(release pgxn oci)" 1
expect 'is named' "$(grep -c '^FAILED  oci' "$CLAIMS_TMP/out")" 1
expect 'the others are made, and it does not look like a release' "$(artefacts)" 'claims-9.8.7.zip '
stub sbom "$(makes sbom/claims-9.8.6.cdx.json)"
commit fourth
expect 'a file of another version' "$(release sbom)" 1
expect 'is not taken' "$(grep -c 'sbom has not made .*sbom/claims-9.8.7.cdx.json$' "$CLAIMS_TMP/out") $(artefacts)" '1 '
stub check-pgxn "$(makes pgxn/claims-9.8.7.zip); echo changed >>CHANGELOG.md"
commit fifth
expect 'sources that change meanwhile' "$(release pgxn)" 1
expect 'make no release' "$(tail -1 "$CLAIMS_TMP/out")" 'error: the sources have changed meanwhile: make it again'
expect 'sources that are no commit' "$(release pgxn; grep -c 'publish none of this' "$CLAIMS_TMP/out")" $'1\n1'

expect 'a part that there is not' "$(release pgxn dep)" 1
expect 'is refused before anything is made' "$(tail -1 "$CLAIMS_TMP/out")" 'error: there is no part dep: scripts/release [pgxn sbom 15 17 18 oci]...'
expect 'a PostgreSQL that no Debian release has' "$(release 16)" 1
expect 'likewise' "$(tail -1 "$CLAIMS_TMP/out" | grep -c '^error: no Debian release has PostgreSQL 16')" 1
expect 'somebody who is not root' "$(STUB_UID=1000 release pgxn)" 1
expect 'is told so first' "$(cat "$CLAIMS_TMP/out")" 'error: folders with a Debian in them are made and entered by root only'
expect 'the SBOM needs no root' "$(stub sbom "$(makes sbom/claims-9.8.7.cdx.json)"; STUB_UID=1000 release sbom)" 0
