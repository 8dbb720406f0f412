//! Tables for people: aligned columns, two spaces between, nothing at the end of a line.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["zürich".to_owned(), String::new()], ["a".to_owned(), "b".to_owned()]];
        assert_eq!(layout(["ID", "MORE"], &rows), "ID      MORE\nzürich\na       b");
    }
}
