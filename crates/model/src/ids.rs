//! Ids that Herma makes itself: a prefix and 32 hex digits.
//!
//! A session id is the exception: a client may choose any name, so [`SessionId`] is text.
//!
//! The lowest 31 bits of a turn's id are zero. The id of a message is the id of its turn with these bits set to its
//! number within the turn. So the turn of a message follows from the message's id. Summaries belong to no turn and have
//! independent ids.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::alias::Alias;

/// The prefixes of the ids Herma makes. A client can never create an id of one of these forms.
pub const PREFIXES: [&str; 8] = ["conv_", "sess_", "resp_", "run_", "msg_", "turn_", "cmp_", "job_"];

/// A text is not an id of the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the form {prefix}<32 hex digits>")]
pub struct InvalidId {
    /// The prefix that was expected.
    pub prefix: &'static str,
}

/// Whether `text` is one of Herma's prefixes followed by exactly 32 lower-case hex digits.
pub fn is_own_form(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| text.strip_prefix(prefix).is_some_and(is_hex32))
}

fn is_hex32(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The text of an id, without an allocation: a prefix and 32 digits.
struct IdText {
    bytes: [u8; Self::MOST],
    length: usize,
}

impl IdText {
    const MOST: usize = 40;

    /// The prefix must not be longer than eight bytes.
    fn new(prefix: &'static str, uuid: Uuid) -> Self {
        let mut bytes = [0; Self::MOST];
        let (begins, digits) = bytes.split_at_mut(prefix.len());
        begins.copy_from_slice(prefix.as_bytes());
        let length = prefix.len() + uuid.simple().encode_lower(digits).len();
        Self { bytes, length }
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

macro_rules! own_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// What every id of this type begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Wraps a unique value that the caller made.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The unique value without its prefix.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(IdText::new($prefix, self.0).as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix($prefix)
                    .filter(|hex| is_hex32(hex))
                    .and_then(|hex| Uuid::try_parse(hex).ok())
                    .map(Self)
                    .ok_or(InvalidId { prefix: $prefix })
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(IdText::new($prefix, self.0).as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::text::parsed(deserializer, str::parse)
            }
        }
    };
}

own_id!(
    /// The stable handle of a conversation.
    ConversationId, "conv_"
);
own_id!(
    /// One message, in whatever session it was written.
    MessageId, "msg_"
);
own_id!(
    /// One turn, through all its attempts.
    TurnId, "turn_"
);
own_id!(
    /// A turn as the Responses API names it.
    ResponseId, "resp_"
);
own_id!(
    /// A turn as the Runs API names it.
    RunId, "run_"
);
own_id!(
    /// One row of a conversation's compaction ledger.
    CompactionId, "cmp_"
);
own_id!(
    /// An API key's public id; never the secret.
    ApiKeyId, "key_"
);
own_id!(
    /// One fact in long-term memory.
    MemoryId, "mem_"
);

impl TurnId {
    /// Makes a turn's id from a unique value. The lowest 31 bits become zero, because its messages use them.
    ///
    /// A version 7 UUID stays unique without these bits: they are random, and the clock and the counter of the process
    /// lie above them.
    pub const fn with_room(uuid: Uuid) -> Self {
        Self(Uuid::from_u128(uuid.as_u128() & !MESSAGE_BITS))
    }

    /// The id of the row that a failed attempt leaves behind when its turn begins anew at a later place. No turn has
    /// such an id.
    pub fn left_behind(self, attempt: u32) -> Self {
        Self(Uuid::from_u128((self.0.as_u128() & !MESSAGE_BITS) | (u128::from(attempt) & MESSAGE_BITS)))
    }

    /// The turn as a response.
    pub const fn as_response(self) -> ResponseId {
        ResponseId(self.0)
    }

    /// The turn as a run.
    pub const fn as_run(self) -> RunId {
        RunId(self.0)
    }
}

/// The bits of a message's id that identify it within its turn: input or answer, the attempt, and a number.
const MESSAGE_BITS: u128 = (1 << 31) - 1;
const ATTEMPT_BITS: u32 = 10;
const NUMBER_BITS: u32 = 20;

impl MessageId {
    /// The nth input message of an attempt of a turn.
    pub fn brought(turn: TurnId, attempt: u32, nth: usize) -> Self {
        Self::said_in(turn, 0, attempt, nth)
    }

    /// The nth message of the answer of an attempt of a turn.
    pub fn answered(turn: TurnId, attempt: u32, nth: usize) -> Self {
        Self::said_in(turn, 1, attempt, nth)
    }

    /// An attempt or a number that does not fit into its bits becomes the largest that fits.
    fn said_in(turn: TurnId, side: u128, attempt: u32, nth: usize) -> Self {
        let attempt = u128::from(attempt.min((1 << ATTEMPT_BITS) - 1));
        let number = nth.min((1 << NUMBER_BITS) - 1) as u128;
        let low = (side << (ATTEMPT_BITS + NUMBER_BITS)) | (attempt << NUMBER_BITS) | number;
        Self(Uuid::from_u128((turn.0.as_u128() & !MESSAGE_BITS) | low))
    }

    /// Whether the model said the message, if the id was made from a turn's id.
    pub const fn is_answer(self) -> bool {
        self.0.as_u128() >> (ATTEMPT_BITS + NUMBER_BITS) & 1 == 1
    }

    /// The turn of the message. If the id was not made from a turn's id, no turn has the result.
    pub const fn turn(self) -> TurnId {
        TurnId::with_room(self.0)
    }
}

impl ResponseId {
    /// The turn that the response is a view of.
    pub const fn turn(self) -> TurnId {
        TurnId(self.0)
    }
}

impl RunId {
    /// The turn that the run is a view of.
    pub const fn turn(self) -> TurnId {
        TurnId(self.0)
    }
}

/// A turn by one of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnName {
    /// `turn_…`: its own id.
    Turn(TurnId),
    /// `resp_…`: as a response. The response may have been deleted, or may not have been stored.
    Response(TurnId),
    /// `run_…`: as a run.
    Run(TurnId),
}

impl TurnName {
    /// Reads a name of a turn. `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let response = || text.parse().map(|ResponseId(uuid)| Self::Response(TurnId(uuid)));
        let run = || text.parse().map(|RunId(uuid)| Self::Run(TurnId(uuid)));
        response().or_else(|_| run()).or_else(|_| text.parse().map(Self::Turn)).ok()
    }

    /// The turn.
    pub const fn turn(self) -> TurnId {
        match self {
            Self::Turn(turn) | Self::Response(turn) | Self::Run(turn) => turn,
        }
    }
}

/// One segment of a conversation's transcript, by the name Herma or a client gave it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// Wraps a name that was checked as an [`crate::Alias`], or that was read from the store.
    pub fn from_name(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// A session id that Herma makes.
    pub fn from_uuid(uuid: Uuid) -> Self {
        Self(Arc::from(IdText::new("sess_", uuid).as_str()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id, if Herma did not make it.
    pub fn chosen(&self) -> Option<&str> {
        (!is_own_form(&self.0)).then_some(&*self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::parsed(deserializer, |text| Alias::parse(text).map(|_| Self::from_name(text)))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tenant a row belongs to. Every query of the store needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TenantId(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ids_read_back_what_they_print() {
        let id = ConversationId::from_uuid(Uuid::from_u128(7));
        assert_eq!(id.to_string(), "conv_00000000000000000000000000000007");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn a_turn_has_three_names() {
        let turn = TurnId::from_uuid(Uuid::from_u128(7));
        let hex = "00000000000000000000000000000007";
        assert_eq!(turn.as_response().to_string(), format!("resp_{hex}"));
        assert_eq!(turn.as_run().to_string(), format!("run_{hex}"));
        assert_eq!((turn.as_response().turn(), turn.as_run().turn()), (turn, turn));
        for (text, name) in [
            (format!("resp_{hex}"), Some(TurnName::Response(turn))),
            (format!("run_{hex}"), Some(TurnName::Run(turn))),
            (format!("turn_{hex}"), Some(TurnName::Turn(turn))),
            (format!("msg_{hex}"), None),
            ("run_daily".to_owned(), None),
        ] {
            assert_eq!(TurnName::parse(&text), name, "{text}");
            assert!(name.is_none_or(|name| name.turn() == turn));
        }
    }

    #[test]
    fn a_message_tells_its_turn() {
        let turn = TurnId::with_room(Uuid::from_u128(u128::MAX));
        assert_eq!(turn.to_string(), "turn_ffffffffffffffffffffffff80000000");
        for (id, hex) in [
            (MessageId::brought(turn, 1, 0), "ffffffffffffffffffffffff80100000"),
            (MessageId::brought(turn, 1, 2), "ffffffffffffffffffffffff80100002"),
            (MessageId::answered(turn, 1, 0), "ffffffffffffffffffffffffc0100000"),
            (MessageId::answered(turn, 3, 5), "ffffffffffffffffffffffffc0300005"),
            (MessageId::brought(turn, u32::MAX, usize::MAX), "ffffffffffffffffffffffffbfffffff"),
        ] {
            assert_eq!(id.to_string(), format!("msg_{hex}"));
            assert_eq!(id.turn(), turn);
        }
        let other = TurnId::with_room(Uuid::from_u128(7 << 31));
        assert_eq!(MessageId::answered(other, 2, 1).turn(), other);
    }

    #[test]
    fn turns_of_one_moment_have_ids_of_their_own() {
        let ids: std::collections::HashSet<TurnId> =
            std::iter::repeat_with(|| TurnId::with_room(Uuid::now_v7())).take(10_000).collect();
        assert_eq!(ids.len(), 10_000);
    }

    #[test]
    fn only_the_exact_form_is_an_own_id() {
        assert!(is_own_form("run_0123456789abcdef0123456789abcdef"));
        for other in
            ["run_daily", "run_0123456789ABCDEF0123456789abcdef", "conv_", "key_0123456789abcdef0123456789abcdef"]
        {
            assert!(!is_own_form(other), "{other}");
        }
    }
}
