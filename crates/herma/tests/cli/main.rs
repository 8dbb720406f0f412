//! `herma` in a terminal, as people and scripts see it: whole transcripts, exit codes, and the files on disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod backup;
mod chat;
mod config;
mod doctor;
mod import;
#[cfg(target_os = "linux")]
mod interactive;
mod interrupt;
mod keys;
mod memory;
#[cfg(target_os = "linux")]
mod questions;
mod redacted;
mod serve;
mod sessions;
mod store;
mod tools;
#[cfg(target_os = "linux")]
mod typed;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use redacted::redacted;

const HERMA: &str = env!("CARGO_BIN_EXE_herma");

/// A data directory, and commands that use it.
struct Terminal {
    home: TempDir,
}

impl Terminal {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// A command that does not see the environment variables and files of the person who runs the tests.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(HERMA);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMA_")) {
            command.env_remove(name);
        }
        command.current_dir(self.home.path()).args(arguments).arg("--data").arg(self.data());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.say(self.command(arguments), "")
    }

    fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandOutput {
        self.say(self.command(arguments), input)
    }

    fn say(&self, mut command: Command, input: &str) -> CommandOutput {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        CommandOutput {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            data: self.data(),
        }
    }
}

/// The output and the exit code of a command.
struct CommandOutput {
    code: i32,
    stdout: String,
    stderr: String,
    data: PathBuf,
}

impl CommandOutput {
    /// The whole output, with values that differ between runs replaced.
    fn transcript(&self) -> String {
        let Self { code, stdout, stderr, data } = self;
        redacted(&format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}"), data)
    }

    /// The standard output. Checks that the command succeeded.
    fn answer(&self) -> &str {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout.trim_end()
    }
}

/// Every file in a directory with its bytes.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}
