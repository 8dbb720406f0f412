//! The root of the workspace and its files, as git lists them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace: the parent of this crate.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The cargo that runs this task, or the one on the path.
///
/// It does not get the variables that cargo sets for this task itself. Build scripts watch some of them, so `ring` and
/// all that needs it would be built again after each `cargo build` of a person.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_this_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

fn is_of_this_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs a command and returns its standard output. Fails with its standard error.
pub(crate) fn output(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?} failed: {}", complaint.trim())))
}

/// One file of the workspace.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    /// The whole text; empty if the file is not UTF-8.
    pub(crate) text: String,
}

impl SourceFile {
    /// The extension, empty if there is none.
    pub(crate) fn extension(&self) -> &str {
        self.path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
    }
}

/// All files that git tracks or would track.
pub(crate) fn files() -> io::Result<Vec<SourceFile>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = output(&mut git)?;
    let read = |path: &str| {
        let bytes = std::fs::read(root().join(path)).ok()?;
        Some(SourceFile { path: PathBuf::from(path), text: String::from_utf8(bytes).unwrap_or_default() })
    };
    Ok(listed.split('\0').filter(|path| !path.is_empty()).filter_map(read).collect())
}
