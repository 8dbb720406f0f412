//! The expected state: the lines of each conversation in order, and all names and responses.

use super::SLUGS;
use super::steps::{Api, Name};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) role: String,
    pub(super) text: String,
    /// Whether the text ends early.
    pub(super) is_partial: bool,
    /// The number of the turn that it belongs to.
    pub(super) turn: usize,
    /// Whether that turn was completed.
    pub(super) is_answered: bool,
    /// Whether its conversation inherited it from the one that it branched from.
    pub(super) is_inherited: bool,
    /// Whether a client deleted the message.
    pub(super) is_deleted: bool,
}

/// A conversation.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) handle: String,
    /// The name that a client chose for the conversation.
    pub(super) slug: Option<&'static str>,
    pub(super) is_alive: bool,
    pub(super) lines: Vec<Line>,
}

impl Thread {
    /// The lines that are not deleted.
    pub(super) fn said(&self) -> Vec<&Line> {
        self.lines.iter().filter(|line| !line.is_deleted).collect()
    }

    /// Whether no later turn was completed after this one.
    pub(super) fn ends_with(&self, turn: usize) -> bool {
        let mut backwards = self.lines.iter().rev().filter(|line| !line.is_deleted);
        backwards.find(|line| line.turn == turn || line.is_answered).is_some_and(|line| line.turn == turn)
    }

    /// All lines up to the end of a turn.
    pub(super) fn up_to(&self, turn: usize) -> &[Line] {
        let last = self.lines.iter().rposition(|line| line.turn == turn);
        &self.lines[..last.map_or(0, |last| last + 1)]
    }

    fn has_any_of(&self, turn: usize) -> bool {
        self.said().iter().any(|line| line.turn == turn)
    }
}

/// A response or a run, and the turn that it shows.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) thread: usize,
    pub(super) turn: usize,
    pub(super) api: Api,
    /// Whether `GET` finds it: it was stored and not deleted.
    pub(super) is_kept: bool,
    pub(super) is_completed: bool,
    /// The stream that its client received.
    pub(super) frames: Option<Vec<String>>,
}

/// The field or header in which a request names its conversation.
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

/// The conversation that a turn must go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// It continues this conversation.
    Continue(usize),
    /// It begins a branch: the lines of this conversation (first number) up to the end of that turn (second number).
    Branch(usize, usize),
    /// It begins a new conversation, with this slug.
    Fresh(Option<&'static str>),
    /// The name is unknown: the request must fail with 404.
    Unknown,
}

/// All conversations and names that the test expects.
#[derive(Debug, Default)]
pub(super) struct ReferenceModel {
    pub(super) threads: Vec<Thread>,
    /// Every session id that is not a slug, with its conversation.
    pub(super) sessions: Vec<(String, usize)>,
    /// Responses and runs.
    pub(super) records: Vec<Record>,
    /// The last number that was given to a turn or a text.
    numbers: usize,
}

impl ReferenceModel {
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

    /// How an API sends a name, and where the name leads. If nothing with that kind of name exists yet, takes the
    /// first slug.
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

    /// Where `previous_response_id` leads. After the last completed turn, it continues the conversation. After an
    /// earlier completed turn, it begins a branch.
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

    /// The last completed response of a conversation, if a turn after it continues the conversation.
    pub(super) fn last_response(&self, thread: usize) -> Option<&Record> {
        self.responses()
            .filter(|response| response.thread == thread && response.is_completed)
            .find(|response| self.after(response) == Target::Continue(thread))
    }

    /// The lines that a turn with this target finds.
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

    /// The conversation of a target, which must have this handle. Adds the conversation if it is new.
    pub(super) fn find_or_add(&mut self, target: &Target, handle: &str) -> usize {
        let slug = match target {
            Target::Continue(thread) => {
                assert_eq!(self.threads[*thread].handle, handle, "the turn continued its conversation");
                return *thread;
            }
            Target::Branch(..) => None,
            Target::Fresh(slug) => *slug,
            Target::Unknown => panic!("an unknown name led to {handle}"),
        };
        assert_eq!(self.of_handle(handle), None, "a new conversation has a new handle");
        let lines = self.before(target);
        self.threads.push(Thread { handle: handle.to_owned(), slug, is_alive: true, lines });
        self.threads.len() - 1
    }

    /// Whether a line was inherited, or a living branch inherits it. Shared lines cannot be deleted.
    pub(super) fn is_shared(&self, thread: usize, line: &Line) -> bool {
        let others = self.threads.iter().enumerate().filter(|(other, found)| *other != thread && found.is_alive);
        let mut inherited = others.flat_map(|(_, other)| other.lines.iter());
        line.is_inherited || inherited.any(|other| other.text == line.text)
    }
}

/// One item, counted from the end; larger numbers wrap around.
pub(super) fn newest<T>(all: &[T], number: usize) -> Option<&T> {
    all.iter().rev().nth(number.checked_rem(all.len())?)
}
