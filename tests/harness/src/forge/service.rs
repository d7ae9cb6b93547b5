//! The forged service: it forwards every call to a real one, and lies as ordered.

use std::collections::HashMap;
use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;

use super::call::{self, Call, Request};
use super::lie::{Deed, Fault, Honest, Lie, Moment, Place, Step};
use super::teller::{After, tell};
use super::wire::{self, Message};

/// The codes of requests for encryption, which a client sends instead of the protocol version.
const ENCRYPTION: [i32; 2] = [80877103, 80877104];

/// A lie, and the call at which it is told.
#[derive(Clone, Copy)]
pub struct Order {
    pub lie: &'static Lie,
    pub call: Call,
}

#[derive(Default)]
struct Orders {
    current: Option<Order>,
    /// How often it was told since it was ordered.
    told: usize,
}

/// A forged service. Its threads end with the program.
pub struct Forge {
    pub port: u16,
    orders: Arc<Mutex<Orders>>,
}

impl Forge {
    /// Listens, in front of the real service at a port of this machine.
    pub fn start(service: u16) -> Result<Forge> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let forge = Forge { port: listener.local_addr()?.port(), orders: Arc::default() };
        let orders = forge.orders.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let orders = orders.clone();
                thread::spawn(move || serve(client, service, &orders));
            }
        });
        Ok(forge)
    }

    /// Tells the lie at every such call from now on.
    pub fn lie(&self, order: Order) {
        *lock(&self.orders) = Orders { current: Some(order), told: 0 };
    }

    /// Answers honestly from now on. A lie that is being told continues.
    pub fn be_honest(&self) {
        lock(&self.orders).current = None;
    }

    /// Returns how often the last lie was told.
    pub fn told(&self) -> usize {
        lock(&self.orders).told
    }
}

fn lock(orders: &Mutex<Orders>) -> std::sync::MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Serves one connection until one of the two sides ends it.
fn serve(client: TcpStream, service: u16, orders: &Mutex<Orders>) {
    let connection = TcpStream::connect(("127.0.0.1", service));
    if let Ok(server) = connection {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let mut connection = Connection { client, server, orders, statements: HashMap::new() };
        if let Ok(After::GoOn) = connection.greet() {
            let _ = connection.answer_all();
        }
        let _ = (connection.client.shutdown(Shutdown::Both), connection.server.shutdown(Shutdown::Both));
    }
}

struct Connection<'o> {
    client: TcpStream,
    server: TcpStream,
    orders: &'o Mutex<Orders>,
    /// The calls of the prepared statements, by name.
    statements: HashMap<Vec<u8>, Call>,
}

impl Connection<'_> {
    /// Returns the lie to tell at a call, and counts it as told.
    fn order(&self, call: Call, place: impl Fn(Place) -> bool) -> Option<&'static Lie> {
        let mut orders = lock(self.orders);
        let order = orders.current.filter(|order| order.call == call && place(order.lie.place))?;
        orders.told += 1;
        Some(order.lie)
    }

    fn order_at(&self, moment: Moment) -> Option<&'static Lie> {
        self.order(Call::Connect, |place| place == Place::Greeting(moment))
    }

    /// Forwards the start of a connection.
    fn greet(&mut self) -> Result<After> {
        loop {
            let mut length = [0; 4];
            self.client.read_exact(&mut length)?;
            let mut rest = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
            self.client.read_exact(&mut rest)?;
            if !ENCRYPTION.contains(&wire::Bytes(&rest).number_32()) {
                self.server.write_all(&[length.as_slice(), &rest].concat())?;
                break;
            }
            match self.order_at(Moment::Encryption) {
                Some(lie) => {
                    if tell(&mut self.client, (lie.tell)(&Honest::new(Vec::new(), Vec::new()))) == After::Over {
                        return Ok(After::Over);
                    }
                }
                None => self.client.write_all(b"N")?,
            }
        }
        while let Some(message) = Message::read(&mut self.server)? {
            let is_ready = message.tag == b'Z';
            let wants_answer = message.tag == b'R' && matches!(wire::Bytes(&message.body).number_32(), 3 | 5 | 10 | 11);
            match moment(&message).and_then(|moment| self.order_at(moment)) {
                Some(lie) => {
                    if tell(&mut self.client, (lie.tell)(&Honest::new(vec![message], Vec::new()))) == After::Over {
                        return Ok(After::Over);
                    }
                }
                None => self.client.write_all(&message.bytes())?,
            }
            if is_ready {
                return Ok(After::GoOn);
            }
            if wants_answer {
                match Message::read(&mut self.client)? {
                    Some(answer) => self.server.write_all(&answer.bytes())?,
                    None => return Ok(After::Over),
                }
            }
        }
        Ok(After::Over)
    }

    fn answer_all(&mut self) -> Result<()> {
        while let Some(request) = self.request()? {
            let Some((call, parameters)) = &request.call else {
                let answer = self.ask(&request.bytes)?;
                self.client.write_all(&bytes(&answer))?;
                continue;
            };
            let lie = self.order(*call, |place| place == Place::Answer);
            let answer = match lie.map(|lie| lie.deed) {
                Some(Deed::Undone) => self.ask_in_vain(&request.bytes)?,
                _ => self.ask(&request.bytes)?,
            };
            let honest = Honest::new(answer, parameters.clone());
            let steps = match lie {
                Some(lie) if honest.is_of_use() || (lie.fault == Fault::Pages && honest.is_page()) => {
                    (lie.tell)(&honest)
                }
                Some(_) => {
                    lock(self.orders).told -= 1;
                    vec![Step::Send(honest.all())]
                }
                None => vec![Step::Send(honest.all())],
            };
            if tell(&mut self.client, steps) == After::Over {
                break;
            }
        }
        Ok(())
    }

    /// Returns the next request of the client, or `None` if it ends the connection.
    fn request(&mut self) -> Result<Option<Request>> {
        let mut request = Request::default();
        let mut statement = Call::Other;
        loop {
            let Some(message) = Message::read(&mut self.client)? else { return Ok(None) };
            match message.tag {
                b'X' => return Ok(None),
                b'P' => {
                    let (name, text) = call::parse(&message.body);
                    statement = Call::of(&text);
                    self.statements.insert(name, statement);
                }
                b'B' => {
                    let (name, parameters) = call::bind(&message.body);
                    statement = self.statements.get(&name).copied().unwrap_or(statement);
                    request.call = Some((statement.with(&parameters), parameters));
                }
                _ => {}
            }
            if request.add(&message) {
                return Ok(Some(request));
            }
        }
    }

    /// Returns the real service's answer, up to ReadyForQuery.
    fn ask(&mut self, request: &[u8]) -> Result<Vec<Message>> {
        self.server.write_all(request)?;
        let mut answer = Vec::new();
        while let Some(message) = Message::read(&mut self.server)? {
            let is_last = message.tag == b'Z';
            answer.push(message);
            if is_last {
                return Ok(answer);
            }
        }
        Err(std::io::ErrorKind::UnexpectedEof.into())
    }

    /// Like [`Connection::ask`], and rolls the call back.
    fn ask_in_vain(&mut self, request: &[u8]) -> Result<Vec<Message>> {
        let query = |text: &[u8]| wire::message(b'Q', &[text, b"\0"].concat());
        self.ask(&query(b"BEGIN"))?;
        let mut answer = self.ask(request)?;
        self.ask(&query(b"ROLLBACK"))?;
        // Outside of a transaction, as without the rollback.
        if let Some(ready) = answer.last_mut() {
            ready.body = vec![b'I'];
        }
        Ok(answer)
    }
}

fn bytes(messages: &[Message]) -> Vec<u8> {
    messages.iter().flat_map(Message::bytes).collect()
}

/// Returns the moment of a greeting that a message is.
fn moment(message: &Message) -> Option<Moment> {
    match (message.tag, wire::Bytes(&message.body).number_32()) {
        (b'R', 0) => Some(Moment::Authenticated),
        (b'R', 11) => Some(Moment::Challenge),
        (b'R', 12) => Some(Moment::Signature),
        (b'R', _) => Some(Moment::Request),
        (b'K', _) => Some(Moment::Key),
        (b'Z', _) => Some(Moment::Ready),
        _ => None,
    }
}
