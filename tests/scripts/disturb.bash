# Disturbs the clusters of a campaign. Sourced after cells.bash.
#   stop_service CLUSTER SECONDS      stops the backends of clients there for some seconds, whatever they are doing
#   kill_backend CLUSTER              kills a backend of a client or a worker, at random: the postmaster then starts everything anew

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
