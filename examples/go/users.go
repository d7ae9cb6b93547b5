package main

import (
	"context"
	"errors"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
)

// FieldErrors has a message for each field of the form that the user has to change.
type FieldErrors map[string]string

func (fields FieldErrors) Error() string {
	text := ""
	for _, field := range []string{"username", "email"} {
		if message, wrong := fields[field]; wrong {
			text += field + " " + message + "\n"
		}
	}
	return text
}

// SignUp saves a user, and claims both names.
func (cell Cell) SignUp(ctx context.Context, username, email string) (int64, error) {
	// The claims name the row, so its id comes first.
	var id int64
	err := cell.Own.QueryRow(ctx, "SELECT nextval(pg_get_serial_sequence('users', 'id'))").Scan(&id)
	if err != nil {
		return 0, err
	}
	create := []Claim{claim("USERNAMES", username, id), claim("EMAILS", email, id)}
	err = cell.Save(ctx, create, nil, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO users (id, username, email) VALUES ($1, $2, $3)", id, username, email)
		return err
	})
	return id, byField(err)
}

// Rename gives a user another name: at no moment it has neither, and nobody else can have the new one.
func (cell Cell) Rename(ctx context.Context, id int64, from, to string) error {
	create, destroy := []Claim{claim("USERNAMES", to, id)}, []Claim{claim("USERNAMES", from, id)}
	return byField(cell.Save(ctx, create, destroy, func(tx pgx.Tx) error {
		updated, err := tx.Exec(ctx, "UPDATE users SET username = $3 WHERE id = $1 AND username = $2", id, from, to)
		if err == nil && updated.RowsAffected() == 0 {
			err = errors.New("there is no such user any more")
		}
		return err
	}))
}

func claim(bucket, value string, id int64) Claim {
	return Claim{Bucket{bucket, value}, Row{"USER", id}, Row{"RAILS_TABLE_USERS", id}}
}

// byField makes messages for the user of the errors that are about a field, and returns other errors as they are.
func byField(err error) error {
	fields := FieldErrors{}
	var conflicts Conflicts
	var violation *pgconn.PgError
	switch {
	case errors.As(err, &conflicts):
		for _, conflict := range conflicts {
			if conflict.Op != "create" {
				return err // The row that gives the name up is not the one that has it.
			}
			field := map[string]string{"USERNAMES": "username", "EMAILS": "email"}[conflict.Bucket.Type]
			fields[field] = "is taken"
			if conflict.Retryable {
				fields[field] = "is being saved by somebody else: try again"
			}
		}
	case errors.As(err, &violation) && violation.ConstraintName == "users_username_key":
		fields["username"] = "is taken" // By a row of this cell that has no claim yet.
	case errors.As(err, &violation) && violation.ConstraintName == "users_email_key":
		fields["email"] = "is taken"
	default:
		return err
	}
	return fields
}
