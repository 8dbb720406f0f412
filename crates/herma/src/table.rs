//! Tables for people: aligned columns, two spaces between, nothing at the end of a line.

use herma_model::Timestamp;
use herma_wire::resource::rfc3339;

/// Lays out a heading and rows of as many cells.
pub(crate) fn layout<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let heading = heading.map(str::to_owned);
    let lines = || std::iter::once(&heading).chain(rows);
    let widths: [usize; N] =
        std::array::from_fn(|at| lines().map(|cells| cells[at].chars().count()).max().unwrap_or(0));
    let line = |cells: &[String; N]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A moment for people, in UTC.
pub(crate) fn minute(moment: Timestamp) -> String {
    let whole = rfc3339(moment);
    whole.get(..16).map_or(whole.clone(), |minute| format!("{}Z", minute.replace('T', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["zürich".to_owned(), String::new()], ["a".to_owned(), "b".to_owned()]];
        assert_eq!(layout(["ID", "MORE"], &rows), "ID      MORE\nzürich\na       b");
    }
}
