use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::{Terminal, contents};

const COMMANDS: [&[&str]; 4] = [
    &["serve", "--listen", "127.0.0.1:0"],
    &["chat", "hello"],
    &["keys", "list"],
    &["keys", "create", "--tenant", "default"],
];

#[test]
fn a_damaged_database_is_refused_and_left_as_it_is() {
    let terminal = Terminal::new();
    fs::create_dir(terminal.data()).unwrap();
    fs::write(terminal.data().join("herma.db"), "precious, but not a database\n".repeat(500)).unwrap();
    let before = contents(&terminal.data());
    for command in COMMANDS {
        insta::allow_duplicates! {
            insta::assert_snapshot!(terminal.run(command).transcript(), @"
            exit 1
            --- stdout
            --- stderr
            error: DATA/herma.db is damaged or not a Herma database; nothing was changed. Restore it from a backup, or point --data or --store elsewhere
            ");
        }
        assert!(contents(&terminal.data()) == before);
    }
}

#[test]
fn a_newer_database_is_refused_and_left_as_it_is() {
    let terminal = Terminal::new();
    terminal.run(&["keys", "create", "--tenant", "default"]).answer();
    let database = terminal.data().join("herma.db");
    let known = format!("knows {}", schema_version(&database));
    set_schema_version(&database, 99);
    let before = fs::read(&database).unwrap();
    for command in COMMANDS {
        insta::allow_duplicates! {
            insta::assert_snapshot!(terminal.run(command).transcript().replace(&known, "knows N"), @"
            exit 1
            --- stdout
            --- stderr
            error: DATA/herma.db was written by a newer Herma (schema 99, this one knows N); nothing was changed. Use the newer program
            ");
        }
        assert!(fs::read(&database).unwrap() == before);
    }
}

/// Where `PRAGMA user_version` is in the file, as a big-endian number.
const SCHEMA_VERSION: Range<usize> = 60..64;

fn schema_version(database: &Path) -> u32 {
    u32::from_be_bytes(fs::read(database).unwrap()[SCHEMA_VERSION].try_into().unwrap())
}

fn set_schema_version(database: &Path, version: u32) {
    let mut bytes = fs::read(database).unwrap();
    bytes[SCHEMA_VERSION].copy_from_slice(&version.to_be_bytes());
    fs::write(database, bytes).unwrap();
}

#[test]
fn postgres_is_refused_without_showing_its_password() {
    let said = Terminal::new().run(&["keys", "list", "--store", "postgres://me:hunter2@db/herma"]);
    insta::assert_snapshot!(said.transcript(), @"
    exit 2
    --- stdout
    --- stderr
    error: PostgreSQL is not in this release, so postgres://me:[redacted]@db/herma cannot be used; use sqlite:PATH, or leave the store out for a file in the data directory
    ");
}

#[test]
fn a_data_directory_that_cannot_be_made_is_one_sentence() {
    let terminal = Terminal::new();
    std::os::unix::fs::symlink("nowhere", terminal.data()).unwrap();
    let said = terminal.run(&["chat", "hello"]);
    assert_eq!((said.code, said.stderr.lines().count()), (1, 1), "{}", said.stderr);
    assert!(
        said.transcript().contains("error: cannot make the data directory DATA; make it yourself, or name another")
    );
}
