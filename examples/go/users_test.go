package main

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v4"
)

var ctx = context.Background()

// Each run of the tests has names of its own.
var suffix = strconv.FormatInt(time.Now().UnixNano(), 36)

func name(text string) string  { return text + "-" + suffix }
func email(text string) string { return name(text) + "@example.com" }

func connect(t *testing.T, variable string) *pgx.Conn {
	t.Helper()
	connection, err := pgx.Connect(ctx, os.Getenv(variable))
	must(t, err)
	t.Cleanup(func() { connection.Close(ctx) })
	return connection
}

func connectCell(t *testing.T) (cell Cell, own, shared *pgx.Conn) {
	own, shared = connect(t, "CELL_URL"), connect(t, "SHARED_URL")
	return Cell{ID: 1, Own: own, Shared: shared, Patience: time.Minute}, own, shared
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, got, wanted interface{}) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Fatalf("got %v, wanted %v", got, wanted)
	}
}

func number(t *testing.T, database Database, sql string, args ...interface{}) (count int64) {
	t.Helper()
	must(t, database.QueryRow(ctx, sql, args...).Scan(&count))
	return
}

// owner returns the cell that has a name, and its status; "free" if none has.
func owner(t *testing.T, shared Database, bucket, value string) (found string) {
	t.Helper()
	err := shared.QueryRow(ctx, "SELECT cell_id || ' ' || status FROM claims.get_record($1, $2)", bucket, value).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return "free"
	}
	must(t, err)
	return
}

func nothingIsLeft(t *testing.T, cell Cell) {
	t.Helper()
	expect(t, number(t, cell.Shared, "SELECT count(*) FROM claims.list_leases($1)", cell.ID), int64(0))
}

// otherBegins leases a name for cell 2.
func otherBegins(t *testing.T, bucket, value string) (other *pgx.Conn, lease string) {
	other = connect(t, "OTHER_URL")
	must(t, other.QueryRow(ctx, "SELECT claims.begin_update(2, $1)::text", list([]Claim{claim(bucket, value, 1)})).Scan(&lease))
	return
}

func otherHas(t *testing.T, bucket, value string) {
	other, lease := otherBegins(t, bucket, value)
	_, err := other.Exec(ctx, "SELECT claims.commit_update(2, $1)", lease)
	must(t, err)
}

func TestSignUpAndRename(t *testing.T) {
	cell, own, shared := connectCell(t)
	id, err := cell.SignUp(ctx, name("ada"), email("ada"))
	must(t, err)
	must(t, cell.Rename(ctx, id, name("ada"), name("countess")))
	expect(t, owner(t, shared, "USERNAMES", name("ada")), "free")
	expect(t, owner(t, shared, "USERNAMES", name("countess")), "1 ACTIVE")
	expect(t, owner(t, shared, "EMAILS", email("ada")), "1 ACTIVE")
	expect(t, number(t, own, "SELECT id FROM users WHERE username = $1", name("countess")), id)
	nothingIsLeft(t, cell)
}

func TestTakenNamesAreErrorsOfTheirFields(t *testing.T) {
	cell, own, shared := connectCell(t)
	otherHas(t, "EMAILS", email("bob"))
	_, err := cell.SignUp(ctx, name("bob"), email("bob"))
	expect(t, err, FieldErrors{"email": "is taken"})
	otherHas(t, "USERNAMES", name("eve"))
	_, err = cell.SignUp(ctx, name("eve"), email("bob"))
	expect(t, err, FieldErrors{"email": "is taken", "username": "is taken"})
	expect(t, owner(t, shared, "USERNAMES", name("bob")), "free")
	expect(t, number(t, own, "SELECT count(*) FROM users WHERE username = $1", name("bob")), int64(0))
	nothingIsLeft(t, cell)
}

func TestBusyNameIsWaitedFor(t *testing.T) {
	cell, _, shared := connectCell(t)
	other, lease := otherBegins(t, "USERNAMES", name("dan"))
	hurried := cell
	hurried.Patience = 0
	_, err := hurried.SignUp(ctx, name("dan"), email("dan"))
	expect(t, err, FieldErrors{"username": "is being saved by somebody else: try again"})

	given := make(chan error)
	go func() {
		_, err := other.Exec(ctx, "SELECT pg_sleep(0.2), claims.rollback_update(2, $1)", lease)
		given <- err
	}()
	_, err = cell.SignUp(ctx, name("dan"), email("dan"))
	must(t, err)
	must(t, <-given)
	expect(t, owner(t, shared, "USERNAMES", name("dan")), "1 ACTIVE")
	nothingIsLeft(t, cell)
}

func TestRowThatCannotBeSavedLeavesItsNamesFree(t *testing.T) {
	cell, own, shared := connectCell(t)
	// A row from before claims.
	_, err := own.Exec(ctx, "INSERT INTO users (username, email) VALUES ($1, $2)", name("old"), email("old"))
	must(t, err)
	_, err = cell.SignUp(ctx, name("new"), email("old"))
	expect(t, err, FieldErrors{"email": "is taken"})
	expect(t, owner(t, shared, "USERNAMES", name("new")), "free")
	nothingIsLeft(t, cell)
	_, err = own.Exec(ctx, "DELETE FROM users WHERE username = $1", name("old"))
	must(t, err)
}

// Without its connection the program can do no more than if it had crashed.
func TestCrashBetweenTheCommits(t *testing.T) {
	cell, _, shared := connectCell(t)
	create := []Claim{claim("USERNAMES", name("crash"), 1001), claim("EMAILS", email("crash"), 1001)}
	must(t, cell.Save(ctx, create, nil, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO users (id, username, email) VALUES (1001, $1, $2)", name("crash"), email("crash"))
		shared.Close(ctx)
		return err
	}))
	cell, _, shared = connectCell(t)
	expect(t, owner(t, shared, "USERNAMES", name("crash")), "1 LEASE_CREATING")
	must(t, cell.Recover(ctx))
	expect(t, owner(t, shared, "USERNAMES", name("crash")), "1 ACTIVE")
	nothingIsLeft(t, cell)
}

func TestCrashBeforeTheFirstCommit(t *testing.T) {
	cell, own, shared := connectCell(t)
	lost := []Claim{claim("USERNAMES", name("lost"), 1002)}
	err := cell.Save(ctx, lost, nil, func(tx pgx.Tx) error {
		own.Close(ctx)
		shared.Close(ctx)
		return nil
	})
	if err == nil {
		t.Fatal("saved without a connection")
	}
	cell, _, shared = connectCell(t)
	expect(t, owner(t, shared, "USERNAMES", name("lost")), "1 LEASE_CREATING")
	must(t, cell.Recover(ctx))
	expect(t, owner(t, shared, "USERNAMES", name("lost")), "free")
	nothingIsLeft(t, cell)
}
