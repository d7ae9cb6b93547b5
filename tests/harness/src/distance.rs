//! A server that is far away: `distant SOCKET SERVER MILLISECONDS` listens on the Unix socket `SOCKET`, says so, and forwards connections to that of
//! `SERVER`. Every byte arrives half of `MILLISECONDS` after it was sent, in both directions, so that a round trip takes as long as that.
//!
//! Threads and not tokio, whose timers are a millisecond coarse; Unix sockets, over which the throwaway clusters trust their clients.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Bytes, and when they arrive. No bytes: the end of the direction.
type Sent = (Instant, Vec<u8>);

pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("distant: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, server, milliseconds] = arguments.as_slice() else {
        bail!("usage: distant SOCKET SERVER MILLISECONDS")
    };
    let round_trip = Duration::try_from_secs_f64(milliseconds.parse::<f64>()? / 1000.0)?;
    let listener = UnixListener::bind(socket).with_context(|| format!("cannot listen on {socket}"))?;
    println!("listens");
    std::io::stdout().flush()?;
    serve(&listener, server, round_trip / 2);
    Ok(())
}

/// Forwards each connection, until the process ends.
fn serve(listener: &UnixListener, server: &str, way: Duration) {
    for client in listener.incoming().flatten() {
        // No server: the client sees its connection closed.
        let Ok(server) = UnixStream::connect(server) else { continue };
        let directions = [(&client, &server), (&server, &client)];
        for (from, to) in directions {
            let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
            let (sender, receiver) = mpsc::channel();
            thread::spawn(move || depart(from, &sender, way));
            thread::spawn(move || arrive(to, &receiver));
        }
    }
}

fn depart(mut from: UnixStream, sent: &Sender<Sent>, way: Duration) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).unwrap_or(0);
        let is_over = sent.send((Instant::now() + way, buffer[..length].to_vec())).is_err() || length == 0;
        if is_over {
            return;
        }
    }
}

fn arrive(mut to: UnixStream, sent: &Receiver<Sent>) {
    for (due, bytes) in sent {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if bytes.is_empty() || to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_as_long_as_it_is_told() -> Result<()> {
        let folder = std::env::temp_dir();
        let path = |name: &str| folder.join(format!("claims-distance-{}-{name}", std::process::id()));
        let (near, far, way) = (path("near"), path("far"), Duration::from_millis(20));
        let (server, relay) = (UnixListener::bind(&far)?, UnixListener::bind(&near)?);
        let mut client = UnixStream::connect(&near)?;
        let address = far.to_string_lossy().into_owned();
        thread::spawn(move || serve(&relay, &address, way));
        let began = Instant::now();
        client.write_all(b"ping")?;
        let (mut stream, _) = server.accept()?;
        let mut asked = [0; 4];
        stream.read_exact(&mut asked)?;
        assert!(began.elapsed() >= way, "the way there took {:?}", began.elapsed());
        stream.write_all(&asked)?;
        drop(stream);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer)?;
        assert_eq!(answer, b"ping");
        assert!(began.elapsed() >= 2 * way, "the round trip took {:?}", began.elapsed());
        std::fs::remove_file(near)?;
        Ok(std::fs::remove_file(far)?)
    }
}
