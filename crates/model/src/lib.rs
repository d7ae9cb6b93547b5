//! The rules of `claims` that need no Postgres.
