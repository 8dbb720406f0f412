//! The table `admissions`: turns that have the lease and of which nothing else is written yet.
//!
//! The admission of an ordinary turn is one row here. Its commit writes the turn, both messages and the conversation
//! once. Until then `turns`, `messages` and `conversations` are as before the turn.
//!
//! The commit raises the fence of the conversation to that of the row. From then on the row is *left behind* and counts
//! for nothing. To delete it at once would cost a page. The view `live_admissions` has the rows that count.
//!
//! Everything else must see the turn in its usual tables. So all other writes and reads have it written out first
//! ([`write_out`], [`write_out_all`]). What was written out is an ordinary running turn.
//!
//! Invariants: the conversation of a live row has no running turn, and does not change while the row is live. No row is
//! left behind while other code deletes text, because writing out deletes the rows that were left behind too.

use herma_model::{MessageId, NewMessage, Resolution, Timestamp, TurnId, TurnState};
use herma_store::{Admission, NewResponse, Target};
use rusqlite::{Connection, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::lookups::LookupName;
use crate::rows::{self, ConversationState};
use crate::tables::{TurnColumns, insert_message, insert_turn, next_turn};

/// The most bytes of a row. A larger input would be written twice for nothing.
const MOST_BYTES: usize = 2048;
/// The most rows that this process leaves behind. Every read looks at them.
const MOST_LEFT: usize = 32;

/// A turn of this process that is a row of the table, with what its commit needs. The row is the same for all others.
pub(crate) struct AdmittedTurn {
    pub(crate) owner: i64,
    pub(crate) api: &'static str,
    pub(crate) resolution: Resolution,
    pub(crate) fingerprint: [u8; 16],
    pub(crate) sdk_attempt: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) response: Option<NewResponse>,
    pub(crate) message: NewMessage,
    /// The conversation as it was at the admission, and still is.
    pub(crate) state: ConversationState,
    /// The name that led to it.
    pub(crate) name: Option<LookupName>,
    /// Whether a retry is recognised by its fingerprint alone. Else its name leads to the conversation, and so to this
    /// turn.
    pub(crate) joinable: bool,
}

/// The message of an admission that can be one row: one small message, and nothing that leads to the turn before its
/// commit.
pub(crate) fn only_message<'a>(admission: &'a Admission, state: &ConversationState) -> Option<&'a NewMessage> {
    let [message] = admission.messages.as_slice() else { return None };
    let echo = admission.response.as_ref().map_or(0, |response| response.echo.len());
    let extra = message.said.extra.as_ref().map_or(0, |extra| extra.len());
    let is_ordinary = admission.ticket.is_none()
        && !admission.takes_over
        && !admission.is_further_attempt()
        && admission.retry.idempotency.is_none()
        && !admission.response.as_ref().is_some_and(|response| response.visible_while_queued)
        && !state.provisional
        && state.waiting == 0;
    let is_small = message.said.payload.as_json().len() + extra + echo <= MOST_BYTES;
    (is_ordinary && is_small).then_some(message)
}

/// Gives a turn the lease with one row, in place of one that was left behind. Returns the number of the turn. The
/// caller knows that the conversation has no live row.
pub(crate) fn add(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
    message: &NewMessage,
    state: &ConversationState,
    (owner, fence, resolution): (i64, i64, Resolution),
) -> StoreResult<i64> {
    instance.lookups.check(connection)?;
    let turn = match instance.lookups.next_turn() {
        Some(turn) => turn,
        None => next_turn(connection)?,
    };
    instance.lookups.gave_turn(turn);
    let (retry, response, said) = (&admission.retry, admission.response.as_ref(), &message.said);
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO admissions (conversation_pk, turn_pk, tenant_pk, id, owner, fence, api, resolution,
             fingerprint, sdk_attempt, created_at, echo, kept, message_id, role, status, payload, extra, digest, calls,
             tokens) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
             ?21)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                state.key,
                turn,
                admission.scope.tenant.0,
                admission.turn.uuid().as_bytes(),
                owner,
                fence,
                admission.api,
                resolution.as_str(),
                &retry.fingerprint,
                retry.sdk_attempt,
                admission.now.0,
                response.map(|response| response.echo.as_ref()),
                response.is_some_and(|response| response.kept),
                message.id.uuid().as_bytes(),
                said.role.as_str(),
                said.status.as_str(),
                said.payload.as_json(),
                said.extra.as_deref(),
                &said.digest.0,
                rows::calls_to(&said.calls),
                said.tokens
            ])
        })
        .translated()?;
    let admitted = AdmittedTurn {
        owner,
        api: admission.api,
        resolution,
        fingerprint: retry.fingerprint,
        sdk_attempt: retry.sdk_attempt,
        created_at: admission.now,
        response: admission.response.clone(),
        message: message.clone(),
        state: state.clone(),
        name: name_of(admission),
        joinable: resolution == Resolution::Created || !retry.is_named,
    };
    instance.admitted.insert(turn, admitted);
    Ok(turn)
}

/// The name that an admission goes by, if it can be remembered.
pub(crate) fn name_of(admission: &Admission) -> Option<LookupName> {
    match &admission.target {
        Target::Alias { alias, namespace, .. } => LookupName::of(admission.scope.tenant, *namespace, alias),
        Target::New | Target::Branch { .. } | Target::Anew { .. } => None,
    }
}

/// Whether any turn is a row of the table.
pub(crate) fn is_any(connection: &Connection) -> StoreResult<bool> {
    connection.prepare_cached("SELECT 1 FROM live_admissions").and_then(|mut select| select.exists([])).translated()
}

/// Writes all turns of the table out, of every process. The table is empty then.
pub(crate) fn write_out_all(connection: &Connection) -> StoreResult<()> {
    write_out_if(connection, |_, _| Ok(true))?;
    forget_left(connection)
}

/// Notes that a commit of this process leaves a row behind. Deletes such rows if they are many.
pub(crate) fn leave(connection: &Connection, instance: &mut Instance, conversation: i64) -> StoreResult<()> {
    instance.left_admissions.insert(conversation);
    if instance.left_admissions.len() <= MOST_LEFT {
        return Ok(());
    }
    instance.left_admissions.clear();
    forget_left(connection)
}

/// Deletes the rows that commits have left behind, of every process.
pub(crate) fn forget_left(connection: &Connection) -> StoreResult<()> {
    connection
        .prepare_cached(
            "DELETE FROM admissions WHERE fence <= (SELECT c.fence FROM conversations c WHERE c.pk = conversation_pk)",
        )
        .and_then(|mut delete| delete.execute([]))
        .map(drop)
        .translated()
}

/// Writes out the turns of the table whose owners are dead, or that this process has given up.
pub(crate) fn write_out_dead(connection: &Connection, instance: &Instance) -> StoreResult<()> {
    write_out_if(connection, |owner, turn| instance.is_dead(connection, owner, turn))
}

fn write_out_if(connection: &Connection, wanted: impl Fn(i64, i64) -> StoreResult<bool>) -> StoreResult<()> {
    let found: Vec<(i64, i64, i64)> = connection
        .prepare_cached("SELECT conversation_pk, owner, turn_pk FROM live_admissions ORDER BY turn_pk")
        .and_then(|mut select| select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect())
        .translated()?;
    for (conversation, owner, turn) in found {
        if wanted(owner, turn)? {
            write_out(connection, conversation)?;
        }
    }
    Ok(())
}

/// Makes the turn that is a row of the table an ordinary running turn of its conversation. Deletes a row that was left
/// behind.
pub(crate) fn write_out(connection: &Connection, conversation: i64) -> StoreResult<()> {
    let mut select = connection
        .prepare_cached(
            "SELECT a.turn_pk, a.tenant_pk, a.id, a.owner, a.fence, a.api, a.resolution, a.fingerprint, a.sdk_attempt,
             a.created_at, a.echo, a.kept, a.message_id, a.role, a.status, a.payload, a.extra, a.digest, a.calls,
             a.tokens, c.head_pk, c.next_seq, a.fence > c.fence
             FROM admissions a JOIN conversations c ON c.pk = a.conversation_pk WHERE a.conversation_pk = ?1",
        )
        .translated()?;
    let mut found = select.query([conversation]).translated()?;
    let Some(row) = found.next().translated()? else { return Ok(()) };
    if row.get(22).translated()? {
        let (turn, fence) = insert_running(connection, conversation, row)?;
        connection
            .prepare_cached(
                "UPDATE conversations SET version = version + 1, fence = ?2, running_turn = ?3, next_seq = next_seq + 1,
                 message_count = message_count + 1, turn_count = turn_count + 1 WHERE pk = ?1",
            )
            .and_then(|mut update| update.execute([conversation, fence, turn]))
            .translated()?;
    }
    drop(found);
    connection
        .prepare_cached("DELETE FROM admissions WHERE conversation_pk = ?1")
        .and_then(|mut delete| delete.execute([conversation]))
        .map(drop)
        .translated()
}

/// Writes the turn of a row, and its message. Returns its number and its fence.
fn insert_running(connection: &Connection, conversation: i64, row: &Row<'_>) -> StoreResult<(i64, i64)> {
    let read = || -> rusqlite::Result<_> {
        let message = NewMessage { id: MessageId::from_uuid(rows::uuid(row, 12)?), said: rows::utterance(row, 13)? };
        let columns = TurnColumns {
            pk: Some(row.get(0)?),
            tenant_pk: row.get(1)?,
            id: TurnId::from_uuid(rows::uuid(row, 2)?).uuid().into_bytes(),
            conversation_pk: conversation,
            session_pk: row.get(20)?,
            state: TurnState::Running.as_str(),
            owner: row.get(3)?,
            fence: row.get(4)?,
            api: row.get_ref(5)?.as_str()?,
            resolution: row.get_ref(6)?.as_str()?,
            fingerprint: row.get_ref(7)?.as_blob()?,
            sdk_attempt: row.get(8)?,
            created_at: row.get(9)?,
            echo: row.get_ref(10)?.as_str_or_null()?,
            kept: row.get(11)?,
            first_seq: Some(row.get(21)?),
            joinable: true,
            ..TurnColumns::default()
        };
        Ok((message, columns))
    };
    let (message, columns) = read().translated()?;
    let (seq, now) = (columns.first_seq.unwrap_or_default(), Timestamp(columns.created_at));
    let turn = insert_turn(connection, &columns)?;
    insert_message(connection, columns.session_pk, seq, turn, columns.attempt, &message, now)?;
    Ok((turn, columns.fence))
}
