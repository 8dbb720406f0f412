//! `herma keys list`: lists all keys, without their secrets.

use std::process::ExitCode;

use herma_config::Overrides;
use herma_model::KeyLimits;
use herma_store::ApiKeyRow;
use herma_wire::resource::rfc3339;
use serde_json::{Map, Value};

use crate::arguments::{Common, PrintFlags};
use crate::table::Table;
use crate::terminal::Stream;
use crate::{logging, output, setup, short_id, table};

/// Lists the keys of all tenants, oldest first.
pub(crate) fn run(common: Common, flags: &PrintFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(async {
        let keys = match setup::open_existing_store(&config)? {
            Some(store) => {
                let keys = store.keys().await?;
                store.close().await;
                keys
            }
            None => Vec::new(),
        };
        if flags.json {
            output::answer(&Value::Array(keys.iter().map(json).collect()).to_string())?;
        } else if keys.is_empty() {
            output::note("there are no keys; make one with `herma keys create`");
        } else {
            output::answer(&as_table(&keys))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The keys as a table.
pub(super) fn as_table(keys: &[ApiKeyRow]) -> String {
    let rows: Vec<_> = keys.iter().map(row).collect();
    Table::new(["ID", "TENANT", "BEGINS WITH", "SESSION KEYS", "LIMITS", "CREATED", "EXPIRES", "REVOKED"])
        .cutting("TENANT")
        .cutting("SESSION KEYS")
        .cutting("LIMITS")
        .sparing("CREATED")
        .sparing("LIMITS")
        .sparing("SESSION KEYS")
        .sparing("EXPIRES")
        .sparing("BEGINS WITH")
        .sparing("REVOKED")
        .sparing("TENANT")
        .layout(&rows, Stream::Stdout)
}

fn row(key: &ApiKeyRow) -> [String; 8] {
    [
        short_id::of(key.id),
        key.tenant_name.to_string(),
        key.hint.clone(),
        key.session_keys.to_stored().unwrap_or_else(|| "all".to_owned()),
        limits(&key.limits),
        table::minute(key.created_at),
        key.limits.expires_at.map_or_else(|| "-".to_owned(), table::minute),
        key.revoked_at.map_or_else(|| "-".to_owned(), table::minute),
    ]
}

/// What a key may not do, in the words of the flags that made it.
fn limits(limits: &KeyLimits) -> String {
    let words = [
        limits.read_only.then(|| "read only".to_owned()),
        limits.rate.map(|rate| rate.to_string()),
        limits.max_turns.map(|turns| format!("{turns} turns")),
    ];
    let words: Vec<_> = words.into_iter().flatten().collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// Fields that do not apply are left out: a key without `session_keys` may use all session keys.
fn json(key: &ApiKeyRow) -> Value {
    let mut object = Map::new();
    object.insert("id".to_owned(), key.id.to_string().into());
    object.insert("tenant".to_owned(), key.tenant_name.to_string().into());
    object.insert("begins_with".to_owned(), key.hint.clone().into());
    if let Some(patterns) = key.session_keys.to_stored() {
        object.insert("session_keys".to_owned(), patterns.split(',').collect());
    }
    if key.limits.read_only {
        object.insert("read_only".to_owned(), true.into());
    }
    if let Some(rate) = key.limits.rate {
        object.insert("rate".to_owned(), rate.to_string().into());
    }
    if let Some(turns) = key.limits.max_turns {
        object.insert("max_turns".to_owned(), turns.into());
    }
    object.insert("created_at".to_owned(), rfc3339(key.created_at).into());
    if let Some(end) = key.limits.expires_at {
        object.insert("expires_at".to_owned(), rfc3339(end).into());
    }
    if let Some(revoked_at) = key.revoked_at {
        object.insert("revoked_at".to_owned(), rfc3339(revoked_at).into());
    }
    Value::Object(object)
}
