"""The rules of PGXN's Meta Spec 1.0.0 for META.json: what PGXN's own validator refuses is refused here.

    python3 packaging/pgxn/meta.py META.json      # one line a mistake; exit code 1 where there is one
"""

import json
import re
import sys

SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-?[A-Za-z][0-9A-Za-z.-]*)?(\+[0-9A-Za-z.-]+)?")
LICENSES = set("""agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1 gpl_2 gpl_3 lgpl_2_1
    lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib open_source restricted
    unrestricted unknown""".split())
PHASES = {"configure", "build", "test", "runtime", "develop"}
RELATIONS = {"requires", "recommends", "suggests", "conflicts"}


class Check:
    """Walks through the document; `errors` has what is wrong, each with the place where it is."""

    def __init__(self):
        self.errors = []

    def wrong(self, place, why):
        self.errors.append(f"{place or '/'}: {why}")

    # --- values ---

    def string(self, place, value):
        if not isinstance(value, str) or not value:
            self.wrong(place, "must be a string that is not empty")
            return False
        return True

    def term(self, place, value):
        if self.string(place, value) and (len(value) < 2 or re.search(r"[\s\x00-\x1f\x7f/\\]", value)):
            self.wrong(place, f"{value!r} must have two characters at least, and no space, control character or slash")

    def tag(self, place, value):
        if self.string(place, value) and (len(value) > 256 or re.search(r"[\x00-\x1f\x7f/\\]", value)):
            self.wrong(place, f"{value!r} must have 256 characters at most, and no control character or slash")

    def version(self, place, value):
        if not isinstance(value, str) or not SEMVER.fullmatch(value):
            self.wrong(place, f"{value!r} is not a semantic version of three numbers")

    def version_range(self, place, value):
        if value in (0, "0"):
            return
        if self.string(place, value):
            for part in re.split(r",\s*", value):
                wanted = re.fullmatch(r"(?:(?:[<>]=?|==|!=)\s*)?(.*)", part)
                self.version(place, wanted.group(1))

    def url(self, place, value):
        if self.string(place, value) and not re.match(r"[^:/?#]+://[^/?#]+", value):
            self.wrong(place, f"{value!r} is not a URL")

    def email(self, place, value):
        if self.string(place, value) and "@" not in value:
            self.wrong(place, f"{value!r} is not an e-mail address")

    def lowercase(self, place, value):
        if self.string(place, value) and value != value.lower():
            self.wrong(place, f"{value!r} must be in lower case")

    def one_of(self, allowed):
        def check(place, value):
            if not isinstance(value, str) or value not in allowed:
                self.wrong(place, f"{value!r} must be one of {', '.join(sorted(allowed))}")
        return check

    # --- structures ---

    def list_of(self, check, at_least=0):
        """A list, or one value in the place of a list of one."""
        def whole(place, value):
            values = value if isinstance(value, list) else [value]
            if len(values) < at_least:
                self.wrong(place, f"must have {at_least} at least")
            for number, one in enumerate(values):
                check(f"{place}[{number}]", one)
        return whole

    def map_of(self, fields=None, required=(), keys=None, values=None):
        """`fields` by name; any other key must be a custom one (x_…), or pass `keys` and its value `values`."""
        def whole(place, value):
            if not isinstance(value, dict):
                self.wrong(place, "must be a map")
                return
            for name in required:
                if value.get(name) is None:
                    self.wrong(f"{place}/{name}", "is required")
            for name, one in value.items():
                here = f"{place}/{name}"
                if name in (fields or {}):
                    fields[name](here, one)
                elif keys:
                    keys(here, name)
                    values(here, one)
                elif not name.lower().startswith("x_"):
                    self.wrong(here, "is not a field; custom fields begin with x_")
        return whole

    def named(self, allowed):
        """A key of a fixed set, or a custom one."""
        def check(place, name):
            if name not in allowed and not name.lower().startswith("x_"):
                self.wrong(place, f"must be one of {', '.join(sorted(allowed))}")
        return check

    def license(self, place, value):
        if isinstance(value, dict):
            self.map_of(keys=lambda *_: None, values=self.url)(place, value)
        else:
            self.list_of(self.one_of(LICENSES), at_least=1)(place, value)

    def provided(self, place, value):
        self.map_of({"file": self.string, "version": self.version, "abstract": self.string, "docfile": self.string},
                    required=("file", "version"))(place, value)

    def document(self, meta):
        relations = self.map_of(keys=self.named(RELATIONS), values=self.map_of(keys=self.term, values=self.version_range))
        self.map_of({
            "name": self.term,
            "version": self.version,
            "abstract": self.string,
            "description": self.string,
            "generated_by": self.string,
            "maintainer": self.list_of(self.string, at_least=1),
            "license": self.license,
            "release_status": self.one_of({"stable", "testing", "unstable"}),
            "provides": self.map_of(keys=self.term, values=self.provided),
            "tags": self.list_of(self.tag),
            "no_index": self.map_of({"file": self.list_of(self.string), "directory": self.list_of(self.string)}),
            "prereqs": self.map_of(keys=self.named(PHASES), values=relations),
            "meta-spec": self.map_of({"version": self.one_of({"1.0.0"}), "url": self.url}, required=("version",)),
            "resources": self.map_of({
                "license": self.list_of(self.url),
                "homepage": self.url,
                "bugtracker": self.map_of({"web": self.url, "mailto": self.email}),
                "repository": self.map_of({"web": self.url, "url": self.url, "type": self.lowercase}),
            }),
        }, required=("name", "version", "abstract", "maintainer", "license", "provides", "meta-spec"))("", meta)
        if isinstance(meta, dict) and meta.get("provides") == {}:
            self.wrong("/provides", "must name an extension")


def mistakes(text):
    """What is wrong with this META.json, as a list of lines."""
    try:
        meta = json.loads(text)
    except ValueError as error:
        return [f"/: is not JSON: {error}"]
    check = Check()
    check.document(meta)
    return check.errors


if __name__ == "__main__":
    found = mistakes(open(sys.argv[1], encoding="utf-8").read())
    print("".join(f"{sys.argv[1]}{line}\n" for line in found), end="")
    sys.exit(1 if found else 0)
