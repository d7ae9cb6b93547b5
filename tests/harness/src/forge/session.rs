//! A session of a cell's application. Its statements end by a deadline: by themselves, or because they are ended.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::{CancelToken, Client, Config, NoTls, SimpleQueryMessage};

/// The end of a statement.
#[derive(Debug, Clone)]
pub enum End {
    /// With the first value of its last row.
    Done(Option<String>),
    Refused {
        code: String,
        message: String,
    },
    /// The connection is lost.
    Lost(String),
}

impl End {
    pub fn is_done(&self) -> bool {
        matches!(self, End::Done(_))
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Done(value) => write!(f, "success ({})", value.as_deref().unwrap_or("nothing")),
            End::Refused { code, message } => write!(f, "{code} {}", message.chars().take(100).collect::<String>()),
            End::Lost(why) => write!(f, "the connection is gone: {why}"),
        }
    }
}

/// The way in which a statement was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndedBy {
    Itself,
    Cancel,
    Terminate,
    Kill,
}

/// A statement that has ended.
#[derive(Debug)]
pub struct Ended {
    pub end: End,
    pub by: EndedBy,
    /// The time since its start, or since the attempt to end it.
    pub took: Duration,
}

pub struct Session {
    // The client is dropped first; then the runtime ends the connection.
    client: Client,
    runtime: Runtime,
    pub pid: i32,
}

/// How long connections and honest statements may take.
pub const HONEST_LIMIT: Duration = Duration::from_secs(60);

impl Session {
    pub fn connect(directory: &str, port: u16, database: &str, role: &str) -> Result<Session> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut config = Config::new();
        config.host(directory).port(port).dbname(database).user(role).application_name("forge");
        let connected = runtime.block_on(async {
            let (client, connection) = timeout(HONEST_LIMIT, config.connect(NoTls)).await??;
            tokio::spawn(connection);
            Ok::<_, anyhow::Error>(client)
        });
        let mut session = Session { client: connected.context("no connection to the cluster")?, runtime, pid: 0 };
        session.pid = session.value("SELECT pg_backend_pid()")?.context("no pid")?.parse()?;
        Ok(session)
    }

    /// Returns the first value of the last row of a statement that must succeed.
    pub fn value(&self, sql: &str) -> Result<Option<String>> {
        match self.run_patiently(sql, HONEST_LIMIT) {
            Some(End::Done(value)) => Ok(value),
            Some(end) => anyhow::bail!("{end}: {sql}"),
            None => anyhow::bail!("no answer within {} s: {sql}", HONEST_LIMIT.as_secs()),
        }
    }

    /// Runs statements. Returns `None` if they have not ended in time; then the session is unusable.
    pub fn run(&self, sql: &str, limit: Duration) -> Option<End> {
        self.runtime.block_on(async { timeout(limit, self.client.simple_query(sql)).await.ok().map(ended) })
    }

    /// Like [`Session::run`], and repeats a statement that could not reach the service: on a busy machine connecting may
    /// take longer than `connect_timeout`.
    pub fn run_patiently(&self, sql: &str, limit: Duration) -> Option<End> {
        let since = Instant::now();
        loop {
            match self.run(sql, limit) {
                Some(End::Refused { code, .. }) if code == "08001" && since.elapsed() < limit => {
                    self.run("ROLLBACK", limit)?;
                    std::thread::sleep(Duration::from_millis(20));
                }
                end => return end,
            }
        }
    }

    /// Runs a statement. After `limit` it is canceled, then terminated, and at last killed; each time it has `leave` to
    /// obey.
    pub fn run_until(&self, sql: &str, limit: Duration, leave: Duration) -> Ended {
        self.runtime.block_on(async {
            let mut query = pin!(self.client.simple_query(sql));
            let (mut by, mut since, mut wait) = (EndedBy::Itself, Instant::now(), limit);
            loop {
                if let Ok(answer) = timeout(wait, query.as_mut()).await {
                    return Ended { end: ended(answer), by, took: since.elapsed() };
                }
                by = match by {
                    EndedBy::Itself => EndedBy::Cancel,
                    EndedBy::Cancel => EndedBy::Terminate,
                    EndedBy::Terminate | EndedBy::Kill => {
                        let end = End::Lost("it obeys nobody".into());
                        return Ended { end, by: EndedBy::Kill, took: since.elapsed() };
                    }
                };
                (since, wait) = (Instant::now(), leave);
                self.stop(by).await;
            }
        })
    }

    async fn stop(&self, by: EndedBy) {
        let token: CancelToken = self.client.cancel_token();
        if by == EndedBy::Cancel {
            let _ = timeout(HONEST_LIMIT, token.cancel_query(NoTls)).await;
        } else {
            super::process::signal(self.pid, rustix::process::Signal::TERM);
        }
    }
}

fn ended(answer: Result<Vec<SimpleQueryMessage>, tokio_postgres::Error>) -> End {
    match answer {
        Ok(messages) => {
            let row = messages.iter().rev().find_map(|message| match message {
                SimpleQueryMessage::Row(row) if !row.is_empty() => Some(row.get(0).map(str::to_owned)),
                _ => None,
            });
            End::Done(row.flatten())
        }
        Err(error) => match error.as_db_error() {
            Some(error) if !error.severity().starts_with("FATAL") => {
                End::Refused { code: error.code().code().to_owned(), message: error.message().to_owned() }
            }
            Some(error) => End::Lost(format!("{} {}", error.code().code(), error.message())),
            None => End::Lost(error.to_string()),
        },
    }
}
