//! A client that stays in one conversation.

use std::io;
use std::net::SocketAddr;

use super::requests::{Session, response_id};
use super::{Api, Plan, Shape, connect, converse, in_time, session_name};
use crate::bench::http1::{Connection, Message};
use crate::bench::testbed::Target;

/// A conversation with Herma on its own connection, after the first turn.
#[derive(Debug)]
pub(in crate::bench) struct Talk {
    connection: Connection,
    session: Session,
    latest: Message,
}

impl Talk {
    /// Connects and takes the first turn.
    pub(in crate::bench) async fn begin(address: SocketAddr, api: Api, shape: Shape) -> io::Result<Self> {
        let mut connection = connect(address).await?;
        let plan = Plan { clients: 1, turns: 1, history: 2, shape, api };
        let mut session = Session::new(Target::Herma, &plan, &session_name());
        let opening = session.opening.as_ref().ok_or_else(|| io::Error::other("this API has no second turn"))?;
        let (_, latest) = in_time(converse(&mut connection, opening)).await?;
        session.answered(&latest)?;
        Ok(Self { connection, session, latest })
    }

    /// Takes `count` more turns.
    pub(in crate::bench) async fn turns(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let (_, answer) = in_time(converse(&mut self.connection, self.session.turn())).await?;
            self.session.answered(&answer)?;
            self.latest = answer;
        }
        Ok(())
    }

    /// The id of its latest response.
    pub(in crate::bench) fn response(&self) -> io::Result<String> {
        response_id(&self.latest)
    }
}
