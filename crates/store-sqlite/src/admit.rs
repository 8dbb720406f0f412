//! Giving a conversation's lease to a turn.
//!
//! Everything here happens inside one transaction that holds the write lock, so no other process can decide otherwise in between.

use std::sync::Arc;

use herma_model::{
    ConversationFacts, ConversationId, Fence, Message, Resolution, Seq, SessionFacts, SessionId, Timestamp, TurnId,
    TurnState,
};
use herma_store::{
    Admission, AdmitOutcome, Lease, Receipt, Refusal, Running, Seen, StoreError, Target, Ticket, TurnPolicy, Version,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::commit::insert_message;
use crate::failure::{Outcome, Translate};
use crate::instance::Instance;
use crate::queue::{self, NewWaiter};
use crate::rows::{self, ConversationState};
use crate::takeover::take_over;
use crate::{retry, snapshot};

/// Decides an admission. What is written is kept unless the outcome is `Refused`, `Joined` or `RetryIn`.
pub(crate) fn admit(connection: &Connection, instance: &mut Instance, admission: &Admission) -> Outcome<AdmitOutcome> {
    if admission.ticket.is_none()
        && let Some(outcome) = retry::recognise(connection, instance, admission)?
    {
        return Ok(outcome);
    }
    let Some((mut state, resolution)) = find(connection, admission)? else {
        return match &admission.target {
            _ if admission.seen != Seen::Nothing => Ok(AdmitOutcome::Stale),
            Target::Alias { alias, must_exist, .. } if *must_exist || !alias.may_be_created() => {
                Ok(AdmitOutcome::Refused(Refusal::NotFound))
            }
            Target::New | Target::Alias { .. } => {
                let state = create(connection, admission)?;
                start(connection, instance, admission, state, Resolution::Created)
            }
        };
    };
    if let Some(refusal) = refusal(&state, admission) {
        return Ok(AdmitOutcome::Refused(refusal));
    }
    if let Some(running) = live_turn(connection, instance, &mut state, admission)? {
        return wait(connection, instance, admission, &state, resolution, Some(running));
    }
    if state.waiting > 0 {
        let first = queue::first(connection, instance, state.key, admission.now)?;
        let own = admission.ticket.map(|ticket| ticket.0);
        if let Some((_, ahead)) = first.filter(|(turn, _)| Some(*turn) != own) {
            return wait(connection, instance, admission, &state, resolution, Some(ahead));
        }
    }
    if admission.seen != Seen::At(state.facts.id, Version(state.version)) {
        return Ok(AdmitOutcome::Stale);
    }
    start(connection, instance, admission, state, resolution)
}

fn find(connection: &Connection, admission: &Admission) -> Outcome<Option<(ConversationState, Resolution)>> {
    let Target::Alias { alias, namespace, .. } = &admission.target else { return Ok(None) };
    let found = snapshot::find(connection, admission.scope.tenant, alias, *namespace)?;
    Ok(found.map(|(state, session)| {
        let resolution =
            if session.is_none_or(|session| session == state.head) { Resolution::Head } else { Resolution::Moved };
        (state, resolution)
    }))
}

fn refusal(state: &ConversationState, admission: &Admission) -> Option<Refusal> {
    let stored = state.facts.session_key.as_ref();
    if !admission.scope.keys.sees(stored) {
        return Some(Refusal::NotFound);
    }
    if state.ended {
        return Some(Refusal::Ended);
    }
    match (stored, &admission.session_key) {
        (Some(stored), Some(asked)) if stored != asked => Some(Refusal::SessionKeyConflict),
        _ => None,
    }
}

/// The turn that holds the lease, if it still does. A dead owner's turn is ended here; so is one that did not yield in time.
fn live_turn(
    connection: &Connection,
    instance: &Instance,
    state: &mut ConversationState,
    admission: &Admission,
) -> Outcome<Option<TurnId>> {
    let Some(turn) = state.running else { return Ok(None) };
    let (owner, id, stop_requested): (i64, TurnId, Option<i64>) = connection
        .prepare_cached("SELECT owner, id, stop_requested FROM turns WHERE pk = ?1")
        .and_then(|mut select| {
            select.query_row([turn], |row| Ok((row.get(0)?, TurnId::from_uuid(rows::uuid(row, 1)?), row.get(2)?)))
        })
        .translated()?;
    let now = admission.now;
    if instance.is_dead(connection, owner, turn, now)? {
        take_over(connection, state, turn, "the process that ran this turn ended", now)?;
        return Ok(None);
    }
    if admission.policy == TurnPolicy::Interrupt {
        match stop_requested {
            None => {
                connection
                    .execute("UPDATE turns SET stop_requested = ?2 WHERE pk = ?1", params![turn, now.0])
                    .translated()?;
            }
            Some(at) if now.since(Timestamp(at)) > admission.interrupt_grace => {
                take_over(connection, state, turn, "another turn interrupted this one", now)?;
                return Ok(None);
            }
            Some(_) => {}
        }
    }
    Ok(Some(id))
}

fn wait(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
    state: &ConversationState,
    resolution: Resolution,
    running: Option<TurnId>,
) -> Outcome<AdmitOutcome> {
    let facts = Arc::new(state.facts.clone());
    if let Some(ticket) = admission.ticket {
        let waits = instance.live.contains(&ticket.0);
        return Ok(if waits {
            AdmitOutcome::Queued { ticket, facts, running }
        } else {
            AdmitOutcome::Refused(Refusal::Withdrawn)
        });
    }
    if let (TurnPolicy::Reject, Some(running)) = (admission.policy, running) {
        return Ok(AdmitOutcome::Refused(Refusal::Busy(running)));
    }
    if state.waiting >= i64::from(admission.queue_limit) {
        return Ok(AdmitOutcome::Refused(Refusal::QueueFull { limit: admission.queue_limit }));
    }
    let waiter = NewWaiter {
        tenant: admission.scope.tenant.0,
        conversation: state.key,
        session: state.head,
        id: admission.turn,
        api: admission.api,
        owner: instance.key(connection, admission.now)?,
        policy: admission.policy,
        fingerprint: &admission.retry.fingerprint,
        resolution: resolution.as_str(),
        now: admission.now,
    };
    let ticket = queue::add(connection, &waiter)?;
    retry::bind(connection, admission, ticket)?;
    instance.live.insert(ticket);
    Ok(AdmitOutcome::Queued { ticket: Ticket(ticket), facts, running })
}

/// Makes the conversation, its first session and their names.
fn create(connection: &Connection, admission: &Admission) -> Outcome<ConversationState> {
    let creation = &admission.creation;
    let tenant = admission.scope.tenant.0;
    let named = match &admission.target {
        Target::Alias { alias, namespace: herma_model::alias::Namespace::Session, .. } => Some(alias),
        Target::New | Target::Alias { .. } => None,
    };
    let session_id = named.map_or_else(|| creation.session.clone(), |alias| SessionId::from_name(alias.as_str()));
    let now = admission.now.0;
    connection
        .prepare_cached(
            "INSERT INTO conversations (tenant_pk, id, head_pk, root_pk, origin_kind, session_key, owner_key, source, version, fence, next_seq, created_at, updated_at)
             VALUES (?1, ?2, 0, 0, ?3, NULL, ?4, ?5, 0, 0, 1, ?6, ?6)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                tenant,
                creation.conversation.uuid().as_bytes(),
                creation.kind.as_str(),
                creation.owner.map(|owner| owner.uuid().into_bytes()),
                creation.source,
                now
            ])
        })
        .translated()?;
    let key = connection.last_insert_rowid();
    connection
        .prepare_cached(
            "INSERT INTO sessions (tenant_pk, conversation_pk, id, kind, depth, creator_kind, created_at) VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6)",
        )
        .and_then(|mut insert| {
            insert.execute(params![tenant, key, session_id.as_str(), creation.kind.as_str(), creation.creator.as_str(), now])
        })
        .translated()?;
    let head = connection.last_insert_rowid();
    connection
        .prepare_cached("UPDATE conversations SET head_pk = ?2, root_pk = ?2 WHERE pk = ?1")
        .and_then(|mut update| update.execute([key, head]))
        .translated()?;
    alias(connection, tenant, "session", &creation.conversation.to_string(), key, None)?;
    alias(connection, tenant, "session", session_id.as_str(), key, Some(head))?;
    if let Target::Alias { alias: name, namespace, .. } = &admission.target
        && named.is_none()
    {
        alias(connection, tenant, namespace.as_str(), name.as_str(), key, None)?;
    }
    Ok(ConversationState {
        key,
        version: 0,
        fence: 0,
        running: None,
        waiting: 0,
        next_seq: 1,
        ended: false,
        head,
        facts: new_facts(admission, creation.conversation, session_id),
    })
}

fn new_facts(admission: &Admission, id: ConversationId, session: SessionId) -> ConversationFacts {
    let creation = &admission.creation;
    ConversationFacts {
        id,
        root: session.clone(),
        head: SessionFacts {
            id: session,
            kind: creation.kind,
            parent: None,
            creator: creation.creator,
            reason: None,
            depth: 0,
        },
        previous: None,
        origin_kind: creation.kind,
        session_key: None,
        compaction_mode: None,
        compaction_count: 0,
    }
}

fn alias(
    connection: &Connection,
    tenant: i64,
    namespace: &str,
    name: &str,
    conversation: i64,
    session: Option<i64>,
) -> Outcome<()> {
    connection
        .prepare_cached("INSERT INTO aliases (tenant_pk, namespace, alias, conversation_pk, session_pk) VALUES (?1, ?2, ?3, ?4, ?5)")
        .and_then(|mut insert| insert.execute(params![tenant, namespace, name, conversation, session]))
        .map(drop)
        .translated()
}

/// The turn gets the lease: a new fence, its messages, its row.
fn start(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
    mut state: ConversationState,
    resolution: Resolution,
) -> Outcome<AdmitOutcome> {
    let owner = instance.key(connection, admission.now)?;
    let fence = state.fence + 1;
    let brings_key = admission.session_key.is_some() && state.facts.session_key.is_none();
    let row = match admission.retry_of {
        Some(unanswered) => {
            let Some(row) = next_attempt(connection, admission, &state, unanswered, owner, fence)? else {
                return Ok(AdmitOutcome::Stale);
            };
            row
        }
        None => first_attempt(connection, admission, &state, resolution, owner, fence, brings_key)?,
    };
    let mut messages = Vec::with_capacity(admission.messages.len());
    for (seq, message) in (state.next_seq..).zip(&admission.messages) {
        insert_message(connection, state.head, seq, row.key, row.attempt, message, admission.now)?;
        messages.push(Arc::new(Message {
            id: message.id,
            seq: Seq(seq),
            session: state.facts.head.id.clone(),
            turn: row.id,
            attempt: row.attempt,
            created_at: admission.now,
            said: message.said.clone(),
        }));
    }
    let waited = i64::from(admission.ticket.is_some());
    connection
        .prepare_cached(
            "UPDATE conversations SET version = version + 1, fence = ?2, running_turn = ?3, next_seq = next_seq + ?4, message_count = message_count + ?4,
             turn_count = turn_count + ?5, waiting = waiting - ?6, session_key = coalesce(session_key, ?7) WHERE pk = ?1",
        )
        .and_then(|mut update| {
            update.execute(params![
                state.key,
                fence,
                row.key,
                admission.messages.len() as i64,
                i64::from(row.attempt == 1),
                waited,
                admission.session_key.as_ref().map(herma_model::SessionKey::as_str)
            ])
        })
        .translated()?;
    retry::bind(connection, admission, row.key)?;
    if brings_key {
        state.facts.session_key.clone_from(&admission.session_key);
    }
    if let Some(ticket) = admission.ticket {
        instance.live.remove(&ticket.0);
    }
    instance.live.insert(row.key);
    Ok(AdmitOutcome::Running(Box::new(Running {
        turn: row.id,
        attempt: row.attempt,
        lease: Lease {
            tenant: admission.scope.tenant,
            conversation: state.key,
            turn: row.key,
            fence: Fence(fence),
            id: row.id,
            attempt: row.attempt,
        },
        facts: Arc::new(state.facts),
        version: Version(state.version + 1),
        messages,
        resolution,
        started_at: row.started_at,
        durable: Receipt::durable(),
    })))
}

struct TurnRow {
    key: i64,
    id: TurnId,
    attempt: u32,
    started_at: Timestamp,
}

fn first_attempt(
    connection: &Connection,
    admission: &Admission,
    state: &ConversationState,
    resolution: Resolution,
    owner: i64,
    fence: i64,
    brings_key: bool,
) -> Outcome<TurnRow> {
    let row = |key| TurnRow { key, id: admission.turn, attempt: 1, started_at: admission.now };
    if let Some(ticket) = admission.ticket {
        let started = connection
            .prepare_cached(
                "UPDATE turns SET state = 'running', fence = ?2, session_pk = ?3, resolution = ?4, brought_key = ?5, first_seq = ?6
                 WHERE pk = ?1 AND state = 'queued'",
            )
            .and_then(|mut update| {
                update.execute(params![ticket.0, fence, state.head, resolution.as_str(), brings_key, state.next_seq])
            })
            .translated()?;
        if started == 1 {
            return Ok(row(ticket.0));
        }
        return Err(StoreError::Unavailable("the turn lost its place in the queue".to_owned()));
    }
    connection
        .prepare_cached(
            "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner, resolution, fingerprint, brought_key, first_seq, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 'running', ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                admission.scope.tenant.0,
                admission.turn.uuid().as_bytes(),
                state.key,
                state.head,
                admission.api,
                fence,
                owner,
                resolution.as_str(),
                &admission.retry.fingerprint,
                brings_key,
                state.next_seq,
                admission.now.0
            ])
        })
        .translated()?;
    Ok(row(connection.last_insert_rowid()))
}

/// Runs an unanswered turn again, if it is still the conversation's last.
fn next_attempt(
    connection: &Connection,
    admission: &Admission,
    state: &ConversationState,
    unanswered: TurnId,
    owner: i64,
    fence: i64,
) -> Outcome<Option<TurnRow>> {
    let last: Option<(i64, TurnId, String, i64)> = connection
        .query_row(
            "SELECT pk, id, state, created_at FROM turns WHERE conversation_pk = ?1 AND state NOT IN ('queued', 'running') ORDER BY pk DESC LIMIT 1",
            [state.key],
            |row| Ok((row.get(0)?, TurnId::from_uuid(rows::uuid(row, 1)?), row.get(2)?, row.get(3)?)),
        )
        .optional()
        .translated()?;
    let Some((key, id, stored, created_at)) = last else { return Ok(None) };
    if id != unanswered || !TurnState::parse(&stored).is_some_and(TurnState::is_unanswered) {
        return Ok(None);
    }
    if let Some(ticket) = admission.ticket {
        connection.execute("DELETE FROM turns WHERE pk = ?1 AND state = 'queued'", [ticket.0]).translated()?;
    }
    let attempt = connection
        .query_row(
            "UPDATE turns SET state = 'running', attempt = attempt + 1, fence = ?2, owner = ?3, fingerprint = ?4, delivered = 0, retried = 0,
             stop_requested = NULL, ended_at = NULL WHERE pk = ?1 RETURNING attempt",
            params![key, fence, owner, &admission.retry.fingerprint],
            |row| row.get(0),
        )
        .translated()?;
    Ok(Some(TurnRow { key, id, attempt, started_at: Timestamp(created_at) }))
}
