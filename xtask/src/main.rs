//! Tasks of this workspace that need code: `cargo xtask check` and `cargo xtask bench`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool reports on its terminal")]

#[cfg(feature = "bench")]
mod bench;
mod check;
mod release;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask check
       cargo xtask bench [--quick] [--rounds N] [--only SECTION] [--without-herma] [--scale N] [--scale-data DIR]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = arguments.split_first().map_or(("", &[][..]), |(task, rest)| (task.as_str(), rest));
    match task {
        "check" => check::run(),
        "bench" => release::bench(rest),
        #[cfg(feature = "bench")]
        task if task.starts_with("bench-") => bench::run(task, rest),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
