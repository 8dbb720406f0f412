//! Builds Herma and the tasks that need it, and runs them. Benchmarks use release builds. The chaos test uses a debug
//! build, which has more checks and often exists already.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::workspace;

/// The packages of the benchmark as they are measured.
const MEASURED: [&str; 3] = ["--release", "--package", "xtask"];
/// The same as they are counted. Allocations are counted in the allocator of the C library, so Herma has to use it.
const COUNTED: [&str; 6] = ["--release", "--no-default-features", "--package", "xtask", "--features", "xtask/counts"];

/// Builds Herma and the benchmark in release, then runs the benchmark with these arguments. A run of everything is two:
/// what is counted needs another build of Herma.
pub(crate) fn bench(arguments: &[String]) -> ExitCode {
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let with_herma = !has("--without-herma");
    let measure = |arguments: &[String]| {
        let mut build = MEASURED.to_vec();
        build.extend(with_herma.then_some(["--package", "herma"]).into_iter().flatten());
        build_and_run(&build, "release", "bench-run", arguments)
    };
    let count = |arguments: &[String]| {
        let mut build = COUNTED.to_vec();
        build.extend(with_herma.then_some(["--package", "herma", "--features", "herma/counts"]).into_iter().flatten());
        build_and_run(&build, "release", "bench-run", arguments)
    };
    let is_one_section = arguments.iter().any(|argument| argument.starts_with("--only"));
    let done = if has("--check") || has("--record") || has("counts") || has("--only=counts") {
        count(arguments)
    } else if is_one_section || has("--help") {
        measure(arguments)
    } else {
        let counts: Vec<String> = arguments.iter().cloned().chain(["--only=counts".to_owned()]).collect();
        measure(arguments).and_then(|is_measured| Ok(is_measured && count(&counts)?))
    };
    exit("bench", done)
}

/// Builds Herma as the tests do, then runs the chaos test with these arguments.
pub(crate) fn chaos(arguments: &[String]) -> ExitCode {
    let build = ["--package", "xtask", "--package", "herma", "--features", "herma/crash-points"];
    exit("chaos", build_and_run(&build, "debug", "chaos-run", arguments))
}

/// Builds Herma as the tests do. Returns the path of the binary.
pub(crate) fn herma() -> io::Result<PathBuf> {
    let mut build = workspace::cargo();
    build.args(["build", "--quiet", "--package", "herma", "--features", "herma/crash-points"]);
    if !build.status()?.success() {
        return Err(io::Error::other("herma could not be built"));
    }
    Ok(target_directory()?.join("debug").join("herma"))
}

fn exit(task: &str, done: io::Result<bool>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{task}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build_and_run(build: &[&str], profile: &str, task: &str, arguments: &[String]) -> io::Result<bool> {
    if !workspace::cargo().arg("build").args(build).status()?.success() {
        return Ok(false);
    }
    let binary = target_directory()?.join(profile).join("xtask");
    // A thousand open streams need more open files than many shells allow by default.
    let raise = "ulimit -n \"$(ulimit -Hn)\" 2>/dev/null; exec \"$@\"";
    let mut run = Command::new("sh");
    run.args(["-c", raise, "sh"]).arg(binary).arg(task).args(arguments);
    Ok(run.status()?.success())
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> io::Result<PathBuf> {
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&workspace::output(&mut metadata)?)?;
    let directory = metadata["target_directory"].as_str();
    directory.map(PathBuf::from).ok_or_else(|| io::Error::other("cargo metadata names no target directory"))
}
