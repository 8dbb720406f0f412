//! Checks the store: whether it opens, accepts writes, and has a valid key.

use std::fs::{self, File};
use std::sync::Arc;

use herma_config::{Config, StoreUrl};
use herma_store::Store;
use herma_store_sqlite::SqliteStore;

use super::check::Check;
use crate::setup;

const STORE: &str = "store";
const KEYS: &str = "API keys";

/// Checks the store and its keys.
///
/// `can_be_made` says whether the data directory is there or can be made.
pub(super) async fn checks(config: &Config, can_be_made: bool) -> Vec<Check> {
    let store = match setup::open_existing_store(config) {
        Err(error) => return vec![Check::problem(STORE, format!("{error:#}"))],
        Ok(None) => {
            return if can_be_made || !is_in_data_directory(config) {
                vec![missing(config), keys(config, 0)]
            } else {
                vec![Check::problem(STORE, format!("{} cannot be made without its directory", config.store.url))]
            };
        }
        Ok(Some(store)) => store,
    };
    let checks = opened(config, &store).await;
    store.close().await;
    checks
}

fn is_in_data_directory(config: &Config) -> bool {
    matches!(&config.store.url, StoreUrl::Sqlite(path) if path.starts_with(&config.data_dir))
}

/// A database that is not there: tries to make its file, and removes it again. In the data directory that was tried.
fn missing(config: &Config) -> Check {
    let url = &config.store.url;
    let found = format!("{url} is not there yet; the first start makes it");
    let StoreUrl::Sqlite(path) = url else { return Check::ok(STORE, found) };
    if is_in_data_directory(config) {
        return Check::ok(STORE, found);
    }
    let probe = path.with_file_name(format!(".herma-doctor-{}", std::process::id()));
    match File::create_new(&probe).and_then(|_| fs::remove_file(&probe)) {
        Ok(()) => Check::ok(STORE, found),
        Err(error) => {
            let advice = "make its directory, or name another with --store";
            Check::problem(STORE, format!("{url} is not there, and cannot be made: {error}; {advice}"))
        }
    }
}

async fn opened(config: &Config, store: &Arc<dyn Store>) -> Vec<Check> {
    let url = &config.store.url;
    if let Err(error) = store.check().await {
        let advice = "check that the file may be written and that the disk is not full";
        return vec![Check::problem(STORE, format!("{url} takes no writes: {error}; {advice}"))];
    }
    let schema = SqliteStore::schema_version();
    let usable = Check::ok(STORE, format!("{url} can be read and written, schema {schema}"));
    let keys = match store.keys().await {
        Ok(rows) => keys(config, rows.iter().filter(|key| key.revoked_at.is_none()).count()),
        Err(error) => Check::problem(KEYS, format!("cannot be read: {error}")),
    };
    vec![usable, keys]
}

fn keys(config: &Config, valid: usize) -> Check {
    let listen = &config.server.listen;
    match (config.server.no_auth, &config.api_key, valid) {
        (true, ..) => {
            Check::warning(KEYS, "are not asked for (`server.no_auth`); every program on this machine is let in")
        }
        (false, Some(key), _) if setup::weak_key(key.expose()).is_some() => {
            Check::problem(KEYS, setup::weak_key(key.expose()).unwrap_or_default())
        }
        (false, Some(_), 0) => Check::ok(KEYS, "HERMA_API_KEY is set"),
        (false, Some(_), valid) => Check::ok(KEYS, format!("HERMA_API_KEY is set; valid ones in the store: {valid}")),
        (false, None, 0) if listen.is_loopback() => Check::ok(KEYS, "none yet; the first start makes one"),
        (false, None, 0) => Check::problem(
            KEYS,
            format!("none, and {listen} can be reached by others; make one with `herma keys create --tenant default`"),
        ),
        (false, None, valid) => Check::ok(KEYS, format!("valid ones in the store: {valid}")),
    }
}
