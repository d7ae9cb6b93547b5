#!/usr/bin/env bash
# contrib/prometheus/alerts.yml by promtool: each alert fires when it should and not otherwise, as alerts_test.yml and alerts_days_test.yml have
# it. And these would notice an alert that always fires, one that never does, and one that does not wait.
. "$(dirname "$0")/../common.bash"

command -v promtool >/dev/null || { echo 'ok: skipped, there is no promtool (scripts/setup release installs it)'; exit 0; }
here=$(cd "$(dirname "$0")/../../../contrib/prometheus" && pwd)
work=$CLAIMS_TMP/alerts
mkdir -p "$work"

expect 'the rules are sound' "$(promtool check rules "$here/alerts.yml" >"$work/log" 2>&1 && echo yes || cat "$work/log")" yes
expect 'so is the configuration' "$(promtool check config "$here/prometheus.yml" >"$work/log" 2>&1 && echo yes || cat "$work/log")" yes
expect 'each alert does what its test says' "$(promtool test rules "$here"/alerts*_test.yml >"$work/log" 2>&1 && echo yes || cat "$work/log")" yes

# Writes the tests of one alert and its rules into $work, with another line LINE: in the place of its KEY. An expression of several lines goes as a whole.
cat >"$work/change.py" <<'PYTHON'
import glob, re, sys
here, work, alert, key, line = sys.argv[1:]
with open(f"{here}/alerts.yml", encoding="utf-8") as file:
    head, *rules = re.split(r"(?m)^(?=      - alert: )", file.read())
changed = [re.sub(rf"(?m)^        {key}: .*\n(?:          .*\n)*", line, rule) if rule.startswith(f"      - alert: {alert}\n") else rule for rule in rules]
with open(f"{work}/alerts.yml", "w", encoding="utf-8") as file:
    file.write(head + "".join(changed))
for number, path in enumerate(glob.glob(f"{here}/alerts*_test.yml")):
    with open(path, encoding="utf-8") as file:
        head, *tests = re.split(r"(?m)^(?=  - name: )", file.read())
    own = [test for test in tests if re.match(rf"  - name: {alert}\b", test)]
    if own:
        with open(f"{work}/{number}_test.yml", "w", encoding="utf-8") as file:
            file.write(head + "".join(own))
print("same" if changed == rules else "changed")
PYTHON
mapfile -t alerts < <(sed -nE 's/^ *- alert: *//p' "$here/alerts.yml")
# unnoticed KEY LINE: the alerts whose tests pass all the same with that line.
unnoticed() {
  local alert
  for alert in "${alerts[@]}"; do
    rm -f "$work"/*_test.yml
    [ "$(python3 "$work/change.py" "$here" "$work" "$alert" "$1" "$2")" = changed ] || continue
    ! promtool test rules "$work"/*_test.yml >"$work/log" 2>&1 || echo "$alert"
  done
}
expect 'a change of nothing is no change' "$(unnoticed nothing '')" ''
expect 'an alert that always fires is noticed' "$(unnoticed expr $'        expr: vector(1)\n')" ''
expect 'one that never fires is' "$(unnoticed expr $'        expr: vector(1) > 1\n')" ''
expect 'one that does not wait is' "$(unnoticed for '')" ''
expect 'each is in the runbook' "$(for alert in "${alerts[@]}"; do grep -q "$alert" "$here/../../docs/runbook.md" || echo "$alert"; done)" ''
