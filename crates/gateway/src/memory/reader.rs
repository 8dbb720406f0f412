//! A model reads finished conversations for facts, if one is configured.
//!
//! The store keeps the list of what is to be read. One conversation is read at a time, behind the turns. After a crash
//! it is read again, and its facts are stored once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use herma_model::{ModelCall, Params, Retries};
use herma_store::search::fold;
use herma_store::{Reading, ReadingEnd, StoreError};
use herma_telemetry::SpanKind;
use herma_turn::facts;

use crate::gateway::Gateway;
use crate::memory::ProviderSettings;
use crate::own_call::NoAnswer;
use crate::spans::{self, Purpose, Traced};
use crate::{crash, mint};

/// How often the store is asked whether something is to be read.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a model may take. It is shorter than [`herma_store::readings::READING_TIME`].
const LONGEST: Duration = Duration::from_secs(2 * 60);
/// How long a failed reading waits. It doubles with each failure.
const FIRST_WAIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// After so many answers that cannot be used, a part is left out.
const MOST_UNUSABLE: u32 = 3;

/// Starts the task that has conversations read. It ends with the gateway.
pub(crate) fn start(gateway: &Arc<Gateway>) {
    if gateway.settings.memory.provider == ProviderSettings::Off {
        return;
    }
    let is_wanted = gateway.settings.memory.model.is_some();
    let gateway = Arc::downgrade(gateway);
    tokio::spawn(async move {
        if let Some(gateway) = Weak::upgrade(&gateway)
            && let Err(error) = gateway.store.want_readings(is_wanted).await
        {
            tracing::warn!(%error, "finished conversations may not be read for facts");
        }
        while is_wanted && let Some(gateway) = Weak::upgrade(&gateway) {
            if let Err(error) = read_all(&gateway).await {
                tracing::warn!(%error, "finished conversations were not read for facts; this is tried again");
            }
            drop(gateway);
            tokio::time::sleep(PAUSE).await;
        }
    });
}

async fn read_all(gateway: &Gateway) -> Result<(), StoreError> {
    while !gateway.is_draining()
        && let Some(reading) = gateway.store.next_reading(mint::now()).await?
    {
        let end = read(gateway, &reading).await?;
        crash::point(crash::READ);
        gateway.store.end_reading(reading, end, mint::now()).await?;
    }
    Ok(())
}

/// Asks the model about a part of a conversation.
async fn read(gateway: &Gateway, reading: &Reading) -> Result<ReadingEnd, StoreError> {
    let conversation = reading.conversation;
    if gateway.is_over_side_budget(reading.tenant, conversation).await? {
        tracing::info!(%conversation, "a conversation whose token budget is used up is not read for facts");
        return Ok(ReadingEnd::Read(Vec::new()));
    }
    let model = gateway.settings.resolve_model(gateway.settings.memory.model.as_deref());
    let said = reading.said.iter().map(|(role, text)| (*role, text.as_str()));
    let call = ModelCall {
        model: model.name.to_owned(),
        messages: facts::request(said, reading.known.iter().map(|fact| &*fact.text)),
        params: Arc::new(Params::default()),
        streaming: true,
        retries: Retries::AsConfigured,
        trace: None,
    };
    let span = gateway.settings.tracer.begin(None, SpanKind::Internal, spans::READING);
    let traced = Traced { trace: span.trace(), conversation: Some(conversation), purpose: Purpose::Facts };
    let asked = gateway.whole_answer(model.server, call, &traced, facts::is_far_too_long);
    let found = match tokio::time::timeout(LONGEST, asked).await {
        Ok(Ok(answer)) => {
            let usage = answer.finish.usage.unwrap_or_default();
            gateway.count_side_usage(reading.tenant, conversation, &model, usage);
            facts::judge(answer.content.as_deref().unwrap_or_default())
        }
        Ok(Err(NoAnswer::TooLong(_))) => None,
        Ok(Err(NoAnswer::Failed(_))) | Err(_) => return Ok(ReadingEnd::Later(wait(reading.failures))),
    };
    let Some(found) = found else {
        let is_given_up = reading.failures + 1 >= MOST_UNUSABLE;
        tracing::warn!(%conversation, model = model.name, is_given_up, "the model's answer has no list of facts");
        return Ok(if is_given_up { ReadingEnd::Read(Vec::new()) } else { ReadingEnd::Later(wait(reading.failures)) });
    };
    let known: Vec<String> = reading.known.iter().map(|fact| fold(fact.text.trim())).collect();
    let new = found.into_iter().filter(|text| !known.contains(&fold(text)));
    Ok(ReadingEnd::Read(new.map(|text| (mint::memory(), Arc::from(text))).collect()))
}

fn wait(failures: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << failures.min(10)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_reading_waits_longer_each_time_and_at_most_an_hour() {
        for (failures, seconds) in [(0, 60), (1, 120), (5, 1920), (6, 3600), (u32::MAX, 3600)] {
            assert_eq!(wait(failures), Duration::from_secs(seconds), "{failures}");
        }
    }
}
