// Saves users whose names are unique among all cells.
//
//	go run . sign-up USERNAME EMAIL
//	go run . rename ID FROM TO
//	go run . recover
//
// CELL_URL and SHARED_URL have the connection strings of the two databases, CELL_ID this cell's number.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v4"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	// A program that serves several requests at once has pools instead: pgxpool.
	cellID, err := strconv.ParseInt(os.Getenv("CELL_ID"), 10, 64)
	if err != nil {
		return err
	}
	own, err := pgx.Connect(ctx, os.Getenv("CELL_URL"))
	if err != nil {
		return err
	}
	defer own.Close(ctx)
	shared, err := pgx.Connect(ctx, os.Getenv("SHARED_URL"))
	if err != nil {
		return err
	}
	defer shared.Close(ctx)
	cell := Cell{ID: cellID, Own: own, Shared: shared, Patience: 2 * time.Second}

	switch {
	case len(arguments) == 3 && arguments[0] == "sign-up":
		id, err := cell.SignUp(ctx, arguments[1], arguments[2])
		if err == nil {
			fmt.Println("saved, id", id)
		}
		return err
	case len(arguments) == 4 && arguments[0] == "rename":
		id, err := strconv.ParseInt(arguments[1], 10, 64)
		if err != nil {
			return err
		}
		return cell.Rename(ctx, id, arguments[2], arguments[3])
	case len(arguments) == 1 && arguments[0] == "recover":
		return cell.Recover(ctx)
	}
	return fmt.Errorf("usage: sign-up USERNAME EMAIL | rename ID FROM TO | recover")
}
