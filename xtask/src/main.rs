//! Tasks of this workspace that need code: checks, pages made from the code, packages, benchmarks, the chaos test.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool reports on its terminal")]

#[cfg(feature = "measuring")]
mod bench;
mod build;
#[cfg(feature = "measuring")]
mod chaos;
mod check;
mod dist;
mod docs;
#[cfg(feature = "measuring")]
mod random;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask check
       cargo xtask docs [--check]
       cargo xtask dist
       cargo xtask bench [--quick] [--rounds N] [--only SECTION] [--without-herma] [--scale N] [--scale-data DIR]
       cargo xtask bench --record | --check
       cargo xtask chaos [--minutes N | --seconds N] [--seed N] [--clients N] [--keep-going] [--without SITUATION]...";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = arguments.split_first().map_or(("", &[][..]), |(task, rest)| (task.as_str(), rest));
    match task {
        "check" => check::run(),
        "docs" => docs::run(rest),
        "dist" => dist::run(rest),
        "bench" => build::bench(rest),
        "chaos" => build::chaos(rest),
        #[cfg(feature = "measuring")]
        "chaos-run" => chaos::run(rest),
        #[cfg(feature = "measuring")]
        task if task.starts_with("bench-") => bench::run(task, rest),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
