//! The network in front of one port of a node. It can be cut: connections break, or their data is held back.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

const TICK: Duration = Duration::from_millis(100);

/// The treatment of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Open,
    /// Nothing arrives until the flow is open again, and then everything does. It is a cut that is shorter than the
    /// timeouts of TCP.
    Held,
    /// Connections break, their data is lost, and new ones are refused.
    Broken,
}

struct State {
    flow: AtomicU8,
    /// The number of breaks. A connection from before the last one ends.
    breaks: AtomicU64,
    port: u16,
}

impl State {
    fn flow(&self) -> Flow {
        match self.flow.load(Relaxed) {
            0 => Flow::Open,
            1 => Flow::Held,
            _ => Flow::Broken,
        }
    }
}

pub struct Relay {
    /// The port on which it listens.
    pub port: u16,
    state: Arc<State>,
}

impl Relay {
    /// Listens on a free port, and forwards to `port`.
    pub fn start(port: u16) -> Result<Self> {
        let state = Arc::new(State { flow: AtomicU8::new(0), breaks: AtomicU64::new(0), port });
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("a relay cannot listen")?;
        listener.set_nonblocking(true)?;
        let listening = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let theirs = state.clone();
        thread::spawn(move || runtime.block_on(listen(listener, theirs)));
        Ok(Self { port: listening, state })
    }

    pub fn set(&self, flow: Flow) {
        if flow == Flow::Broken {
            self.state.breaks.fetch_add(1, Relaxed);
        }
        self.state.flow.store(flow as u8, Relaxed);
    }
}

async fn listen(listener: std::net::TcpListener, state: Arc<State>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        match listener.accept().await {
            Ok((client, _)) if state.flow() != Flow::Broken => {
                tokio::spawn(forward(client, state.clone()));
            }
            Ok(_) => {}
            Err(_) => sleep(TICK).await,
        }
    }
}

/// Forwards one connection. Closes it if there is no server at the other end.
async fn forward(client: TcpStream, state: Arc<State>) {
    let born = state.breaks.load(Relaxed);
    while state.flow() == Flow::Held {
        sleep(TICK).await;
    }
    let Ok(server) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], state.port))).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
    tokio::spawn(copy(client_in, server_out, state.clone(), born));
    copy(server_in, client_out, state, born).await;
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: Arc<State>, born: u64) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = timeout(TICK, from.read(&mut buffer)).await;
        // Bytes that were read just before the cut are held back, too.
        while state.flow() == Flow::Held && state.breaks.load(Relaxed) == born {
            sleep(TICK).await;
        }
        if state.breaks.load(Relaxed) != born {
            break;
        }
        match read {
            Err(_) => {}
            Ok(Ok(length)) if length > 0 => {
                if to.write_all(&buffer[..length]).await.is_err() {
                    break;
                }
            }
            Ok(_) => break,
        }
    }
    // The other direction ends with its next read or tick.
    let _ = to.shutdown().await;
}

/// Returns the next of the ports that scripts/failover has taken, in `FAILOVER_PORTS`. No other test gets them, so that a node that
/// was killed starts again on its port.
pub fn free_port() -> Result<u16> {
    static PORTS: LazyLock<Mutex<Vec<u16>>> = LazyLock::new(|| {
        let ports = std::env::var("FAILOVER_PORTS").unwrap_or_default();
        Mutex::new(ports.split_whitespace().filter_map(|port| port.parse().ok()).collect())
    });
    PORTS.lock().unwrap().pop().context("FAILOVER_PORTS has too few ports")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Returns what arrives shortly after it was sent, or `None` if the connection is lost.
    fn hear(stream: &mut std::net::TcpStream) -> Option<String> {
        let mut buffer = [0; 16];
        match stream.read(&mut buffer) {
            Ok(0) => None,
            Ok(length) => Some(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Some(String::new()),
            Err(_) => None,
        }
    }

    #[test]
    fn a_cut_holds_back_or_breaks() {
        let echo = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let relay = Relay::start(echo.local_addr().unwrap().port()).unwrap();
        thread::spawn(move || {
            for mut stream in echo.incoming().flatten() {
                let mut back = stream.try_clone().unwrap();
                thread::spawn(move || std::io::copy(&mut stream, &mut back));
            }
        });
        let connect = || {
            let stream = std::net::TcpStream::connect(("127.0.0.1", relay.port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            stream
        };
        let mut stream = connect();
        let mut say = |text: &str| stream.write_all(text.as_bytes()).map(|()| hear(&mut stream));
        assert_eq!(say("open").unwrap().unwrap(), "open");
        relay.set(Flow::Held);
        assert_eq!(say("held").unwrap().unwrap(), "", "nothing arrives");
        relay.set(Flow::Open);
        assert_eq!(say("").unwrap().unwrap(), "held", "and then it does");
        relay.set(Flow::Held);
        say("lost").unwrap();
        relay.set(Flow::Broken);
        relay.set(Flow::Open);
        assert_eq!(say("").unwrap(), None, "the connection has ended");
        relay.set(Flow::Broken);
        assert_eq!(hear(&mut connect()), None, "no new one");
    }
}
