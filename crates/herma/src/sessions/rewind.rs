//! `herma sessions rewind` and `restore`: where the model's view ends.

use herma_gateway::Sessions;
use herma_model::Alias;
use herma_store::RewindPoint;

use super::local_store::print_change;
use super::message;
use crate::arguments::{RewindFlags, SessionName};
use crate::next_command;

/// Ends the model's view at an earlier message.
pub(super) async fn rewind(sessions: &Sessions<'_>, alias: &Alias, flags: &RewindFlags) -> anyhow::Result<()> {
    let to = match (flags.back.to, flags.back.turns) {
        (Some(typed), _) => RewindPoint::Message(message::named(sessions, alias, typed, "--to").await?),
        (None, turns) => RewindPoint::Turns(turns.unwrap_or(1)),
    };
    let row = sessions.rewind(alias, to).await?;
    let back = next_command::of(&["sessions", "restore", alias.as_str()]);
    print_change(&flags.session, &row, &format!("is rewound; to take it back: {back}"))
}

/// Gives the model back the messages that were rewound since the last turn.
pub(super) async fn restore(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    print_change(session, &sessions.restore_rewound(alias).await?, "is as it was before it was rewound")
}
