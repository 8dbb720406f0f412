//! Where an export goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::output;

/// Standard output, or a file.
pub(super) enum Target {
    Stdout(BufWriter<io::Stdout>),
    /// A terminal. It gets no control characters.
    Terminal,
    File(NewFile),
    /// A device or a pipe. It is written directly.
    Special(BufWriter<File>, PathBuf),
}

impl Target {
    /// Opens the target. An existing file is an error, unless `force` is set.
    pub(super) fn open(file: Option<&Path>, force: bool) -> anyhow::Result<Self> {
        match file {
            Some(path) => Self::named(path, force),
            None if io::stdout().is_terminal() => Ok(Self::Terminal),
            None => Ok(Self::Stdout(BufWriter::new(io::stdout()))),
        }
    }

    fn named(path: &Path, force: bool) -> anyhow::Result<Self> {
        refuse(path, force)?;
        // Write to the file that a link leads to; do not replace the link.
        let meant = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&meant).is_ok_and(|found| !found.is_file()) {
            let opened = OpenOptions::new().write(true).open(&meant);
            let file = opened.with_context(|| format!("cannot write {}", path.display()))?;
            return Ok(Self::Special(BufWriter::new(file), path.to_owned()));
        }
        NewFile::begin(&meant, force).map(Self::File)
    }

    /// Writes a line.
    pub(super) fn line(&mut self, line: &str) -> anyhow::Result<()> {
        match self {
            Self::Stdout(stdout) => Ok(writeln!(stdout, "{line}")?),
            Self::Terminal => Ok(output::answer(&output::printable(line))?),
            Self::File(file) => {
                let written = file.partial.as_mut().map_or(Ok(()), |(partial, _)| writeln!(partial, "{line}"));
                written.with_context(|| format!("cannot write {}", file.path.display()))
            }
            Self::Special(file, path) => {
                writeln!(file, "{line}").with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }

    /// Flushes the output, and gives a file its final name.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(mut stdout) => Ok(stdout.flush()?),
            Self::Terminal => Ok(()),
            Self::File(file) => file.finish(),
            Self::Special(mut file, path) => file.flush().with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// A file that gets its final name only when it is complete. Only its owner can read it.
pub(super) struct NewFile {
    path: PathBuf,
    force: bool,
    /// The temporary file and its name. `None` after it got its final name.
    partial: Option<(BufWriter<File>, PathBuf)>,
}

impl NewFile {
    fn begin(path: &Path, force: bool) -> anyhow::Result<Self> {
        let Some(name) = path.file_name() else { bail!("{} is not the name of a file", path.display()) };
        let temporary = path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&temporary).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), force, partial: Some((BufWriter::new(file), temporary)) })
    }

    fn finish(mut self) -> anyhow::Result<()> {
        let Some((partial, temporary)) = self.partial.as_mut() else { return Ok(()) };
        let cannot = || format!("cannot write {}", self.path.display());
        partial.flush().with_context(cannot)?;
        partial.get_ref().sync_all().with_context(cannot)?;
        refuse(&self.path, self.force)?;
        fs::rename(temporary, &self.path).with_context(cannot)?;
        self.partial = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((_, temporary)) = &self.partial {
            let _ = fs::remove_file(temporary);
        }
    }
}

fn refuse(path: &Path, force: bool) -> anyhow::Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        bail!("{} is there already; --force writes over it", path.display());
    }
    Ok(())
}
