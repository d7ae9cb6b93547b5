#!/usr/bin/env bash
# The example in Go: examples/go, with go test, and each command once. It compiles with Debian's pgx.
# test: long
. "$(dirname "$0")/../applications.bash"

command -v go >/dev/null || skip 'there is no go'
# Debian's packages lie where go looks for them without modules.
export GOPATH=/usr/share/gocode GO111MODULE=off GOFLAGS= GOCACHE=$CLAIMS_TARGET/go-build
[ -d "$GOPATH/src/github.com/jackc/pgx/v4" ] || skip 'there is no golang-github-jackc-pgx-v4-dev'
cd "$CLAIMS_ROOT/examples/go"
expect 'go fmt' "$(gofmt -l .)" ''
go build -o "$CLAIMS_TMP/users" .

start_saving_by_hand script_go
users() { "$CLAIMS_TMP/users" "$@" 2>&1 || true; }
expect 'sign up' "$(users sign-up ada ada@example.com)" 'saved, id 1'
expect 'the same names again' "$(users sign-up ada ada@example.com)" $'username is taken\nemail is taken'
expect 'rename, and recover' "$(users rename 1 ada countess; users recover)" ''
go test -count=1 .
nothing_is_left_by_hand script_go
