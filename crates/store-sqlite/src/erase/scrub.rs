//! Overwrites the unused parts of pages, because SQLite leaves old text there.
//!
//! `PRAGMA secure_delete` overwrites what is deleted. But when SQLite moves rows from one page to its neighbours, it
//! does not overwrite the copies on the old page. They stay between the page's list of cells and its first cell, also
//! after the row is deleted elsewhere. This file writes zeros there. SQLite never reads these bytes.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::failure::{StoreResult, Translate};

/// The most pages of one transaction, so that no writer waits long.
const STEP: u32 = 4096;

/// The file's own header is on the first page, before the header of the page.
const FILE_HEADER: usize = 100;

/// From this number of pages on, the first byte of a page does not tell whether it belongs to a tree. Such a file has
/// more than 100 GB.
const TOO_MANY_PAGES: u32 = 0x0200_0000;

/// Writes zeros over the unused parts of all pages, and returns how many pages had something there.
///
/// If the file needs several transactions, rows may move between them from a page that is not yet done to one that is.
/// So such a file is done twice.
pub(crate) fn scrub(connection: &Connection) -> StoreResult<u64> {
    let rounds = if page_count(connection)? > STEP { 2 } else { 1 };
    let mut changed = 0;
    for _ in 0..rounds {
        let mut next = Some(1);
        while let Some(first) = next {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate).translated()?;
            let pages = page_count(&transaction)?;
            let last = pages.min(first + STEP - 1);
            changed += scrub_pages(&transaction, first, last)?;
            transaction.commit().translated()?;
            next = (last < pages).then_some(last + 1);
        }
    }
    Ok(changed)
}

fn page_count(connection: &Connection) -> StoreResult<u32> {
    let pages = connection.pragma_query_value(None, "page_count", |row| row.get(0)).translated()?;
    if pages < TOO_MANY_PAGES {
        return Ok(pages);
    }
    Err(herma_store::StoreError::Failed("the database is too large to overwrite what was erased".to_owned()))
}

fn scrub_pages(connection: &Connection, first: u32, last: u32) -> StoreResult<u64> {
    let mut read = connection.prepare_cached("SELECT data FROM sqlite_dbpage('main') WHERE pgno = ?1").translated()?;
    let mut write = connection.prepare_cached("UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1").translated()?;
    let mut changed = 0;
    for number in first..=last {
        let cleaned = read.query_row([number], |row| Ok(cleaned(number, row.get_ref(0)?.as_blob()?))).translated()?;
        if let Some(page) = cleaned {
            write.execute(rusqlite::params![number, page]).translated()?;
            changed += 1;
        }
    }
    Ok(changed)
}

/// The page with zeros in its unused part. `None` if it is so already, or is no page of a tree.
fn cleaned(number: u32, page: &[u8]) -> Option<Vec<u8>> {
    let header = if number == 1 { FILE_HEADER } else { 0 };
    let size = match page.get(header)? {
        2 | 5 => 12,
        10 | 13 => 8,
        _ => return None,
    };
    let two_bytes = |at: usize| Some(usize::from(u16::from_be_bytes([*page.get(at)?, *page.get(at + 1)?])));
    let cells = two_bytes(header + 3)?;
    // Zero stands for 65536.
    let content = two_bytes(header + 5).map(|start| if start == 0 { 0x1_0000 } else { start })?;
    let unused = header + size + 2 * cells..content;
    if page.get(unused.clone())?.iter().all(|byte| *byte == 0) {
        return None;
    }
    let mut cleaned = page.to_vec();
    cleaned.get_mut(unused)?.fill(0);
    Some(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database in which rows have changed their lengths and moved between pages, and the words of deleted rows.
    fn worn(directory: &std::path::Path) -> (Connection, Vec<String>) {
        let connection = Connection::open(directory.join("worn.db")).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).unwrap();
        connection.execute_batch("CREATE TABLE t (pk INTEGER PRIMARY KEY, word TEXT, filler TEXT)").unwrap();
        let word = |number: u32| format!("word-{:032x}", u128::from(number) * 0x9e37_79b9_7f4a_7c15_f39c);
        let mut random = 1_u32;
        let mut next = |below: u32| {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (random >> 8) % below
        };
        for pk in 0..600 {
            let filler = "f".repeat(next(300) as usize);
            connection.execute("INSERT INTO t VALUES (?1, ?2, ?3)", (pk, word(pk), filler)).unwrap();
        }
        for _ in 0..2_000 {
            let filler = "g".repeat(next(900) as usize);
            connection.execute("UPDATE t SET filler = ?2 WHERE pk = ?1", (next(600), filler)).unwrap();
        }
        connection.execute("DELETE FROM t WHERE pk % 2 = 0", []).unwrap();
        (connection, (0..600).filter(|pk| pk % 2 == 0).map(word).collect())
    }

    fn found_in_file(connection: &Connection, directory: &std::path::Path, words: &[String]) -> usize {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let file = std::fs::read(directory.join("worn.db")).unwrap();
        let file = String::from_utf8_lossy(&file);
        words.iter().filter(|word| file.contains(word.as_str())).count()
    }

    #[test]
    fn old_copies_of_deleted_rows_are_overwritten_and_other_rows_stay() {
        let directory = tempfile::tempdir().unwrap();
        let (connection, deleted) = worn(directory.path());
        assert_ne!(found_in_file(&connection, directory.path(), &deleted), 0, "SQLite leaves copies by itself");
        let rows = |connection: &Connection| -> String {
            connection.query_row("SELECT group_concat(pk || word || filler) FROM t", [], |row| row.get(0)).unwrap()
        };
        let before = rows(&connection);
        assert_ne!(scrub(&connection).unwrap(), 0);
        assert_eq!(found_in_file(&connection, directory.path(), &deleted), 0);
        assert_eq!(rows(&connection), before);
        let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        assert_eq!(scrub(&connection).unwrap(), 0, "nothing is left to overwrite");
    }
}
