//! Tasks of this workspace that need code: `cargo xtask check` and `cargo xtask bench`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool reports on its terminal")]

mod check;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask check | bench [--help]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("check") => check::run(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
