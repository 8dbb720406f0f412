//! Tables for people: aligned columns with two spaces between them, and no spaces at the end of a line.

use herma_model::Timestamp;
use herma_wire::resource::rfc3339;

/// Lays out a heading and rows with the same number of cells.
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

/// A time in UTC, to the minute.
pub(crate) fn minute(moment: Timestamp) -> String {
    let whole = rfc3339(moment);
    whole.get(..16).map_or(whole.clone(), |minute| format!("{}Z", minute.replace('T', " ")))
}

/// How long ago something was, in its largest unit.
pub(crate) fn age(moment: Timestamp, now: Timestamp) -> String {
    const UNITS: [(u64, &str); 3] = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "m")];
    let seconds = now.since(moment).as_secs();
    let unit = UNITS.iter().find(|(length, _)| seconds >= *length);
    unit.map_or_else(|| "now".to_owned(), |(length, name)| format!("{}{name}", seconds / length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        let now = Timestamp(1_772_582_400_000);
        for (seconds, told) in
            [(-5, "now"), (59, "now"), (60, "1m"), (3_599, "59m"), (3_600, "1h"), (86_399, "23h"), (8_640_000, "100d")]
        {
            assert_eq!(age(Timestamp(now.0 - seconds * 1000), now), told, "{seconds}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["zürich".to_owned(), String::new()], ["a".to_owned(), "b".to_owned()]];
        assert_eq!(layout(["ID", "MORE"], &rows), "ID      MORE\nzürich\na       b");
    }
}
