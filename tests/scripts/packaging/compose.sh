#!/usr/bin/env bash
# compose.yaml without Docker: its files exist, docker-compose (where it is installed) accepts it, and the SQL that it mounts makes a service and two
# cells, in the order in which it starts them, in which the commands of its head answer as it says.
. "$(dirname "$0")/../cells.bash"
cd "$CLAIMS_ROOT"

python=$(for python in python3 /usr/bin/python3; do ! "$python" -c 'import yaml' 2>/dev/null || { echo "$python"; break; }; done)
[ -n "$python" ] || skip 'PyYAML is missing'

# mounted SERVICE: the SQL files that the image runs, in the order of their names there. Also checks that they and the recipe of the image exist.
mounted() {
  "$python" - "$1" <<'PYTHON'
import pathlib, re, sys, yaml
compose = yaml.safe_load(pathlib.Path("compose.yaml").read_text())
service = compose["services"][sys.argv[1]]
build = service["build"]
stages = re.findall(r"^FROM \S+ AS (\S+)", pathlib.Path(build["context"], build["dockerfile"]).read_text(), re.M)
assert build["target"] in stages, f"{build['target']} is not a stage: {stages}"
settings = dict(zip(service["command"][1::2], service["command"][2::2]))
assert service["command"][0] == "postgres" and list(settings) == ["-c"], service["command"]
mounts = sorted((target, source) for source, target, mode in (volume.split(":") for volume in service["volumes"]))
for target, source in mounts:
    assert target.startswith("/docker-entrypoint-initdb.d/") and pathlib.Path(source).is_file(), (target, source)
print(*(source for target, source in mounts))
PYTHON
}

# The database of a service, and the settings of its command.
field() { "$python" -c 'import sys, yaml; print(eval(sys.argv[1], {"s": yaml.safe_load(open("compose.yaml"))["services"]}))' "$1"; }

if command -v docker-compose >/dev/null; then
  expect 'docker-compose accepts it' "$(docker-compose --file compose.yaml config --services 2>&1 | LC_ALL=C sort | tr '\n' ' ')" 'names north south '
  expect 'and refuses what is not in its schema' \
    "$(sed 's/^    command:/    comand:/' compose.yaml >"$CLAIMS_TMP/compose.yaml"; docker-compose --file "$CLAIMS_TMP/compose.yaml" config >/dev/null 2>&1 || echo refused)" refused
fi
expect 'the cells start when the service is ready' "$(field "[s[c]['depends_on']['names']['condition'] for c in ('north', 'south')]")" "['service_healthy', 'service_healthy']"

for name in names north south; do
  database=$(field "s['$name']['environment']['POSTGRES_DB']")
  expect "$name: its settings" "$(field "s['$name']['command'][2::2]")" "['shared_preload_libraries=claims', 'claims.databases=$database']"
  start_cluster "$name" --fast -c shared_preload_libraries=claims -c "claims.databases=$database"
  sql postgres "CREATE DATABASE $database ENCODING 'UTF8' TEMPLATE template0"
  export PGDATABASE=$database
  # The host `names` is this machine here.
  files=$(mounted "$name")
  # shellcheck disable=SC2086
  sed "s/host 'names'/host '127.0.0.1', port '${CLUSTER_PORT[names]}'/" $files | psql -Xq -v ON_ERROR_STOP=1 >/dev/null
done

# in_head NUMBER: runs the command with this number in the head of compose.yaml against the cluster that stands for its container.
in_head() {
  local line name
  line=$(grep '^#   docker compose exec' compose.yaml | sed -n "$1p" | sed -E 's/ +# .*//')
  name=$(sed -E 's/.* exec ([a-z]+) .*/\1/' <<<"$line")
  ( use_cluster "$name"; eval "$(sed -E 's/.* exec [a-z]+ psql -U postgres/psql -XqAt -v VERBOSITY=terse -U postgres/' <<<"$line")" ) 2>&1
}
expect 'north takes the name' "$(in_head 1)" ''
expect 'south does not get it' "$(in_head 2 | tr -s ' ')" 'ERROR: duplicate key value violates unique constraint "routes_path_claim"'
expect 'the service says who has it' "$(in_head 3)" 'acme|north'
expect 'south has saved nothing' "$(use_cluster south; sql app 'SELECT count(*) FROM routes')" 0
