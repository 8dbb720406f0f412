//! Tables for people: aligned columns with two spaces between them, and no spaces at the end of a line.
//!
//! Columns are as wide as terminals show them. Where stdout is a terminal, columns that may be cut are cut so that a
//! row fits into a line. If that is not enough, columns that may be left out are left out.

use herma_model::Timestamp;

use crate::local_time;
use crate::terminal::{Stream, Style};
use crate::text_width::{columns, padded, shortened};

/// The least columns that are left of a cell.
const LEAST: usize = 8;
/// The spaces between two columns.
const GAP: usize = 2;

/// A table before its rows are known.
pub(crate) struct Table<const N: usize> {
    heading: [&'static str; N],
    /// Which columns may be cut.
    is_cut: [bool; N],
    /// Columns that may be left out, the first one first.
    spare: Vec<usize>,
    styles: [Style; N],
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(heading: [&'static str; N]) -> Self {
        Self { heading, is_cut: [false; N], spare: Vec::new(), styles: [Style::default(); N] }
    }

    /// Lets the cells of a column be cut.
    pub(crate) fn cutting(mut self, heading: &str) -> Self {
        for (at, name) in self.heading.iter().enumerate() {
            self.is_cut[at] |= *name == heading;
        }
        self
    }

    /// Lets a column be left out where it does not fit, after those that were named before.
    pub(crate) fn sparing(mut self, heading: &str) -> Self {
        self.spare.extend(self.heading.iter().position(|name| *name == heading));
        self
    }

    /// Shows a column in this style, where the terminal wants it.
    pub(crate) fn styling(mut self, heading: &str, style: Style) -> Self {
        for (at, name) in self.heading.iter().enumerate() {
            if *name == heading {
                self.styles[at] = style;
            }
        }
        self
    }

    /// Lays the rows out for a stream.
    pub(crate) fn layout(&self, rows: &[[String; N]], stream: Stream) -> String {
        self.fitted(rows, stream.width(), stream.has_colours())
    }

    fn fitted(&self, rows: &[[String; N]], width: Option<usize>, has_colours: bool) -> String {
        let heading = self.heading.map(str::to_owned);
        let lines = || std::iter::once(&heading).chain(rows);
        let widest: [usize; N] = std::array::from_fn(|at| lines().map(|cells| columns(&cells[at])).max().unwrap_or(0));
        let widths = match width {
            Some(width) => self.narrowed(widest, width),
            None => widest.map(Some),
        };
        let line = |(number, cells): (usize, &[String; N])| {
            let shown = cells.iter().zip(widths).enumerate();
            let cells = shown.filter_map(|(at, (cell, width))| width.map(|width| (at, cell, width)));
            let cells = cells.map(|(at, cell, width)| {
                let cell = if self.is_cut[at] { shortened(cell, width) } else { cell.clone() };
                let style = if number == 0 { Style::DIM } else { self.styles[at] };
                let spaces = padded(&cell, width).split_off(cell.len());
                format!("{}{spaces}", if has_colours { style.paint(&cell) } else { cell })
            });
            cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        lines().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The widths with which a row fits, `None` for a column that is left out. If no more can be left out, it is wider.
    fn narrowed(&self, widest: [usize; N], most: usize) -> [Option<usize>; N] {
        let mut shown = [true; N];
        let mut spare = self.spare.iter();
        loop {
            let widths = std::array::from_fn(|at| shown[at].then_some(widest[at]));
            let (widths, fits) = self.cut(widths, most);
            match spare.next() {
                Some(at) if !fits => shown[*at] = false,
                _ => return widths,
            }
        }
    }

    /// Takes columns from the widest cell that may be cut, until the row fits or nothing can be taken. Says whether the
    /// row fits.
    fn cut(&self, mut widths: [Option<usize>; N], most: usize) -> ([Option<usize>; N], bool) {
        let gaps = GAP * widths.iter().flatten().count().saturating_sub(1);
        while widths.iter().flatten().sum::<usize>() + gaps > most {
            let cuttable = (0..N).filter(|at| self.is_cut[*at]).filter_map(|at| Some((widths[at]?, at)));
            let Some((width, at)) = cuttable.filter(|(width, _)| *width > LEAST).max() else {
                return (widths, false);
            };
            widths[at] = Some(width - 1);
        }
        (widths, true)
    }
}

/// A time on the clock of this place, to the minute.
pub(crate) fn minute(moment: Timestamp) -> String {
    local_time::minute(moment)
}

/// How long ago something was, in its largest unit; the day if that was more than a month ago.
pub(crate) fn age(moment: Timestamp, now: Timestamp) -> String {
    const UNITS: [(u64, &str); 3] = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "m")];
    const MONTH: u64 = 30 * 24 * 60 * 60;
    let seconds = now.since(moment).as_secs();
    if seconds > MONTH {
        return local_time::day(moment);
    }
    let unit = UNITS.iter().find(|(length, _)| seconds >= *length);
    unit.map_or_else(|| "now".to_owned(), |(length, name)| format!("{}{name}", seconds / length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Colour;

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        let now = Timestamp(1_772_582_400_000);
        for (seconds, told) in
            [(-5, "now"), (59, "now"), (60, "1m"), (3_599, "59m"), (3_600, "1h"), (86_399, "23h"), (864_000, "10d")]
        {
            assert_eq!(age(Timestamp(now.0 - seconds * 1000), now), told, "{seconds}");
        }
        assert_eq!(age(Timestamp(now.0 - 100 * 86_400_000), now).len(), "2025-11-24".len());
    }

    #[test]
    fn columns_are_as_wide_as_terminals_show_them() {
        let rows = [["オスロ".to_owned(), "b".to_owned()], ["a".to_owned(), String::new()]];
        assert_eq!(Table::new(["ID", "MORE"]).fitted(&rows, None, false), "ID      MORE\nオスロ  b\na");
    }

    #[test]
    fn a_row_fits_into_the_terminal_and_only_what_may_be_cut_is_cut() {
        let rows = [["a title that is long".to_owned(), "another text".to_owned(), "1a2b3c4d".to_owned()]];
        let table = Table::new(["TITLE", "TEXT", "ID"]).cutting("TITLE").cutting("TEXT");
        assert_eq!(
            table.fitted(&rows, Some(32), false),
            "TITLE       TEXT        ID\na title t…  another t…  1a2b3c4d"
        );
        assert_eq!(table.fitted(&rows, Some(10), false).lines().last(), Some("a title…  another…  1a2b3c4d"));
        let table = table.sparing("TEXT");
        assert_eq!(table.fitted(&rows, Some(24), false), "TITLE           ID\na title that…   1a2b3c4d");
        assert_eq!(table.fitted(&rows, Some(28), false).lines().last(), Some("a title…  another…  1a2b3c4d"));
        let coloured = table.styling("ID", Style::colour(Colour::Yellow)).fitted(&rows, Some(80), true);
        assert!(coloured.ends_with("\u{1b}[33m1a2b3c4d\u{1b}[0m"), "{coloured:?}");
    }
}
