//! Benchmarks run from release builds: this builds them and hands over.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::workspace;

/// Builds Herma and the benchmark in release, then runs the benchmark with these arguments.
pub(crate) fn bench(arguments: &[String]) -> ExitCode {
    match build_and_run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build_and_run(arguments: &[String]) -> io::Result<bool> {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--package", "xtask"]);
    if !arguments.iter().any(|argument| argument == "--without-herma") {
        build.args(["--package", "herma"]);
    }
    if !build.status()?.success() {
        return Ok(false);
    }
    let binary = target_directory()?.join("release").join("xtask");
    // A thousand open streams need more files than many shells allow by default.
    let raise = "ulimit -n \"$(ulimit -Hn)\" 2>/dev/null; exec \"$@\"";
    let mut run = Command::new("sh");
    run.args(["-c", raise, "sh"]).arg(binary).arg("bench-run").args(arguments);
    Ok(run.status()?.success())
}

fn target_directory() -> io::Result<PathBuf> {
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&workspace::output(&mut metadata)?)?;
    let directory = metadata["target_directory"].as_str();
    directory.map(PathBuf::from).ok_or_else(|| io::Error::other("cargo metadata names no target directory"))
}
