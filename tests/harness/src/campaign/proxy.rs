//! The network between the cells and the service. While it is cut, connections break, or their data is held back and
//! arrives when the cut ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::seq::IndexedRandom;

use super::Field;

const TICK: Duration = Duration::from_millis(20);

/// The network, which ends when this value is dropped.
pub struct Network {
    ended: Arc<AtomicBool>,
}

impl Drop for Network {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
    }
}

enum Cut {
    No,
    Close,
    Hold,
}

fn state(cut: &Path) -> Cut {
    match std::fs::read_to_string(cut).as_deref().map(str::trim) {
        Ok("close") => Cut::Close,
        Ok(_) => Cut::Hold,
        Err(_) => Cut::No,
    }
}

/// Listens, and forwards connections to the service: to any of its nodes.
pub fn start(field: &Arc<Field>) -> Result<Network> {
    let listener = TcpListener::bind(("127.0.0.1", field.proxy_port)).context("the proxy cannot listen")?;
    listener.set_nonblocking(true)?;
    let ended = Arc::new(AtomicBool::new(false));
    let network = Network { ended: ended.clone() };
    let field = field.clone();
    thread::spawn(move || {
        while !ended.load(Relaxed) {
            match listener.accept() {
                Ok((client, _)) => {
                    // The script may be writing the list.
                    let nodes = field.service_nodes().unwrap_or_default();
                    let Some((_, port)) = nodes.choose(&mut rand::rng()) else { continue };
                    forward(client, *port, &field.cut, &ended);
                }
                Err(_) => thread::sleep(TICK),
            }
        }
    });
    Ok(network)
}

/// Forwards one connection. Closes it if there is no server at the other end.
fn forward(client: TcpStream, port: u16, cut: &Path, ended: &Arc<AtomicBool>) {
    if matches!(state(cut), Cut::Close) {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let both_ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
    for (from, to) in both_ways {
        if let (Ok(from), Ok(to)) = (from, to) {
            let (cut, ended): (PathBuf, _) = (cut.to_path_buf(), ended.clone());
            thread::spawn(move || copy(from, to, &cut, &ended));
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, cut: &Path, ended: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    let ready = from.set_nonblocking(false).and_then(|()| from.set_read_timeout(Some(TICK)));
    let _ = (from.set_nodelay(true), to.set_nodelay(true));
    while ready.is_ok() && !ended.load(Relaxed) {
        let read = from.read(&mut buffer);
        // Bytes that were read just before the cut are held back, too.
        while matches!(state(cut), Cut::Hold) && !ended.load(Relaxed) {
            thread::sleep(TICK);
        }
        if matches!(state(cut), Cut::Close) {
            break;
        }
        match read {
            Ok(0) => break,
            Ok(length) if to.write_all(&buffer[..length]).is_err() => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
