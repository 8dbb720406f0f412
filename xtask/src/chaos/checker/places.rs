//! Checks conversations and ids: which texts a conversation has, where ids lead, and which session is the head.

use std::collections::{BTreeMap, BTreeSet};

use super::{Facts, Finding, Rule, distinct};
use crate::chaos::history::Conversation;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    let mut origins: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for conversation in &facts.read.conversations {
        nothing_foreign(facts, conversation, findings);
        one_head(facts, conversation, findings);
        if let Some(thread) = facts.thread_in(conversation).filter(|_| !conversation.is_branch) {
            origins.entry(thread).or_default().push(&conversation.id);
        }
    }
    for (thread, conversations) in origins.into_iter().filter(|(_, conversations)| conversations.len() > 1) {
        let name = &facts.history.threads[thread].name;
        let what = format!("{name} is several conversations: {conversations:?}");
        findings.push(Finding { rule: Rule::NothingForeign, thread: Some(thread), what });
    }
    ids_lead_home(facts, findings);
}

fn nothing_foreign(facts: &Facts<'_>, conversation: &Conversation, findings: &mut Vec<Finding>) {
    let tokens: BTreeSet<_> = conversation.full.iter().filter_map(|row| row.mark().token()).collect();
    let threads: BTreeSet<usize> = tokens.iter().filter_map(|token| facts.thread_of(*token)).collect();
    if threads.len() > 1 {
        let names: Vec<&str> = threads.iter().map(|thread| facts.history.threads[*thread].name.as_str()).collect();
        let what = format!("{} has messages of {names:?}", conversation.id);
        findings.push(Finding { rule: Rule::NothingForeign, thread: threads.first().copied(), what });
    }
    for thread in threads.iter().filter(|thread| facts.history.threads[**thread].tenant != conversation.tenant) {
        let what = format!("{} of tenant {} has messages of another tenant", conversation.id, conversation.tenant);
        findings.push(Finding { rule: Rule::NothingForeign, thread: Some(*thread), what });
    }
    if distinct(conversation.full.iter()).len() != conversation.full.len() {
        let what = format!("{} shows a row twice", conversation.id);
        findings.push(Finding { rule: Rule::OnceOnly, thread: facts.thread_in(conversation), what });
    }
}

fn one_head(facts: &Facts<'_>, conversation: &Conversation, findings: &mut Vec<Finding>) {
    let Conversation { id, heads, sessions, listed, lineage, .. } = conversation;
    let mut report = |what: String| {
        findings.push(Finding { rule: Rule::OneHead, thread: facts.thread_in(conversation), what });
    };
    if *listed != [1, 1] {
        report(format!("{id} is listed {listed:?} times by the two processes"));
    }
    if heads[0] != heads[1] {
        report(format!("{id} has the heads {heads:?} by the two processes"));
    }
    let live: Vec<&str> = sessions.iter().filter(|one| one.is_live).map(|one| one.id.as_str()).collect();
    if live != [heads[0].as_str()] {
        report(format!("{id} has the live sessions {live:?}, its head is {}", heads[0]));
    }
    let own: BTreeSet<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
    if lineage.len() != own.len() || lineage.iter().any(|session| !own.contains(session.as_str())) {
        report(format!("{id} has the sessions {own:?}, its lineage shows {lineage:?}"));
    }
    let mut parents: Vec<&str> = sessions.iter().filter_map(|session| session.parent.as_deref()).collect();
    parents.retain(|parent| own.contains(parent));
    let followed: BTreeSet<&str> = parents.iter().copied().collect();
    if followed.len() != parents.len() || parents.len() + 1 != sessions.len() {
        report(format!("{id} has sessions that are no chain: {sessions:?}"));
    }
}

fn ids_lead_home(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    let mut homes: BTreeMap<(usize, &str), &str> = BTreeMap::new();
    let mut report = |what: String, conversation: &str| {
        let home = facts.read.conversations.iter().find(|one| one.id == conversation);
        let thread = home.and_then(|home| facts.thread_in(home));
        findings.push(Finding { rule: Rule::IdsLeadHome, thread, what });
    };
    for handed in &facts.history.ids {
        let home = homes.entry((handed.tenant, &handed.id)).or_insert(&handed.conversation);
        if *home != handed.conversation {
            report(format!("{} was given for {home} and for {}", handed.id, handed.conversation), home);
        }
    }
    let heads: BTreeMap<&str, &str> =
        facts.read.conversations.iter().map(|one| (one.id.as_str(), one.heads[0].as_str())).collect();
    for resolved in &facts.read.resolved {
        let Some(home) = homes.get(&(resolved.tenant, resolved.id.as_str())) else { continue };
        let process = resolved.server;
        if resolved.conversation.as_deref() != Some(home) {
            let what = format!("{} leads to {:?} at process {process}", resolved.id, resolved.conversation);
            report(format!("{what}, it was given for {home}"), home);
        } else if resolved.head.as_deref() != heads.get(home).copied() {
            let what = format!("{} leads to the session {:?} at process {process}", resolved.id, resolved.head);
            report(format!("{what}, the head is {:?}", heads.get(home)), home);
        }
    }
}
