//! The check at the end of a run: after a deletion no id leads to the conversation, and other conversations are
//! unchanged.

use super::deployment::Deployment;
use super::history::{HandedId, ReadBack};
use super::readback;

/// Deletes one conversation of each tenant and returns what is wrong afterwards, as sentences.
pub(super) async fn check(deployment: &Deployment, ids: &[HandedId], read: &ReadBack) -> Vec<String> {
    let mut wrong = Vec::new();
    for tenant in 0..2 {
        let own = || read.conversations.iter().filter(move |one| one.tenant == tenant);
        // Branches most likely inherit from the conversation with the most messages.
        let Some(gone) = own().filter(|one| !one.is_branch).max_by_key(|one| one.full.len()) else { continue };
        let answer = deployment.client(0, tenant).delete(&format!("/api/sessions/{}", gone.id)).await;
        if answer.status >= 300 {
            wrong.push(format!("the deletion of {} was answered {} {}", gone.id, answer.status, answer.text()));
            continue;
        }
        let names: Vec<HandedId> =
            ids.iter().filter(|one| one.tenant == tenant && one.conversation == gone.id).cloned().collect();
        for found in readback::resolve(deployment, &names).await.iter().filter(|found| found.conversation.is_some()) {
            let (id, server) = (&found.id, found.server);
            wrong.push(format!("{id} of the deleted {} still leads to {:?} at process {server}", gone.id, found.head));
        }
        for other in own().filter(|other| other.id != gone.id) {
            if readback::full(&deployment.client(1, tenant), &other.id).await != other.full {
                wrong.push(format!("{} changed when {} was deleted", other.id, gone.id));
            }
        }
    }
    wrong
}
