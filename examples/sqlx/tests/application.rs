//! Tests of the application, in one cell. Names of the other cell are made in its database, `elsewhere`. Names are claimed at COMMIT, so there is no
//! transaction around each test: each has names of its own.

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use claims_example_sqlx::{
    SaveError, add_route, confirm, health, is_username_available, remove, rename, repeated, sign_up,
};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

type Tested = Result<(), Box<dyn std::error::Error>>;

/// Connects to where libpq's environment leads. One connection a test: a service that is down opens the breaker for the session that has met it.
async fn here() -> sqlx::Result<PgPool> {
    PgPoolOptions::new().max_connections(1).connect_with(PgConnectOptions::new()).await
}

async fn elsewhere() -> Result<PgPool, Box<dyn std::error::Error>> {
    let options = PgConnectOptions::new().host(&env::var("OTHER_PGHOST")?).port(env::var("OTHER_PGPORT")?.parse()?);
    Ok(PgPoolOptions::new().max_connections(1).connect_with(options).await?)
}

fn address(username: &str) -> String {
    format!("{username}@example.org")
}

async fn save(pool: &PgPool, username: &str) -> Result<i64, SaveError> {
    repeated(async || sign_up(pool, username, &address(username)).await).await
}

async fn exists(pool: &PgPool, query: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar(&format!("SELECT EXISTS ({query})")).fetch_one(pool).await
}

#[track_caller]
fn assert_taken<T: std::fmt::Debug>(saved: Result<T, SaveError>, wanted: &str) {
    assert!(matches!(saved, Err(SaveError::Taken { field }) if field == wanted), "{saved:?}");
}

fn run(variable: &str) {
    let program = env::var(variable).unwrap();
    assert!(Command::new(program).status().unwrap().success());
}

async fn names(here: &PgPool, elsewhere: &PgPool) -> Tested {
    // A name of another cell is an error of the field.
    save(elsewhere, "grace").await.unwrap();
    assert_taken(save(here, "grace").await, "username");
    assert!(!exists(here, "SELECT FROM users WHERE username = 'grace'").await?);
    let grace = save(here, "grace.hopper").await.unwrap();
    // A name of this cell is the same error.
    assert_taken(save(here, "grace.hopper").await, "username");
    assert_taken(sign_up(here, "grace.murray", "grace.hopper@example.org").await, "email");

    // The form knows before the save.
    assert!(!is_username_available(here, "grace", None).await?);
    assert!(is_username_available(here, "grace.murray", None).await?);
    assert!(!is_username_available(here, "grace.hopper", None).await?);
    assert!(is_username_available(here, "grace.hopper", Some(grace)).await?);

    // An address is claimed once it is confirmed.
    repeated(async || confirm(elsewhere, "grace@example.org").await).await.unwrap();
    sign_up(here, "grace.other", "grace@example.org").await.unwrap();
    assert_taken(repeated(async || confirm(here, "grace@example.org").await).await, "email");
    assert!(!exists(here, "SELECT FROM emails WHERE confirmed").await?);

    // A name that is given up is free elsewhere.
    repeated(async || rename(here, grace, "grace.b.hopper").await).await.unwrap();
    let other = save(elsewhere, "grace.hopper").await.unwrap();
    repeated(async || remove(elsewhere, other).await).await.unwrap();
    repeated(async || rename(here, grace, "grace.hopper").await).await.unwrap();
    Ok(())
}

/// A transaction is saved as a whole or not at all.
async fn transactions(here: &PgPool, elsewhere: &PgPool) -> Tested {
    add_route(&mut *elsewhere.acquire().await?, "engines", 1).await.unwrap();
    let saved = repeated(async || {
        let mut transaction = here.begin().await?;
        add_route(&mut transaction, "engines/analytical", 2).await?;
        add_route(&mut transaction, "engines", 2).await?;
        Ok(transaction.commit().await?)
    });
    assert_taken(saved.await, "path");
    assert!(!exists(here, "SELECT FROM routes WHERE namespace_id = 2").await?);
    Ok(())
}

/// A save is repeated that meets a name being saved elsewhere.
async fn repeats(here: &PgPool, elsewhere: &PgPool) -> Tested {
    let mut other = Some(elsewhere.begin().await?);
    if let Some(transaction) = &mut other {
        add_route(transaction, "kernel", 6).await.unwrap();
        // The name is leased now, and not at COMMIT.
        sqlx::query("SET CONSTRAINTS ALL IMMEDIATE").execute(&mut **transaction).await?;
    }
    let mut busy = 0;
    repeated(async || {
        let saved = add_route(&mut *here.acquire().await?, "kernel", 5).await;
        if matches!(saved, Err(SaveError::Busy)) {
            busy += 1;
            if let Some(transaction) = other.take() {
                transaction.rollback().await?;
            }
        }
        saved
    })
    .await
    .unwrap();
    assert!(busy >= 1);
    assert!(exists(here, "SELECT FROM routes WHERE path = 'kernel' AND namespace_id = 5").await?);
    Ok(())
}

/// The health check shows that the service is down.
async fn outage(here: &PgPool) -> Tested {
    save(here, "margaret").await.unwrap();
    assert_eq!(health(here).await?.status, "ok");
    run("STOP_SERVICE");
    // claims.breaker_failures
    for number in 0..5 {
        let saved = save(here, &format!("margaret.{number}")).await;
        assert!(matches!(saved, Err(SaveError::Unavailable)), "{saved:?}");
    }
    let answer = serde_json::to_value(health(here).await?)?;
    assert_eq!(
        (&answer["status"], &answer["services"][0]["breaker"]),
        (&"degraded".into(), &"open".into()),
        "{answer}"
    );
    assert!(exists(here, "SELECT FROM users WHERE username = 'margaret'").await?);
    run("START_SERVICE");
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(error) = save(here, "margaret.hamilton").await {
        assert!(matches!(error, SaveError::Unavailable) && Instant::now() < end, "{error:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(health(here).await?.status, "ok");
    Ok(())
}

/// One test, since the last part stops the service for all.
#[tokio::test]
async fn application_in_two_cells() -> Tested {
    let (here, elsewhere) = (here().await?, elsewhere().await?);
    names(&here, &elsewhere).await?;
    transactions(&here, &elsewhere).await?;
    repeats(&here, &elsewhere).await?;
    outage(&here).await
}
