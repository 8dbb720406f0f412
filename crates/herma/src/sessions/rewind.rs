//! `herma sessions rewind` and `restore`: where the model's view ends.

use anyhow::bail;
use herma_gateway::now;
use herma_model::Alias;
use herma_store::{Rewind, RewindOutcome, RewindPoint, Scope, Store};

use super::{id_prefix, local_store};
use crate::arguments::{RewindFlags, SessionName};
use crate::output;

/// Ends the model's view at an earlier message.
pub(super) async fn rewind(store: &dyn Store, scope: &Scope, flags: &RewindFlags) -> anyhow::Result<()> {
    let alias = id_prefix::complete(store, scope, &flags.session.id).await?;
    let to = match (flags.back.to, flags.back.turns) {
        (Some(message), _) => RewindPoint::Message(message),
        (None, turns) => RewindPoint::Turns(turns.unwrap_or(1)),
    };
    let rewind = Rewind { scope: scope.clone(), alias: alias.clone(), to, now: now() };
    print(&flags.session, &alias, store.rewind(rewind).await?, "is rewound; `herma sessions restore` takes it back")
}

/// Gives the model back the messages that were rewound since the last turn.
pub(super) async fn restore(store: &dyn Store, scope: &Scope, session: &SessionName) -> anyhow::Result<()> {
    let alias = id_prefix::complete(store, scope, &session.id).await?;
    let outcome = store.restore_rewound(scope, &alias, now()).await?;
    print(session, &alias, outcome, "is as it was before it was rewound")
}

fn print(session: &SessionName, alias: &Alias, outcome: RewindOutcome, state: &str) -> anyhow::Result<()> {
    match outcome {
        RewindOutcome::Done(row) if session.shared.json => local_store::print_row(&row),
        RewindOutcome::Done(row) => {
            output::note(&format!("{} {state}", row.session.id));
            Ok(())
        }
        RewindOutcome::NoSuchMessage => bail!("nothing of the id that --to names was said in {alias}"),
        RewindOutcome::AlreadyRewound => {
            bail!(
                "this message was rewound, and there was a turn since; `herma sessions branch --at` can go on from it"
            )
        }
        RewindOutcome::TooFewTurns(turns) => bail!("the model is shown {turns} turns of {alias}, not more"),
        RewindOutcome::NothingToRestore => bail!("nothing of {alias} was rewound since the last turn"),
        RewindOutcome::Busy(running) => Err(local_store::busy(alias, running)),
        RewindOutcome::Ended => bail!("{alias} was ended; `herma sessions reopen` opens it again"),
        RewindOutcome::NotFound => Err(local_store::unknown(alias)),
    }
}
