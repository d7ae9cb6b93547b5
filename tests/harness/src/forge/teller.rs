//! Tells a lie to a client, step by step.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use super::lie::Step;
use super::wire::Message;

/// The bytes after which a flood stops, and the client is kept waiting. It is enough to show that the client accepts
/// everything, and not so much that the machine runs out of memory.
const MOST: usize = 400 << 20;
/// The number of requests after which an exchange stops.
const MOST_REQUESTS: usize = 1_000_000;

/// The state of the connection after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    GoOn,
    Over,
}

/// Tells the steps. Ends early if the client disconnects.
pub fn tell(client: &mut TcpStream, steps: Vec<Step>) -> After {
    let told = steps.into_iter().try_fold(After::GoOn, |after, step| match after {
        After::GoOn => do_step(client, step),
        After::Over => Ok(After::Over),
    });
    let after = told.unwrap_or(After::Over);
    if after == After::Over {
        let _ = client.shutdown(Shutdown::Both);
    }
    after
}

fn do_step(client: &mut TcpStream, step: Step) -> Result<After> {
    match step {
        Step::Send(bytes) => client.write_all(&bytes)?,
        Step::Wait(time) => thread::sleep(time),
        Step::Flood(piece) => return flood(client, &piece),
        Step::Slowly(bytes) => {
            for byte in bytes {
                client.write_all(&[byte])?;
                thread::sleep(Duration::from_secs(1));
            }
        }
        Step::Drip(piece, pause) => loop {
            client.write_all(&piece)?;
            thread::sleep(pause);
        },
        Step::Exchange(request) => {
            for _ in 0..MOST_REQUESTS {
                client.write_all(&request)?;
                if Message::read(client)?.is_none() {
                    return Ok(After::Over);
                }
            }
            return silence(client);
        }
        Step::Silence => return silence(client),
        Step::Close => return Ok(After::Over),
    }
    Ok(After::GoOn)
}

fn flood(client: &mut TcpStream, piece: &dyn Fn(u64) -> Vec<u8>) -> Result<After> {
    let mut sent = 0;
    for number in 0.. {
        let bytes = piece(number);
        client.write_all(&bytes)?;
        sent += bytes.len();
        if sent >= MOST {
            break;
        }
    }
    silence(client)
}

/// Sends nothing until the client disconnects.
fn silence(client: &mut TcpStream) -> Result<After> {
    let mut heard = [0; 4096];
    loop {
        match client.read(&mut heard) {
            Ok(0) => return Ok(After::Over),
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}
