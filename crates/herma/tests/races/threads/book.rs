//! What a test remembers: what was said where, in order, and which names and responses there are.

use super::SLUGS;
use super::steps::{Api, Name};

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) role: String,
    pub(super) text: String,
    /// Whether it breaks off.
    pub(super) is_partial: bool,
    /// The number of the turn that said it.
    pub(super) turn: usize,
    /// Whether that turn came to its end.
    pub(super) is_answered: bool,
    /// Whether it was said before its conversation branched off.
    pub(super) is_inherited: bool,
    /// Whether it was deleted.
    pub(super) is_gone: bool,
}

/// A conversation.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) handle: String,
    /// The name that a client chose for it.
    pub(super) slug: Option<&'static str>,
    pub(super) is_alive: bool,
    pub(super) lines: Vec<Line>,
}

impl Thread {
    /// What there is to be seen.
    pub(super) fn said(&self) -> Vec<&Line> {
        self.lines.iter().filter(|line| !line.is_gone).collect()
    }

    /// Whether nothing was successfully said after a turn.
    pub(super) fn ends_with(&self, turn: usize) -> bool {
        let mut backwards = self.lines.iter().rev().filter(|line| !line.is_gone);
        backwards.find(|line| line.turn == turn || line.is_answered).is_some_and(|line| line.turn == turn)
    }

    /// What was said when a turn ended.
    pub(super) fn up_to(&self, turn: usize) -> &[Line] {
        let last = self.lines.iter().rposition(|line| line.turn == turn);
        &self.lines[..last.map_or(0, |last| last + 1)]
    }

    fn has_any_of(&self, turn: usize) -> bool {
        self.said().iter().any(|line| line.turn == turn)
    }
}

/// What a turn is called by.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) thread: usize,
    pub(super) turn: usize,
    pub(super) api: Api,
    /// Whether it can be fetched.
    pub(super) is_kept: bool,
    pub(super) is_completed: bool,
    /// The stream that its client saw.
    pub(super) frames: Option<Vec<String>>,
}

/// A name as it is sent.
#[derive(Debug, Clone)]
pub(super) enum Address {
    /// As `conversation`.
    Conversation(String),
    /// As `X-Hermes-Session-Id`.
    Session(String),
    /// As `previous_response_id`.
    Previous(String),
    Nothing,
}

/// Where a turn has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// On with this conversation.
    Continue(usize),
    /// A new one, which begins with what this one had said when that turn ended.
    Branch(usize, usize),
    /// A new one.
    Fresh(Option<&'static str>),
    /// There is none.
    Unknown,
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) threads: Vec<Thread>,
    /// Every session id and the conversation that it was made for, slugs aside.
    pub(super) sessions: Vec<(String, usize)>,
    /// Responses and runs.
    pub(super) records: Vec<Record>,
    /// The last number that was given.
    numbers: usize,
}

impl Book {
    pub(super) fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    /// The conversation that a slug leads to.
    pub(super) fn of_slug(&self, slug: &str) -> Option<usize> {
        self.threads.iter().position(|thread| thread.is_alive && thread.slug == Some(slug))
    }

    pub(super) fn of_handle(&self, handle: &str) -> Option<usize> {
        self.threads.iter().position(|thread| thread.handle == handle)
    }

    /// What a name is at a door, and where it leads. A name that nothing has yet is the first slug.
    pub(super) fn look_up(&self, name: Name, api: Api) -> (Address, Target) {
        match name {
            Name::None => (Address::Nothing, Target::Fresh(None)),
            Name::Slug(slug) => self.slug(SLUGS[slug]),
            Name::Handle(number) => match newest(&self.threads, number) {
                Some(thread) => (Address::Conversation(thread.handle.clone()), self.alive(thread.handle.as_str())),
                None => self.slug(SLUGS[0]),
            },
            Name::Session(number) => match newest(&self.sessions, number) {
                Some((id, thread)) => (Address::Session(id.clone()), self.alive(&self.threads[*thread].handle)),
                None => self.slug(SLUGS[0]),
            },
            Name::Response(number) => {
                let responses: Vec<&Record> = self.responses().collect();
                match newest(&responses, number) {
                    Some(response) if matches!(api, Api::Chat | Api::StreamedChat) => {
                        let alive = self.alive(&self.threads[response.thread].handle);
                        let target = if response.is_kept { alive } else { Target::Unknown };
                        (Address::Session(response.id.clone()), target)
                    }
                    Some(response) => (Address::Previous(response.id.clone()), self.after(response)),
                    None => self.slug(SLUGS[0]),
                }
            }
        }
    }

    pub(super) fn slug(&self, slug: &'static str) -> (Address, Target) {
        let target = self.of_slug(slug).map_or(Target::Fresh(Some(slug)), Target::Continue);
        (Address::Conversation(slug.to_owned()), target)
    }

    pub(super) fn responses(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.api.makes_a_response())
    }

    fn alive(&self, handle: &str) -> Target {
        let found = self.of_handle(handle).filter(|thread| self.threads[*thread].is_alive);
        found.map_or(Target::Unknown, Target::Continue)
    }

    /// Where a turn after a response goes: on, if that is the last one, else into a branch, if it has an end to begin at.
    fn after(&self, response: &Record) -> Target {
        let thread = &self.threads[response.thread];
        match response.is_kept && thread.is_alive {
            true if thread.ends_with(response.turn) => Target::Continue(response.thread),
            true if response.is_completed && thread.has_any_of(response.turn) => {
                Target::Branch(response.thread, response.turn)
            }
            _ => Target::Unknown,
        }
    }

    /// The last response of a conversation, if a turn after it goes on there.
    pub(super) fn last_response(&self, thread: usize) -> Option<&Record> {
        self.responses()
            .filter(|response| response.thread == thread && response.is_completed)
            .find(|response| self.after(response) == Target::Continue(thread))
    }

    /// What a turn with this target finds.
    pub(super) fn before(&self, target: &Target) -> Vec<Line> {
        match target {
            Target::Continue(thread) => self.threads[*thread].lines.clone(),
            Target::Branch(thread, turn) => {
                let inherited = self.threads[*thread].up_to(*turn).iter().cloned();
                inherited.map(|line| Line { is_inherited: true, ..line }).collect()
            }
            Target::Fresh(_) | Target::Unknown => Vec::new(),
        }
    }

    /// The conversation that a target is, made if it is new.
    pub(super) fn enter(&mut self, target: &Target, handle: &str) -> usize {
        let slug = match target {
            Target::Continue(thread) => {
                assert_eq!(self.threads[*thread].handle, handle, "it went on where it was");
                return *thread;
            }
            Target::Branch(..) => None,
            Target::Fresh(slug) => *slug,
            Target::Unknown => panic!("nothing was to be found, and {handle} was"),
        };
        assert_eq!(self.of_handle(handle), None, "a new conversation is a new one");
        let lines = self.before(target);
        self.threads.push(Thread { handle: handle.to_owned(), slug, is_alive: true, lines });
        self.threads.len() - 1
    }

    /// Whether something was inherited, or another conversation inherits it.
    pub(super) fn is_shared(&self, thread: usize, line: &Line) -> bool {
        let others = self.threads.iter().enumerate().filter(|(other, found)| *other != thread && found.is_alive);
        let mut inherited = others.flat_map(|(_, other)| other.lines.iter());
        line.is_inherited || inherited.any(|other| other.text == line.text)
    }
}

/// One of these, counted from the end.
pub(super) fn newest<T>(all: &[T], number: usize) -> Option<&T> {
    all.iter().rev().nth(number.checked_rem(all.len())?)
}
