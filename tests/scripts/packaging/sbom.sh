#!/usr/bin/env bash
# scripts/sbom: it names each crate of Cargo.lock that the library links and no other, and no path of this machine; it refuses a list that is wrong.
# cargo-cyclonedx is a stub here, whose list the test chooses; where the program is installed, it runs as well.
. "$(dirname "$0")/../common.bash"
cd "$CLAIMS_ROOT"

version=$(sed -nE '/^\[workspace\.package\]/,/^\[/ s/^version = "(.*)"/\1/p' Cargo.toml)
mkdir -p "$CLAIMS_TMP/stubs"
cat >"$CLAIMS_TMP/stubs/cargo-cyclonedx" <<'STUB'
#!/usr/bin/env bash
case "$*" in *--help*) ;; *) sed "s#@WORK@#${PWD// /%20}#g" "$LIST" >claims.cdx.json ;; esac
STUB
chmod +x "$CLAIMS_TMP/stubs/cargo-cyclonedx"

# list CHANGE: writes a list as cargo-cyclonedx does, of what the library links and a procedural macro, after the change (a line of Python on `crates`).
list() {
  cargo tree --locked --package claims --edges normal,no-proc-macro --prefix none --no-default-features --features pg15 |
    python3 -B -c '
import json, sys
crates = {tuple(line.split()[:2]): line for line in sys.stdin if line.strip()}
crates = [(name, number[1:], "(/" in line) for (name, number), line in crates.items() if name != "claims"] + [("serde_derive", "1.0.0", False)]
version = sys.argv[1]
exec(sys.argv[2])
def component(name, number, own):
    place = "path+file://@WORK@/crates/x#" if own else "registry+index#"
    return {"type": "library", "bom-ref": f"{place}{name}@{number}", "name": name, "version": number,
            "purl": f"pkg:cargo/{name}@{number}" + ("?download_url=file://." if own else "")}
components = [component(*crate) for crate in crates]
refs = [one["bom-ref"] for one in components]
own = {**component("claims", version, True), "bom-ref": f"path+file://@WORK@#claims@{version}"}
print(json.dumps({"bomFormat": "CycloneDX", "metadata": {"component": own}, "components": components,
                  "dependencies": [{"ref": own["bom-ref"], "dependsOn": refs}] + [{"ref": ref} for ref in refs]}))
' "$version" "$1" >"$CLAIMS_TMP/list"
}
# sbom: prints the exit code; its output is in $CLAIMS_TMP/out.
sbom() {
  local rc=0
  LIST=$CLAIMS_TMP/list PATH=$CLAIMS_TMP/stubs:$PATH CARGO_TARGET_DIR="$CLAIMS_TMP/a target" scripts/sbom "$CLAIMS_TMP" >"$CLAIMS_TMP/out" 2>&1 || rc=$?
  echo "$rc"
}
# named FIELD: the number of crates, and the crates that nothing depends on.
named() {
  python3 -B - "$1" <<'PYTHON'
import json, sys
sbom = json.load(open(sys.argv[1], encoding="utf-8"))
refs = {one["bom-ref"] for one in sbom["components"]}
reached = {ref for one in sbom["dependencies"] for ref in one.get("dependsOn", [])}
print(len(refs), sorted(refs - reached), sorted(reached - refs), *[one["name"] for one in sbom["components"] if one["name"] in ("serde_derive", "proptest", "postgres")])
PYTHON
}

list pass
expect 'a list that is right' "$(sbom)" 0
file=$CLAIMS_TMP/claims-$version.cdx.json
expect 'its file has the version in its name' "$(cat "$CLAIMS_TMP/out")" "$file"
crates=$(cargo tree --locked --package claims --edges normal,no-proc-macro --prefix none --no-default-features --features pg15 | awk 'NF && $1 != "claims" { print $1, $2 }' | sort -u | wc -l)
expect 'each crate that is linked, and no macro' "$(named "$file")" "$crates [] []"
expect 'no path of this machine' "$(grep -cF -e "$CLAIMS_TMP" -e "$CLAIMS_ROOT" -e 'file://' "$file" || true)" 0
expect 'the crates of the repository are among them' "$(grep -cE '"bom-ref": "pkg:cargo/claims-(json|model|names|pg)@' "$file")" 4

# One list with each mistake: a crate is missing, one has another version, one is named twice, and it is about another version of the library.
list 'crates = [(name, "0.0.1" if name == "half" else number, own) for name, number, own in crates if name != "idna"] + [crates[0]]; version = "0.0.1"'
expect 'a list that is wrong' "$(sbom)" 1
expect 'each mistake is named' "$(tail -n +2 "$CLAIMS_TMP/out" | awk '{ print $1, $NF }' | tr '\n' ';')" "it $version;half named;idna named;claims-json twice;"

# --- the program itself ---------------------------------------------------------------------------------------------

if cargo cyclonedx --version 2>/dev/null | grep -qF " $(sed -n 's/^CYCLONEDX_VERSION=//p' scripts/setup)"; then
  CARGO_TARGET_DIR="$CLAIMS_TMP/a target" scripts/sbom "$CLAIMS_TMP/first" >/dev/null
  CARGO_TARGET_DIR=$CLAIMS_TMP/other scripts/sbom "$CLAIMS_TMP/second" >/dev/null
  file=$CLAIMS_TMP/first/claims-$version.cdx.json
  expect 'cargo-cyclonedx: each crate that is linked, and no macro' "$(named "$file")" "$crates [] []"
  expect 'no path of this machine in its list' "$(grep -cF -e "$CLAIMS_TMP" -e "$CLAIMS_ROOT" -e 'file://' "$file" || true)" 0
  expect 'made twice, the same bytes' "$(cmp "$file" "$CLAIMS_TMP/second/$(basename "$file")" && echo same)" same
else
  echo 'cargo-cyclonedx is not installed: only the stub has run'
fi
