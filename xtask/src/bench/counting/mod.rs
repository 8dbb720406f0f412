//! What a server does, counted: allocations, statements, pages of the log, instructions.
//!
//! Counts are steady where times are not. They come from two instrumented processes, because each instrument would be
//! seen by the other:
//!
//! - [`Counted`]: an allocator is preloaded, and SQLite's hooks are set. Herma has these hooks only in builds with the
//!   feature `counts`.
//! - [`Callgrind`]: instructions, if valgrind is installed.

mod callgrind;

use std::fs::File;
use std::io;
use std::ops::{Div, Sub};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::child::Child;
use super::statistics::median;
use crate::workspace::output;

pub(super) use callgrind::Callgrind;

const ALLOCATOR: &str = include_str!("allocations.c");

/// What a server did since it started, or between two readings, or in one turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counts {
    /// Calls of `malloc` and its kin.
    pub(super) allocations: f64,
    /// Bytes that they asked for.
    pub(super) allocated: f64,
    /// Those of 1 KiB and more.
    pub(super) large_allocations: f64,
    /// SQL statements and the rows that they returned.
    pub(super) sql_steps: f64,
    /// Instructions of SQLite's virtual machine.
    pub(super) machine_steps: f64,
    /// Transactions that wrote something.
    pub(super) transactions: f64,
    /// Pages written to the write-ahead log.
    pub(super) frames: f64,
}

impl Counts {
    fn of([allocations, allocated, large_allocations]: [f64; 3], statements: [f64; 4]) -> Self {
        let [sql_steps, machine_steps, transactions, frames] = statements;
        Self { allocations, allocated, large_allocations, sql_steps, machine_steps, transactions, frames }
    }

    /// The median of each number.
    pub(super) fn median(windows: &[Self]) -> Self {
        let of = |number: &dyn Fn(&Self) -> f64| median(&windows.iter().map(number).collect::<Vec<_>>());
        Self::of(
            std::array::from_fn(|at| of(&|window: &Self| window.numbers().0[at])),
            std::array::from_fn(|at| of(&|window: &Self| window.numbers().1[at])),
        )
    }

    fn numbers(&self) -> ([f64; 3], [f64; 4]) {
        (
            [self.allocations, self.allocated, self.large_allocations],
            [self.sql_steps, self.machine_steps, self.transactions, self.frames],
        )
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let ((now, statements), (then, earlier)) = (self.numbers(), earlier.numbers());
        Self::of(std::array::from_fn(|at| now[at] - then[at]), std::array::from_fn(|at| statements[at] - earlier[at]))
    }
}

impl Div<f64> for Counts {
    type Output = Self;

    fn div(self, turns: f64) -> Self {
        let (allocations, statements) = self.numbers();
        Self::of(allocations.map(|number| number / turns), statements.map(|number| number / turns))
    }
}

/// A server whose allocations and statements are counted.
#[derive(Debug)]
pub(super) struct Counted {
    child: Child,
    allocations: File,
    statements: PathBuf,
}

impl Counted {
    /// Starts a server. The files of the counts go to this directory.
    pub(super) fn start(server: &mut Command, directory: &Path) -> io::Result<Self> {
        let [shared, statements] = ["allocations", "statements"].map(|name| directory.join(name));
        let allocations = File::options().read(true).write(true).create(true).truncate(true).open(&shared)?;
        allocations.set_len(3 * 8)?;
        server.env("LD_PRELOAD", allocator(directory)?);
        server.env("COUNT_ALLOCATIONS", &shared).env("HERMA_COUNTS", &statements);
        Ok(Self { child: Child::start(server)?, allocations, statements })
    }

    pub(super) fn child(&self) -> &Child {
        &self.child
    }

    /// The counts so far.
    pub(super) fn read(&self) -> io::Result<Counts> {
        let statements = File::open(&self.statements)
            .map_err(|error| io::Error::other(format!("the server counts no statements: {error}")))?;
        Ok(Counts::of(numbers(&self.allocations)?, numbers(&statements)?))
    }
}

/// The first numbers of a file.
fn numbers<const N: usize>(file: &File) -> io::Result<[f64; N]> {
    let mut numbers = [0.0; N];
    for (at, number) in (0..).zip(&mut numbers) {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 8 * at)?;
        *number = u64::from_le_bytes(bytes) as f64;
    }
    Ok(numbers)
}

/// Compiles the counting allocator.
fn allocator(directory: &Path) -> io::Result<PathBuf> {
    let [source, library] = ["allocations.c", "allocations.so"].map(|name| directory.join(name));
    std::fs::write(&source, ALLOCATOR)?;
    output(Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source))?;
    Ok(library)
}
