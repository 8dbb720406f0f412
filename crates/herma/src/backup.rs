//! `herma backup` and `herma restore`: the whole store as one file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use herma_config::Overrides;
use herma_gateway::now;
use herma_store_sqlite::SqliteStore;

use crate::arguments::{BackupFlags, Common, RestoreFlags};
use crate::{logging, next_command, output, setup};

/// Writes a copy of the store. It is there whole or not at all, and only its owner can read it.
pub(crate) fn back_up(common: Common, flags: &BackupFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    let database = setup::sqlite_path(&config)?;
    if !database.exists() {
        bail!("there is no store at {} yet; check --data and --store", config.store.url);
    }
    let (file, shown) = (&flags.file, flags.file.display());
    if !flags.force && file.symlink_metadata().is_ok() {
        bail!("{shown} is there already; --force writes over it");
    }
    let part = PartialFile::make(file)?;
    SqliteStore::back_up(database, &part.0).with_context(|| format!("cannot write {shown}"))?;
    let bytes = part.become_whole(file).with_context(|| format!("cannot write {shown}"))?;
    output::note(&format!("{shown} has everything up to now, {} KB", bytes.div_ceil(1000)));
    let name = file.display().to_string();
    // The store is still there. Without --force, restoring would refuse.
    output::note(&format!("to bring it back: {}", next_command::of(&["restore", &name, "--force"])));
    Ok(ExitCode::SUCCESS)
}

/// Replaces the store with a backup. A store that is there is put aside, not deleted.
pub(crate) fn restore(common: Common, flags: &RestoreFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    let database = setup::sqlite_path(&config)?;
    let shown = flags.file.display();
    if !flags.file.is_file() {
        bail!("there is no file {shown}");
    }
    SqliteStore::verify(&flags.file)?;
    if database.exists() && !flags.force {
        bail!(
            "there is a store at {} already; --force puts it aside, or point --data or --store elsewhere",
            config.store.url
        );
    }
    setup::make_private(&config.data_dir)?;
    let part = PartialFile::make(database)?;
    fs::copy(&flags.file, &part.0).with_context(|| format!("cannot copy {shown}"))?;
    let aside = if database.exists() { Some(put_aside(database)?) } else { None };
    part.become_whole(database).with_context(|| format!("cannot write {}", database.display()))?;
    setup::on_this_thread(async {
        let store = setup::open_store(&config)?;
        store.check().await?;
        store.close().await;
        Ok(())
    })?;
    output::note(&format!("{} is as it was in {shown}", config.store.url));
    if let Some(aside) = aside {
        output::note(&format!("what was there before is {}", aside.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives the store that is there another name. No process may use it.
fn put_aside(database: &Path) -> anyhow::Result<PathBuf> {
    let shown = database.display();
    if !SqliteStore::close_all(database)? {
        bail!("{shown} is in use; nothing was changed. Stop `herma serve` and the other commands first");
    }
    let aside = beside(database, &format!(".before-{}", now().0));
    fs::rename(database, &aside).with_context(|| format!("cannot rename {shown}"))?;
    Ok(aside)
}

/// A file with the same name and more letters behind it.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(more);
    path.with_file_name(name)
}

/// A file that is not whole yet. It is removed if it never gets whole.
struct PartialFile(PathBuf);

impl PartialFile {
    fn make(whole: &Path) -> anyhow::Result<Self> {
        let part = beside(whole, &format!(".{}.part", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&part).with_context(|| format!("cannot write {}", whole.display()))?;
        Ok(Self(part))
    }

    /// Syncs the file and gives it its name. Returns its size.
    fn become_whole(self, whole: &Path) -> io::Result<u64> {
        let file = File::open(&self.0)?;
        file.sync_all()?;
        fs::rename(&self.0, whole)?;
        Ok(file.metadata()?.len())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After the renaming there is no such file.
        let _ = fs::remove_file(&self.0);
    }
}
