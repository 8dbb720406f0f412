//! Checks the data directory: whether it is usable, and whether other users can read it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::check::Check;
use crate::serve::API_KEY_FILE;

const DIRECTORY: &str = "data directory";
const LOCKS: &str = "file locks";

/// Checks the directory, the key file in it, and the free space.
pub(super) fn checks(directory: &Path) -> Vec<Check> {
    let shown = directory.display();
    match fs::metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return vec![can_be_made(directory)];
        }
        Err(error) => return vec![Check::problem(DIRECTORY, format!("{shown} cannot be looked at: {error}"))],
        Ok(found) if !found.is_dir() => {
            return vec![Check::problem(DIRECTORY, format!("{shown} is not a directory; name another with --data"))];
        }
        Ok(_) => {}
    }
    let mut checks = vec![usable(directory)];
    checks.extend(key_file(&directory.join(API_KEY_FILE)));
    checks.extend(free_space(directory));
    checks
}

/// Tries what the first start will do: makes a directory in the nearest parent that is there, and removes it again.
fn can_be_made(directory: &Path) -> Check {
    let shown = directory.display();
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let Some(parent) = absolute.ancestors().skip(1).find(|parent| parent.exists()) else {
        return Check::problem(DIRECTORY, format!("{shown} cannot be made: no directory above it is there"));
    };
    let probe = parent.join(probe_name());
    match fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)) {
        Ok(()) => Check::ok(DIRECTORY, format!("{shown} is not there yet; the first start can make it")),
        Err(error) => Check::problem(
            DIRECTORY,
            format!(
                "{shown} is not there, and cannot be made in {}: {error}; make it yourself, or name another with --data",
                parent.display()
            ),
        ),
    }
}

fn probe_name() -> String {
    format!(".herma-doctor-{}", std::process::id())
}

/// Writes, syncs, locks and removes a file.
fn usable(directory: &Path) -> Check {
    let shown = directory.display();
    let probe = Probe(directory.join(probe_name()));
    let written = File::create(&probe.0).and_then(|mut file| {
        file.write_all(&[0; 4096])?;
        file.sync_all()?;
        Ok(file)
    });
    let file = match written {
        Ok(file) => file,
        Err(error) => {
            return Check::problem(
                DIRECTORY,
                format!("{shown} cannot be written: {error}; change its owner or rights, or name another with --data"),
            );
        }
    };
    if let Err(error) = locks_work(&probe.0, &file) {
        return Check::warning(
            LOCKS,
            format!(
                "do not work in {shown}: {error}; after a crash conversations wait up to 10 s, so use a local disk"
            ),
        );
    }
    match readable_by_others(directory) {
        Some(mode) => Check::warning(
            DIRECTORY,
            format!("{shown} is open to other users (mode {mode:o}); close it with: chmod 700 '{shown}'"),
        ),
        None => Check::ok(DIRECTORY, format!("{shown} can be written, and files in it locked")),
    }
}

fn locks_work(path: &Path, file: &File) -> Result<(), String> {
    file.lock().map_err(|error| error.to_string())?;
    let other = File::open(path).map_err(|error| error.to_string())?;
    match other.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error.to_string()),
        Ok(()) => Err("a lock did not keep a second one out".to_owned()),
    }
}

fn key_file(path: &Path) -> Option<Check> {
    const NAME: &str = "first key";
    path.exists().then(|| match readable_by_others(path) {
        Some(mode) => Check::problem(
            NAME,
            format!("{0} is open to other users (mode {mode:o}); close it with: chmod 600 '{0}'", path.display()),
        ),
        None => Check::ok(NAME, format!("{} is readable by you alone", path.display())),
    })
}

#[cfg(unix)]
fn readable_by_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn readable_by_others(_path: &Path) -> Option<u32> {
    None
}

#[cfg(unix)]
fn free_space(directory: &Path) -> Option<Check> {
    const NAME: &str = "free space";
    const LITTLE: u64 = 1_000_000_000;
    const TOO_LITTLE: u64 = 20_000_000;
    let disk = rustix::fs::statvfs(directory).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{} MB", free / 1_000_000);
    Some(match free {
        0..TOO_LITTLE => Check::problem(NAME, format!("{found}; free some, or turns will be refused")),
        TOO_LITTLE..LITTLE => Check::warning(NAME, format!("{found}; free some soon")),
        LITTLE.. => Check::ok(NAME, found),
    })
}

#[cfg(not(unix))]
fn free_space(_directory: &Path) -> Option<Check> {
    None
}

/// A file that is removed on drop.
struct Probe(PathBuf);

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
