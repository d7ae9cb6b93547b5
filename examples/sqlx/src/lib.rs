//! Saves of an ordinary application, with its errors: a field that is not unique, names that are busy.

use std::time::Duration;

use serde::Serialize;
use sqlx::postgres::PgDatabaseError;
use sqlx::{PgConnection, PgPool};

/// Why a save has failed.
#[derive(Debug)]
pub enum SaveError {
    /// The value of this field is already taken. A form shows it there.
    Taken {
        field: &'static str,
    },
    /// Another session is saving or giving up the name: repeat the save.
    Busy,
    /// Names cannot be saved at the moment: 503 with Retry-After in HTTP.
    Unavailable,
    Other(sqlx::Error),
}

/// The names of the application's unique constraints, and of its claims. `claim_attribute(…, constraint_name => …)` could give the claim the
/// constraint's name.
static FIELDS: [(&str, &str); 6] = [
    ("users_username_key", "username"),
    ("users_username_claim", "username"),
    ("emails_email_key", "email"),
    ("emails_email_claim", "email"),
    ("routes_path_key", "path"),
    ("routes_path_claim", "path"),
];

const LOCK_NOT_AVAILABLE: &str = "55P03";
/// The service cannot be reached, or did not answer in time.
const UNAVAILABLE: [&str; 3] = ["08001", "08006", "57014"];

impl From<sqlx::Error> for SaveError {
    fn from(error: sqlx::Error) -> SaveError {
        let Some(violation) = error.as_database_error() else { return SaveError::Other(error) };
        if violation.is_unique_violation() {
            let field = FIELDS.iter().find(|(constraint, _)| violation.constraint() == Some(*constraint));
            return field.map_or(SaveError::Other(error), |(_, field)| SaveError::Taken { field });
        }
        match violation.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::code) {
            Some(LOCK_NOT_AVAILABLE) => SaveError::Busy,
            Some(state) if UNAVAILABLE.contains(&state) => SaveError::Unavailable,
            _ => SaveError::Other(error),
        }
    }
}

const ATTEMPTS: u32 = 20;
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Repeats a save while its names are busy: another session's are settled within milliseconds.
pub async fn repeated<T>(mut save: impl AsyncFnMut() -> Result<T, SaveError>) -> Result<T, SaveError> {
    for attempt in 1..ATTEMPTS {
        match save().await {
            Err(SaveError::Busy) => {
                tokio::time::sleep((SHORTEST_PAUSE * 2_u32.saturating_pow(attempt)).min(LONGEST_PAUSE)).await
            }
            ended => return ended,
        }
    }
    save().await
}

/// Saves a user with an address that is not confirmed yet.
pub async fn sign_up(pool: &PgPool, username: &str, email: &str) -> Result<i64, SaveError> {
    let mut transaction = pool.begin().await?;
    let id: i64 = sqlx::query_scalar("INSERT INTO users (username) VALUES ($1) RETURNING id")
        .bind(username)
        .fetch_one(&mut *transaction)
        .await?;
    sqlx::query("INSERT INTO emails (user_id, email) VALUES ($1, $2)")
        .bind(id)
        .bind(email)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(id)
}

pub async fn rename(pool: &PgPool, id: i64, username: &str) -> Result<(), SaveError> {
    sqlx::query("UPDATE users SET username = $2 WHERE id = $1").bind(id).bind(username).execute(pool).await?;
    Ok(())
}

pub async fn confirm(pool: &PgPool, email: &str) -> Result<(), SaveError> {
    sqlx::query("UPDATE emails SET confirmed = true WHERE email = $1").bind(email).execute(pool).await?;
    Ok(())
}

/// Deletes a user with all addresses.
pub async fn remove(pool: &PgPool, id: i64) -> Result<(), SaveError> {
    sqlx::query("DELETE FROM users WHERE id = $1").bind(id).execute(pool).await?;
    Ok(())
}

/// Adds a route. The caller's transaction may have more of them.
pub async fn add_route(connection: &mut PgConnection, path: &str, namespace_id: i64) -> Result<(), SaveError> {
    sqlx::query("INSERT INTO routes (path, namespace_id) VALUES ($1, $2)")
        .bind(path)
        .bind(namespace_id)
        .execute(connection)
        .await?;
    Ok(())
}

/// Asks whether another cell has the name, for a form. The save decides: if the service does not answer in time, it is true.
pub async fn is_username_available(pool: &PgPool, username: &str, own_id: Option<i64>) -> sqlx::Result<bool> {
    let query = sqlx::query_scalar("SELECT claims.is_available('users', 'username', $1, $2)");
    let free: Option<bool> = query.bind(username).bind(own_id.map(|id| id.to_string())).fetch_one(pool).await?;
    Ok(free != Some(false))
}

/// The answer of the health check.
#[derive(Debug, Serialize)]
pub struct Health {
    pub status: &'static str,
    pub services: Vec<Service>,
}

/// The shared database, as this cell sees it.
#[derive(Debug, Serialize)]
pub struct Service {
    pub service: String,
    pub breaker: String,
    pub last_error: Option<String>,
}

/// Returns "degraded" while the shared database is down: the application still reads, and saves all that has no claimed name.
pub async fn health(pool: &PgPool) -> sqlx::Result<Health> {
    let query = sqlx::query_as("SELECT service::text, breaker, last_error FROM claims.service_state");
    let rows: Vec<(String, String, Option<String>)> = query.fetch_all(pool).await?;
    let services: Vec<Service> =
        rows.into_iter().map(|(service, breaker, last_error)| Service { service, breaker, last_error }).collect();
    let well = services.iter().all(|service| service.breaker == "closed");
    Ok(Health { status: if well { "ok" } else { "degraded" }, services })
}
