# Disturbs the clusters of a campaign. Sourced, never run.
#   stop_service CLUSTER SECONDS      stops the backends of clients there for some seconds, whatever they are doing
#   prepare_cells TIMEOUT             the cells of a campaign: they call the service through $proxy, and claim their names
#   kill_backend CLUSTER              kills a backend of a client or a worker, at random: the postmaster then starts everything anew
. "$(dirname "${BASH_SOURCE[0]}")/cells.bash"

# prepare_cells TIMEOUT: both cells call the service through a proxy, whose port is $proxy, and wait for TIMEOUT. Cell 2 claims its names by itself.
prepare_cells() {
  local cell
  proxy=$(take_port)
  for cell in cell1 cell2; do
    at $cell "ALTER SERVER service OPTIONS (SET port '$proxy', SET connect_timeout '2');
      ALTER DATABASE postgres SET claims.service_timeout = '$1';
      SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null
  done
  at cell2 "SELECT claims.automatic(2, 'service')" >/dev/null
  at cell1 "SELECT claims.attend(1, 'service')" >/dev/null
}

stop_service() {
  local pids
  pids=$(at "$1" "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()" 2>/dev/null) || true
  # shellcheck disable=SC2086
  kill -STOP $pids 2>/dev/null || true
  sleep "$2"
  # shellcheck disable=SC2086
  kill -CONT $pids 2>/dev/null || true
}

kill_backend() {
  local pid
  pid=$(at "$1" "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('client backend', 'claims worker') AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1" 2>/dev/null) || true
  [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
}
