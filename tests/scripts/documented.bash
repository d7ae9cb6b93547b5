# A service and two cells that are made by the commands of docs/cell/first-steps.md, with TLS. Sourced, never run.
#
#   start_documented               starts the clusters `shared`, `cell1` and `cell2`, and executes the document's blocks
#   as ROLE SERVICE|CELL1|CELL2 '…'  as a role, in database `names` of the service or `app` of a cell
#   state_as ROLE PLACE '…'        the SQLSTATE that it ends with
#   start_machines                 only the clusters, with a service and two databases of cells: sections 1 and 2, without profiles and claimed columns
#   follow SECTION STEP [PLACE [WORD]]  a step of docs/runbook.md, `Look`, `Act 3`: executes its commands as the roles named there
# Fills in the values that a reader would: passwords, the host's address, the path of the root certificate. The rest stays unchanged.
. "$(dirname "${BASH_SOURCE[0]}")/common.bash"

steps() { python3 -B "$CLAIMS_ROOT/tests/scripts/repository/documents/steps.py" "$CLAIMS_ROOT" "$@"; }

# make_certificates: a root, one for the service (shared.example), one for the role cell_1, in $SECRETS, whose owner is the server's user.
make_certificates() {
  (cd /tmp && as_server sh -ec "cd '$SECRETS'; umask 077
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=root -keyout root.key -out root.crt 2>/dev/null")
  certificate server shared.example
  certificate cell_1 cell_1
}
# certificate FILE NAME: one that the root has signed.
certificate() {
  (cd /tmp && as_server sh -ec "cd '$SECRETS'; umask 077
    openssl req -newkey rsa:2048 -nodes -subj /CN=$2 -keyout $1.key -out $1.csr 2>/dev/null
    openssl x509 -req -in $1.csr -CA root.crt -CAkey root.key -CAcreateserial -days 2 -out $1.crt 2>/dev/null")
}

# filled_in NUMBER: a block of the document for cell NUMBER, on its standard input.
filled_in() {
  sed -e "s|'…'|'$CELL_PASSWORD'|g" -e "s|cell_1|cell_$1|g" -e "s|register_cell(1, |register_cell($1, |; s|automatic(1, |automatic($1, |; s|verify(1, |verify($1, |; s|import_claims(1, |import_claims($1, |" \
    -e "s|host 'shared.example'|host 'shared.example', hostaddr '127.0.0.1', port '${CLUSTER_PORT[shared]}', sslrootcert '$SECRETS/root.crt'|" \
    -e "s|/etc/postgresql/claims/|$SECRETS/cell$1/|g"
}

place() { case $1 in service) echo shared ;; *) echo "$1" ;; esac; }
# in_place PLACE: the environment of a place.
in_place() { use_cluster "$(place "$1")"; case $1 in service | staging) PGDATABASE=names ;; *) PGDATABASE=app ;; esac; export PGDATABASE; }
as() { ( in_place "$2"; export PGUSER=$1; sql "$3" ) }
state_as() { ( in_place "$2"; export PGUSER=$1; sqlstate "$3" ) }

# The document that follow reads.
DOCUMENT=docs/runbook.md
in_document() { python3 -B "$CLAIMS_ROOT/tests/scripts/repository/documents/runbook.py" "$CLAIMS_ROOT" "$DOCUMENT" "$@"; }

# follow SECTION STEP [PLACE [WORD]]: PLACE stands for the cell there, and of several commands only those are executed that have WORD. $FILL is
# what a reader writes instead, for sed. Prints what they answer. $CLAIMS_TMP/followed lists the commands.
follow() {
  local place role sql found=0
  while IFS=$'\t' read -r place role sql <&3; do
    case $sql in *"${4:-}"*) ;; *) continue ;; esac
    found=$((found + 1))
    printf '%s\t%s\t%s\n' "$place" "$role" "$sql" >>"$CLAIMS_TMP/followed"
    [ "$place" = service ] || place=${3:-cell1}
    as "$role" "$place" "$(sed "${FILL:-}" <<<"$sql")" || return 1
  done 3< <(in_document "$1" "$2")
  [ $found -gt 0 ] || die "$DOCUMENT: $1, $2: no command${4:+ with $4}"
}

# service_of CLUSTER CERTIFICATE [-c setting=value]...: the cluster of a service, and its database.
service_of() {
  start_cluster "$1" --fast -c shared_preload_libraries=claims -c claims.databases=names -c log_min_messages=panic \
    -c ssl=on -c "ssl_cert_file=$SECRETS/$2.crt" -c "ssl_key_file=$SECRETS/$2.key" -c "ssl_ca_file=$SECRETS/root.crt" "${@:3}"
  ( use_cluster "$1"; sql "CREATE DATABASE names ENCODING 'UTF8' TEMPLATE template0" )
}

# without_password COMMAND...: for a server that reads its secret from a file. libpq would prefer a password in the environment of the server.
without_password() { local password=$PGPASSWORD; unset PGPASSWORD; "$@"; export PGPASSWORD=$password; }

start_machines() {
  local number
  command -v openssl >/dev/null || skip 'there is no openssl'
  CELL_PASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
  SECRETS=$(cd /tmp && as_server mktemp -d "${CLAIMS_CLUSTERS:-/tmp}/secrets.XXXXXX")
  make_certificates
  service_of shared server "$@"
  for number in 1 2; do
    start_cluster "cell$number" --fast -c shared_preload_libraries=claims -c claims.databases=app -c log_min_messages=panic "$@"
    without_password restart_cluster "cell$number"
    ( use_cluster "cell$number"; sql "CREATE DATABASE app ENCODING 'UTF8' TEMPLATE template0" )
    # The application's tables, before it uses claims.
    as postgres "cell$number" "CREATE ROLE app LOGIN; SET ROLE app; RESET ROLE; GRANT CREATE ON SCHEMA public TO app; SET ROLE app;
      CREATE TABLE routes (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, namespace_id bigint NOT NULL DEFAULT 1, path text UNIQUE)"
    (cd /tmp && as_server sh -c "umask 077; mkdir '$SECRETS/cell$number'; echo 'shared.example:${CLUSTER_PORT[shared]}:names:cell_$number:$CELL_PASSWORD' >'$SECRETS/cell$number/passfile'")
  done
  as postgres service "$(steps docs/cell/first-steps.md '1. The shared database' | filled_in 1)" >/dev/null
  # The second cell: its role and its number, as the last block of the section has it.
  as postgres service "$(steps docs/cell/first-steps.md '1. The shared database' | filled_in 2 | sed -n '/CREATE ROLE cell_2/,$p' | sed "s/'north', .*)/'south')/")" >/dev/null
  for number in 1 2; do
    as postgres "cell$number" "$(steps docs/cell/first-steps.md "2. The cell's database" | filled_in $number)" >/dev/null
  done
}

start_documented() {
  local number profiles claimed
  start_machines "$@"
  profiles=$(steps docs/cell/first-steps.md '3. How names are compared')
  as postgres service "$profiles" >/dev/null
  for number in 1 2; do
    as postgres "cell$number" "$profiles" >/dev/null
    claimed=$(steps docs/cell/first-steps.md '4. What is claimed' | filled_in $number)
    # The import is a statement of its own, since it commits.
    as app "cell$number" "$(grep -v '^CALL' <<<"$claimed")" >/dev/null
    as app "cell$number" "$(grep '^CALL' <<<"$claimed")" >/dev/null
  done
}
