//! `herma import hermes`: into an empty store, and again without new data.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::hermes;
use crate::bench::options::Options;
use crate::bench::table::{Table, at_least};
use crate::bench::testbed::Testbed;

/// Messages per second.
const GOAL: f64 = 20_000.0;

/// Imports a database twice.
pub(super) fn run(testbed: &Testbed, options: &Options) -> io::Result<()> {
    let directory = testbed.directory("import");
    std::fs::create_dir_all(&directory)?;
    let messages = hermes::make(&directory, options.imported()).map_err(io::Error::other)?;
    println!("`herma import hermes`: {} sessions, {messages} messages.\n", options.imported());
    let mut table = Table::new(["run", "seconds", "messages a second"]);
    for (what, goal) in [("the first", Some(GOAL)), ("again, nothing new", None)] {
        let seconds = import(&directory)?;
        let rate = messages as f64 / seconds;
        let rate = goal.map_or_else(|| format!("{rate:.0}"), |goal| at_least(rate, goal));
        table.row([what.to_owned(), format!("{seconds:.1}"), rate]);
    }
    table.print();
    Ok(())
}

fn import(directory: &Path) -> io::Result<f64> {
    let mut herma = Command::new(std::env::current_exe()?.with_file_name("herma"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMA_")) {
        herma.env_remove(name);
    }
    herma.args(["import", "hermes"]).arg(directory.join("state.db")).arg("--data").arg(directory.join("data"));
    let began = Instant::now();
    let done = herma.output()?;
    let seconds = began.elapsed().as_secs_f64();
    if !done.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
    }
    Ok(seconds)
}
