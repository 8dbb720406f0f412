//! What the terminal says about errors of the gateway: which flag is wrong, and which command helps.

use anyhow::anyhow;
use herma_gateway::{Conflict, Field, GatewayError, InvalidRequest};
use herma_model::Alias;

use crate::next_command;

/// Says what to do about an error, in terms of the terminal. `alias` is the conversation.
pub(crate) fn explained(alias: &Alias) -> impl Fn(GatewayError) -> anyhow::Error {
    move |error| match error {
        GatewayError::NotFound(_) => unknown(alias),
        GatewayError::Busy { running, .. } => anyhow!(
            "a turn ({running}) of {alias} is running or waiting; nothing was changed, try again when it has ended"
        ),
        GatewayError::Invalid(invalid) => explain_invalid(alias, &invalid),
        GatewayError::Conflict(conflict) => explain_conflict(alias, conflict),
        error => error.into(),
    }
}

fn explain_invalid(alias: &Alias, invalid: &InvalidRequest) -> anyhow::Error {
    match invalid {
        InvalidRequest::NoSuchMessage(field) => {
            let flag = if *field == Field::BranchPoint { "--at" } else { "--to" };
            let show = next_command::of(&["sessions", "show", alias.as_str()]);
            anyhow!("{alias} has no message with the id of {flag}; to see the numbers of its messages: {show}")
        }
        InvalidRequest::ReservedId => {
            anyhow!("the name that --id gives is of a form that only Herma makes; choose another one")
        }
        InvalidRequest::AlreadyRewound => anyhow!(
            "this message was rewound, and there was a turn since; `herma sessions branch --at` can go on from it"
        ),
        InvalidRequest::TooFewTurns(0) => anyhow!("there is nothing to take back in {alias}"),
        InvalidRequest::TooFewTurns(1) => anyhow!("only 1 turn of {alias} can be taken back"),
        InvalidRequest::TooFewTurns(turns) => anyhow!("only {turns} turns of {alias} can be taken back"),
        InvalidRequest::CursorGone => anyhow!("some of it was deleted while it was read; try again"),
        invalid => anyhow!("{invalid}"),
    }
}

fn explain_conflict(alias: &Alias, conflict: Conflict) -> anyhow::Error {
    match conflict {
        Conflict::Exists => anyhow!("the name that --id gives leads somewhere already; choose another one"),
        Conflict::Ended => anyhow!("{}", ended(alias)),
        Conflict::NothingToCompact => anyhow!(
            "there is nothing to summarise in {alias}. What is kept word for word is everything that there is, or a \
             summary would not be shorter. Nothing was changed"
        ),
        Conflict::NothingToRestore => anyhow!("nothing of {alias} was rewound since the last turn"),
        conflict => anyhow!("{conflict}"),
    }
}

/// The conversation takes no messages.
pub(crate) fn ended(alias: &Alias) -> String {
    let reopen = next_command::with(&["sessions", "reopen"], &[], &[alias.as_str()]);
    format!("{alias} was ended; to open it again: {reopen}")
}

/// The name leads to no conversation.
pub(super) fn unknown(alias: &Alias) -> anyhow::Error {
    let list = next_command::of(&["sessions", "list", "--all"]);
    anyhow!("no conversation is known by {alias}; check the id, --tenant, --data and --store, or see all: {list}")
}
