//! A table with its columns below each other. Its rows wait until it has ended, because the widest cell decides how
//! wide a column is.

use super::inline::{self, Span};
use crate::terminal::Style;
use crate::text_width::columns;

/// The columns between two cells.
const GAP: usize = 2;

/// A row that is drawn.
type Row = Vec<Span>;

/// The rows of a table as they are shown. `None` if this is no table, or if it does not fit into the width: then it is
/// shown as it was written.
pub(super) fn drawn(rows: &[String], width: usize) -> Option<Vec<Row>> {
    let [heading, delimiter, body @ ..] = rows else { return None };
    let is_right = cells(delimiter).iter().map(|cell| is_right(cell)).collect::<Option<Vec<bool>>>()?;
    let shown = |row: &String, style| -> Vec<Row> {
        cells(row).iter().map(|cell| inline::spans(cell, None, style, true).0).collect()
    };
    let rows: Vec<Vec<Row>> = std::iter::once(shown(heading, Style::BOLD))
        .chain(body.iter().map(|row| shown(row, Style::default())))
        .collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| width_of(cell)).max();
    let widths: Vec<usize> = (0..count).map(|column| widest(column).unwrap_or_default().max(1)).collect();
    if widths.iter().sum::<usize>() + GAP * count.saturating_sub(1) > width {
        return None;
    }
    let mut drawn: Vec<Row> = rows.iter().map(|row| in_columns(row, &widths, &is_right)).collect();
    let lines: Vec<Row> =
        widths.iter().map(|width| vec![Span { text: "─".repeat(*width), style: Style::DIM }]).collect();
    drawn.insert(1, in_columns(&lines, &widths, &is_right));
    Some(drawn)
}

/// The cells of a row. A bar behind a backslash belongs to its cell.
fn cells(row: &str) -> Vec<String> {
    const BAR: &str = "\u{0}";
    let row = row.trim().replace(r"\|", BAR);
    let row = row.strip_prefix('|').unwrap_or(&row);
    let row = row.strip_suffix('|').unwrap_or(row);
    row.split('|').map(|cell| cell.trim().replace(BAR, "|")).collect()
}

/// Whether a column is on the right, by its cell of the row below the heading. `None` if that is no such cell.
fn is_right(cell: &str) -> Option<bool> {
    let dashes = cell.strip_prefix(':').unwrap_or(cell);
    let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
    let is_delimiter = !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-');
    is_delimiter.then(|| cell.ends_with(':') && !cell.starts_with(':'))
}

fn width_of(cell: &[Span]) -> usize {
    cell.iter().map(|span| columns(&span.text)).sum()
}

fn in_columns(row: &[Row], widths: &[usize], is_right: &[bool]) -> Row {
    let mut line = Vec::new();
    let mut gap = 0;
    for (column, cell) in row.iter().enumerate() {
        let left = widths[column].saturating_sub(width_of(cell));
        let (before, after) = if is_right.get(column) == Some(&true) { (left, 0) } else { (0, left) };
        if gap + before > 0 && !cell.is_empty() {
            line.push(Span { text: " ".repeat(gap + before), style: Style::default() });
        }
        line.extend(cell.iter().map(|span| Span { text: span.text.clone(), style: span.style }));
        gap = if cell.is_empty() { gap + before } else { 0 } + after + GAP;
    }
    line
}
