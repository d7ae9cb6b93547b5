#!/usr/bin/env bash
# scripts/oci-archive: the digests and sizes of an image are right, its layer has the files and nothing else, and the same files give the same bytes.
# skopeo reads it, where it is installed.
. "$(dirname "$0")/../common.bash"

layout=$CLAIMS_TMP/layout
mkdir -p "$layout/lib" "$layout/share/extension"
echo library >"$layout/lib/claims.so"
echo control >"$layout/share/extension/claims.control"
archive=$("$CLAIMS_ROOT/scripts/oci-archive" "$layout" "$CLAIMS_TMP/first.tar" 9.9.9 arm64)
touch -d '2001-01-01' "$layout/lib/claims.so"
"$CLAIMS_ROOT/scripts/oci-archive" "$layout" "$CLAIMS_TMP/second.tar" 9.9.9 arm64 >/dev/null
expect 'made twice, the same bytes' "$(cmp "$archive" "$CLAIMS_TMP/second.tar" && echo same)" same

mkdir "$CLAIMS_TMP/image" "$CLAIMS_TMP/files"
tar -xf "$archive" -C "$CLAIMS_TMP/image"
expect 'each blob has the name of its digest' \
  "$(cd "$CLAIMS_TMP/image/blobs/sha256" && for blob in *; do [ "$(sha256sum <"$blob")" = "$blob  -" ] || echo "$blob"; done)" ''
# follow: prints the architecture, and writes the layer; fails where a descriptor does not fit its blob.
follow() {
  python3 -B - "$1" "$2" <<'PYTHON'
import gzip, hashlib, json, pathlib, sys
image, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
def blob(descriptor):
    content = (image / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    assert len(content) == descriptor["size"], descriptor
    return content
assert json.loads((image / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
(described,) = json.loads((image / "index.json").read_text())["manifests"]
manifest = json.loads(blob(described))
config = json.loads(blob(manifest["config"]))
(layer,) = manifest["layers"]
layer = gzip.decompress(blob(layer))
assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
out.write_bytes(layer)
print(config["architecture"], config["config"]["Labels"]["org.opencontainers.image.version"])
PYTHON
}
expect 'its architecture and version' "$(follow "$CLAIMS_TMP/image" "$CLAIMS_TMP/layer.tar")" 'arm64 9.9.9'
tar -xf "$CLAIMS_TMP/layer.tar" -C "$CLAIMS_TMP/files"
expect 'its files are those of the layout' "$(diff -r "$layout" "$CLAIMS_TMP/files" && echo same)" same
expect 'they belong to root, and everybody reads them' "$(tar -tvf "$CLAIMS_TMP/layer.tar" | awk '{ print $1, $2 }' | LC_ALL=C sort -u | tr '\n' ';')" '-rw-r--r-- root/root;drwxr-xr-x root/root;'
if command -v skopeo >/dev/null; then
  expect 'skopeo reads it' "$(skopeo inspect --format '{{.Architecture}} {{.Os}}' "oci-archive:$archive")" 'arm64 linux'
  skopeo copy --quiet "oci-archive:$archive" "dir:$CLAIMS_TMP/copied"
  expect 'and copies all of it' "$(find "$CLAIMS_TMP/copied" -type f | wc -l)" 4
fi
