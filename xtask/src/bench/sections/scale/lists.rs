//! Pages of lists, for every filter: the first page, and pages that begin deep in the list.

use std::io;

use bytes::Bytes;

use super::copies::{RARE_SOURCE, SHARED_KEY};
use super::large_store::LargeStore;
use super::words;
use crate::bench::load;
use crate::bench::options::Options;
use crate::bench::sections::talk::{Block, Client};
use crate::bench::statistics::median;
use crate::bench::table::{Table, at_most};

/// The goal for the p99 of a page, in milliseconds.
const GOAL: f64 = 5.0;
/// The depths of pages, in percent of the time that the list covers.
const DEPTHS: [i64; 3] = [10, 50, 90];
/// Pages of one kind in a round. With 100, one page is slower than the p99.
const PAGES: usize = 100;
/// Different pages that begin near a depth.
const NEAR: i64 = 40;

/// The query of a list, and the part of the store's time that it covers, in percent.
struct List {
    query: String,
    spans: [i64; 2],
}

impl List {
    fn of(query: impl Into<String>) -> Self {
        Self { query: query.into(), spans: [0, 100] }
    }

    fn is_ascending(&self) -> bool {
        self.query.contains("order=updated_at") || self.query.contains("order=created_at")
    }

    fn page(&self, cursor: Option<&str>) -> Bytes {
        let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        load::get(&format!("/api/sessions?{}{cursor}", self.query))
    }

    /// Pages that begin near a depth. Their cursors are built from a real cursor of the list.
    fn pages_at(&self, depth: i64, cursor: &str, time: &Time) -> Vec<Bytes> {
        let digest = cursor.rsplit('.').next().unwrap_or_default();
        let [from, until] = self.spans.map(|percent| time.at(percent * 100));
        let whole = until - from;
        let pages = (0..NEAR).map(|near| {
            let passed = whole * depth / 100 + whole * near / 4000;
            let at = if self.is_ascending() { from + passed } else { until - passed };
            self.page(Some(&format!("{at:x}.1.0.{digest}")))
        });
        pages.collect()
    }
}

/// The times of the oldest and the newest conversation.
struct Time {
    oldest: i64,
    newest: i64,
}

impl Time {
    fn read(large_store: &LargeStore) -> io::Result<Self> {
        let span = "SELECT min(updated_at), max(updated_at) FROM conversations WHERE pk <= ?1";
        let read = |row: &rusqlite::Row<'_>| Ok(Self { oldest: row.get(0)?, newest: row.get(1)? });
        let conversations = i64::try_from(large_store.description.conversations).map_err(io::Error::other)?;
        large_store.database()?.query_row(span, [conversations], read).map_err(io::Error::other)
    }

    /// A time within the store's, in hundredths of a percent.
    fn at(&self, part: i64) -> i64 {
        self.oldest + (self.newest - self.oldest) / 10_000 * part
    }

    fn day(&self, large_store: &LargeStore, percent: i64) -> io::Result<String> {
        let day = "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', ?1 / 1000, 'unixepoch')";
        large_store.database()?.query_row(day, [self.at(percent * 100)], |row| row.get(0)).map_err(io::Error::other)
    }
}

/// Pages of one kind, and their measurements by round.
struct Cell {
    pages: Vec<Bytes>,
    rounds: Vec<Block>,
}

impl Cell {
    fn of(pages: Vec<Bytes>) -> Self {
        Self { pages, rounds: Vec::new() }
    }

    /// The median over the rounds, so that a disturbed round does not count.
    fn usual(&self, value: fn(&Block) -> f64) -> f64 {
        median(&self.rounds.iter().map(value).collect::<Vec<_>>())
    }

    fn p50_p99(&self) -> String {
        format!("{:.2} / {}", self.usual(Block::p50), at_most(self.usual(Block::p99), GOAL, ""))
    }

    fn cpu(&self) -> f64 {
        self.usual(Block::cpu)
    }
}

/// A line of the report: the first page and deeper ones.
struct Line {
    name: String,
    rows: String,
    cells: Vec<Cell>,
}

impl Line {
    /// The cheapest possible request, as a measure of the machine.
    fn nothing() -> Self {
        let cells = vec![Cell::of(vec![load::get("/health")])];
        Self { name: "(`GET /health`)".to_owned(), rows: String::new(), cells }
    }

    async fn of(list: &List, client: &mut Client<'_>, time: &Time) -> io::Result<Self> {
        let first = client.answer(&list.page(None)).await?;
        let rows = first["data"].as_array().map_or(0, Vec::len).to_string();
        let mut cells = vec![Cell::of(vec![list.page(None)])];
        if let Some(cursor) = first["next_cursor"].as_str() {
            cells.extend(DEPTHS.map(|depth| Cell::of(list.pages_at(depth, cursor, time))));
        }
        let name = if list.query.is_empty() { "all".to_owned() } else { format!("`{}`", list.query) };
        Ok(Self { name, rows, cells })
    }

    fn row(&self) -> Vec<String> {
        let [begin, .., deepest] = &*self.cells else {
            let only = &self.cells[0];
            let nothing = DEPTHS.map(|_| String::new());
            let row = [self.name.clone(), self.rows.clone(), only.p50_p99()].into_iter().chain(nothing);
            return row.chain([format!("{:.0}", only.cpu()), String::new()]).collect();
        };
        let (cpu, growth) = (begin.cpu(), deepest.cpu() / begin.cpu());
        let row = [self.name.clone(), self.rows.clone()].into_iter().chain(self.cells.iter().map(Cell::p50_p99));
        row.chain([format!("{cpu:.0}"), format!("{growth:.2}")]).collect()
    }
}

/// Measures all lists in alternating rounds, so that other work on the machine affects them equally.
pub(super) async fn run(large_store: &LargeStore, client: &mut Client<'_>, options: &Options) -> io::Result<()> {
    let time = Time::read(large_store)?;
    let mut lines = vec![Line::nothing()];
    for list in lists(large_store, &time)? {
        lines.push(Line::of(&list, client, &time).await?);
    }
    for _ in 0..options.rounds() {
        for cell in lines.iter_mut().flat_map(|line| &mut line.cells) {
            cell.rounds.push(client.block(&cell.pages, PAGES).await?);
        }
    }
    let mut header = ["list", "rows", "first page"].map(str::to_owned).to_vec();
    header.extend(DEPTHS.map(|depth| format!("at {depth} %")));
    header.extend(["CPU of a page", "CPU, at 90 % / first"].map(str::to_owned));
    println!(
        "Pages of `GET /api/sessions`, one client, p50 / p99 of {PAGES} in milliseconds, CPU in microseconds, \
         each the median of {} rounds:\n",
        options.rounds()
    );
    let mut table = Table::new(header);
    lines.iter().for_each(|line| table.row(line.row()));
    table.print();
    let pages = lines[1..].iter().flat_map(|line| &line.cells);
    let all: Vec<f64> = pages.map(|cell| cell.usual(Block::p99)).collect();
    let reached = all.iter().filter(|p99| **p99 < GOAL).count();
    println!("\n{reached} of {} under {GOAL} ms; the median of all p99 is {:.2} ms.\n", all.len(), median(&all));
    Ok(())
}

fn lists(large_store: &LargeStore, time: &Time) -> io::Result<Vec<List>> {
    let landmarks = &large_store.description.landmarks;
    let alike = [
        "",
        "limit=200",
        "kind=main",
        "kind=branch",
        "kind=continuation",
        "origin_kind=background",
        "user_facing=true",
        "user_facing=false",
        "source=cli",
        "archived=true",
        "archived=any",
        "order=updated_at",
        "order=created_at",
        "order=-created_at",
        "view=sessions",
        "view=sessions&kind=continuation",
    ];
    let mut lists: Vec<List> = alike.into_iter().map(List::of).collect();
    lists.extend([
        List::of(format!("source={RARE_SOURCE}")),
        List::of(format!("session_key={SHARED_KEY}")),
        List::of(format!("parent={}", landmarks.eldest)),
        List::of(format!("root={}&view=sessions", landmarks.deep.0)),
        List::of(format!("title={}", words::word(0))),
        List::of(format!("title={}", words::word(2_000))),
        List::of("title=nobody calls anything that"),
    ]);
    let (since, until) = (time.day(large_store, 40)?, time.day(large_store, 60)?);
    lists.push(List { query: format!("since={since}&until={until}"), spans: [40, 60] });
    lists.iter_mut().for_each(|list| list.query = list.query.replace(' ', "%20"));
    Ok(lists)
}
