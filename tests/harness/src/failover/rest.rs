//! The part of Patroni's REST API that is used here.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// A node, as Patroni shows it.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub role: String,
    pub state: String,
    pub timeline: Option<i64>,
}

/// Returns the nodes that Patroni knows.
pub fn members(port: u16) -> Result<Vec<Member>> {
    let (_, body) = request(port, "GET", "/cluster", None, Duration::from_secs(3))?;
    let answer: Value = serde_json::from_str(&body)?;
    let text = |member: &Value, key: &str| member[key].as_str().unwrap_or_default().to_string();
    let member = |m: &Value| Member {
        name: text(m, "name"),
        role: text(m, "role"),
        state: text(m, "state"),
        timeline: m["timeline"].as_i64(),
    };
    Ok(answer["members"].as_array().context("no members")?.iter().map(member).collect())
}

/// Requests a planned switchover to any node that Patroni chooses.
pub fn switch_over(port: u16, leader: &str) -> Result<()> {
    let body = json!({ "leader": leader }).to_string();
    expect_ok(request(port, "POST", "/switchover", Some(&body), Duration::from_secs(60))?)
}

/// Makes the node copy everything from the leader again. Patroni refuses if the node is busy: two copies at a time
/// would destroy each other.
pub fn reinitialize(port: u16) -> Result<()> {
    expect_ok(request(port, "POST", "/reinitialize", Some("{}"), Duration::from_secs(10))?)
}

fn expect_ok((status, body): (u16, String)) -> Result<()> {
    if !(200..300).contains(&status) {
        bail!("Patroni says {status}: {}", body.trim());
    }
    Ok(())
}

/// Sends one request over a connection of its own, which the server closes.
pub fn request(port: u16, method: &str, path: &str, body: Option<&str>, limit: Duration) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let body = body.unwrap_or_default();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its headers")?;
    let status = head.split_whitespace().nth(1).and_then(|s| s.parse().ok()).context("an answer without a status")?;
    Ok((status, body.to_string()))
}
