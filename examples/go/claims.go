package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
)

// Database is a connection of pgx, or a pool.
type Database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...interface{}) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...interface{}) pgx.Row
}

// Cell is one installation of the application.
type Cell struct {
	ID       int64
	Own      Database      // Has the application's tables.
	Shared   Database      // Keeps the claims of all cells.
	Patience time.Duration // How long a save waits for a name that another session is saving or giving up.
}

// Claim is a name, and the row that it belongs to.
type Claim struct {
	Bucket  Bucket `json:"bucket"`
	Subject Row    `json:"subject"`
	Source  Row    `json:"source"`
}

type Bucket struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type Row struct {
	Type string `json:"type"`
	ID   int64  `json:"id"`
}

// Conflict says why a name cannot be claimed (op "create") or given up (op "destroy").
type Conflict struct {
	Op        string `json:"op"`
	Bucket    Bucket `json:"bucket"`
	Reason    string `json:"reason"`
	Retryable bool   `json:"retryable"`
}

// Conflicts has every conflict of a save.
type Conflicts []Conflict

func (conflicts Conflicts) Error() string {
	return fmt.Sprintf("conflicting names: %+v", []Conflict(conflicts))
}

func (conflicts Conflicts) temporary() bool {
	for _, conflict := range conflicts {
		if !conflict.Retryable {
			return false
		}
	}
	return true
}

// Save runs change in a transaction of the cell, in which the names of create are claimed and those of destroy are given up.
func (cell Cell) Save(ctx context.Context, create, destroy []Claim, change func(pgx.Tx) error) error {
	tx, err := cell.Own.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // After COMMIT it does nothing.

	var lease, xid string
	err = tx.QueryRow(ctx, "SELECT gen_random_uuid()::text, pg_current_xact_id()::text").Scan(&lease, &xid)
	if err != nil {
		return err
	}
	if err = cell.begin(ctx, create, destroy, lease, xid); err != nil {
		return err
	}
	if err = change(tx); err == nil {
		// Commits with the rows: the proof that they were saved.
		_, err = tx.Exec(ctx, "SELECT claims.track_lease($1)", lease)
	}
	if err != nil {
		tx.Rollback(ctx)
		// If this call is lost, Recover rolls the lease back.
		cell.Shared.Exec(ctx, "SELECT claims.rollback_update($1, $2)", cell.ID, lease)
		return err
	}
	if err = tx.Commit(ctx); err != nil {
		// The server may have committed, and only its answer is lost. Recover asks it, and ends the lease accordingly.
		return err
	}
	// The rows are saved, whatever happens from here on. If one of these calls is lost, Recover makes it.
	if _, err = cell.Shared.Exec(ctx, "SELECT claims.commit_update($1, $2)", cell.ID, lease); err == nil {
		cell.Own.Exec(ctx, "SELECT claims.forget_leases(ARRAY[$1::uuid])", lease)
	}
	return nil
}

// begin leases the names. It tries again while all conflicts are temporary, with the same uuid: so the call may be repeated.
func (cell Cell) begin(ctx context.Context, create, destroy []Claim, lease, xid string) error {
	for until := time.Now().Add(cell.Patience); ; time.Sleep(50 * time.Millisecond) {
		var found []byte
		err := cell.Shared.QueryRow(ctx, `SELECT conflicts::text FROM claims.try_begin_update($1, $2, $3, lease_uuid => $4, cell_xid => $5)`,
			cell.ID, list(create), list(destroy), lease, xid).Scan(&found)
		if err != nil || found == nil {
			return err
		}
		var conflicts Conflicts
		if err = json.Unmarshal(found, &conflicts); err != nil {
			return err
		}
		if !conflicts.temporary() || time.Now().After(until) {
			return conflicts
		}
	}
}

func list(claims []Claim) string {
	if claims == nil {
		return "[]"
	}
	text, _ := json.Marshal(claims)
	return string(text)
}

// Recover ends the leases of saves that crashed on their way: with the claims where the cell's transaction committed, else without.
// Running saves are left alone. Call it every minute, or have the extension's background worker do it.
func (cell Cell) Recover(ctx context.Context) error {
	var orphaned int64
	err := cell.Own.QueryRow(ctx, "SELECT orphaned FROM claims.reconcile($1, 'claims_service')", cell.ID).Scan(&orphaned)
	if err == nil && orphaned > 0 {
		err = errors.New("rows were saved whose claims are gone: see the log of the cell's server")
	}
	return err
}
