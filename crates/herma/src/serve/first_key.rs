//! The API key that the first start makes: readable only by its owner, and printed once. It is not printed into the
//! journal of systemd, which keeps it and shows it to more people than its owner.
//!
//! The file is saved before the key is stored. After a crash in between, the file holds a key that is not valid, and
//! the next start replaces it. In the other order, the store would have a valid key that no one knows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use herma_config::Config;
use herma_gateway::access::{DEFAULT_TENANT, KeyGrant, MintedKey};
use herma_store::Store;

use crate::{output, setup};

/// The file in the data directory.
pub(crate) const FILE: &str = "api-key";

/// Makes a key of the default tenant, saves it, and prints how to use it.
pub(super) async fn make(config: &Config, store: &dyn Store, address: SocketAddr) -> anyhow::Result<()> {
    let key = MintedKey::mint();
    let path = config.data_dir.join(FILE);
    setup::make_private(&config.data_dir)?;
    save(&path, &key.secret).with_context(|| {
        format!("cannot save the first key as {}; make the directory writable, or set HERMA_API_KEY", path.display())
    })?;
    key.store(store, KeyGrant::of(DEFAULT_TENANT)).await?;
    let shown = (!is_kept_in_journal()).then_some(key.secret.as_str());
    output::note(&introduction(&path, shown, address));
    Ok(())
}

/// Writes the file completely or not at all. From the beginning only its owner can read it.
fn save(path: &Path, secret: &str) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&unfinished);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&unfinished).and_then(|mut file| {
        writeln!(file, "{secret}")?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written?;
    if cfg!(unix) {
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())?;
    }
    Ok(())
}

/// Whether stderr goes into the journal. systemd says in `JOURNAL_STREAM` which file that is: its device and inode.
#[cfg(unix)]
fn is_kept_in_journal() -> bool {
    let journal = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    rustix::fs::fstat(io::stderr()).is_ok_and(|stderr| journal == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}

#[cfg(not(unix))]
fn is_kept_in_journal() -> bool {
    false
}

/// How to use the key. Without `secret` it is not shown.
fn introduction(path: &Path, secret: Option<&str>, address: SocketAddr) -> String {
    let path = path.display();
    let key = match secret {
        Some(secret) => {
            format!("This is your API key. It is shown only now, and saved in {path}:\n\n    {secret}\n")
        }
        None => format!("Your API key is saved in {path}. It is not shown here, because the journal would keep it.\n"),
    };
    format!(
        "\
{key}
Try it:

    curl http://{address}/v1/chat/completions -H \"Authorization: Bearer $(cat '{path}')\" \\
      -H 'Content-Type: application/json' -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'
"
    )
}
