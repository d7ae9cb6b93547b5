"""META.json keeps PGXN's rules, and each rule refuses what breaks it: pgxn_meta.py ROOT."""

import copy
import json
import sys

root = sys.argv[1]
sys.path.insert(0, root + "/packaging/pgxn")
import meta as rules  # noqa: E402

with open(root + "/META.json", encoding="utf-8") as file:
    good = json.load(file)

REMOVED = object()
# Where something is put, what, and the place that is complained of.
BROKEN = [
    *(((field,), REMOVED, f"/{field}")
      for field in ("name", "version", "abstract", "maintainer", "license", "provides", "meta-spec")),
    (("name",), "c", "/name"),
    (("name",), "two words", "/name"),
    (("version",), "1.0", "/version"),
    (("version",), 1, "/version"),
    (("version",), "01.0.0", "/version"),
    (("abstract",), "", "/abstract"),
    (("maintainer",), [], "/maintainer"),
    (("maintainer",), [""], "/maintainer[0]"),
    (("license",), "PostgreSQL", "/license[0]"),
    (("license",), {"PostgreSQL": "no address"}, "/license/PostgreSQL"),
    (("release_status",), "ready", "/release_status"),
    (("provides",), {}, "/provides"),
    (("provides",), ["claims"], "/provides"),
    (("provides", "claims", "file"), REMOVED, "/provides/claims/file"),
    (("provides", "claims", "version"), "1", "/provides/claims/version"),
    (("provides", "claims", "path"), "x", "/provides/claims/path"),
    (("meta-spec",), {"version": "2.0.0"}, "/meta-spec/version"),
    (("meta-spec",), {"url": "https://x.example/"}, "/meta-spec/version"),
    (("prereqs",), {"run": {}}, "/prereqs/run"),
    (("prereqs",), {"runtime": {"needs": {}}}, "/prereqs/runtime/needs"),
    (("prereqs",), {"runtime": {"requires": {"PostgreSQL": "15"}}}, "/prereqs/runtime/requires/PostgreSQL"),
    (("prereqs",), {"runtime": {"requires": {"PostgreSQL": "~> 15.0.0"}}}, "/prereqs/runtime/requires/PostgreSQL"),
    (("tags",), ["a/b"], "/tags[0]"),
    (("no_index",), {"files": "x"}, "/no_index/files"),
    (("resources",), {"homepage": "nowhere"}, "/resources/homepage"),
    (("resources",), {"bugtracker": {"mailto": "nobody"}}, "/resources/bugtracker/mailto"),
    (("resources",), {"repository": {"type": "Git"}}, "/resources/repository/type"),
    (("keywords",), ["x"], "/keywords"),
]
ALLOWED = [
    (("x_own",), {"a": 1}),
    (("license",), ["postgresql", "mit"]),
    (("license",), {"PostgreSQL": "https://www.postgresql.org/about/licence"}),
    (("version",), "1.1.0-rc1"),
    (("prereqs",), {"runtime": {"requires": {"PostgreSQL": ">= 15.0.0, < 19.0.0", "plpgsql": 0}}}),
]


def places(meta):
    return [line.split(":")[0] for line in rules.mistakes(json.dumps(meta))]


def changed(where, what):
    meta = copy.deepcopy(good)
    spot = meta
    for key in where[:-1]:
        spot = spot[key]
    if what is REMOVED:
        del spot[where[-1]]
    else:
        spot[where[-1]] = what
    return meta


failed = 0
for name, meta, wanted in [
    ("META.json", good, []),
    *((f"{'.'.join(where)} = {'nothing' if what is REMOVED else what!r}", changed(where, what), [place])
      for where, what, place in BROKEN),
    *((f"{'.'.join(where)} = {what!r}", changed(where, what), []) for where, what in ALLOWED),
]:
    got = places(meta)
    print("ok:" if got == wanted else "FAILED:", name, "" if got == wanted else f": wanted {wanted}, got {got}")
    failed += got != wanted
if rules.mistakes("{") == []:
    print("FAILED: what is not JSON")
    failed += 1
sys.exit(1 if failed else 0)
