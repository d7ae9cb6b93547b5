//! A superuser's session on one node, which is opened again after it was lost.

use crate::server::Server;
use postgres::Client;

pub struct Hand<'a> {
    node: &'a Server,
    database: &'a str,
    client: Option<Client>,
}

impl<'a> Hand<'a> {
    pub fn new(node: &'a Server, database: &'a str) -> Self {
        Self { node, database, client: None }
    }

    /// Returns the server's answer, if there is one. Asks once more if the session was lost since the last call.
    pub fn run<T>(&mut self, ask: impl Fn(&mut Client) -> Result<T, postgres::Error>) -> Option<T> {
        if let Some(client) = &mut self.client {
            match ask(client) {
                Err(_) if client.is_closed() => self.client = None,
                answer => return answer.ok(),
            }
        }
        let mut client = self.node.admin(self.database).ok()?;
        let answer = ask(&mut client);
        self.client = Some(client);
        answer.ok()
    }
}
