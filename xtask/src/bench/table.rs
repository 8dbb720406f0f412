//! Tables of the report, and verdicts for the numbers that have a goal.

/// Rows of cells under a header, printed with aligned columns.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    pub(super) fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Self {
        Self { rows: vec![header.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub(super) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Prints a Markdown table.
    pub(super) fn print(&self) {
        print!("{}", self.render());
    }

    fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            text.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width + 2)).collect();
                text.push_str(&format!("|{}|\n", rules.join("|")));
            }
        }
        text
    }
}

/// A number with its goal: `0.63 (>= 0.60 ok)`.
pub(super) fn at_least(value: f64, goal: f64) -> String {
    format!("{value:.2} (>= {goal:.2} {})", verdict(value >= goal))
}

/// A number with its goal and a unit: `0.41 ms (<= 0.50 ok)`.
pub(super) fn at_most(value: f64, goal: f64, unit: &str) -> String {
    format!("{value:.2}{unit} (<= {goal:.2} {})", verdict(value <= goal))
}

fn verdict(reached: bool) -> &'static str {
    if reached { "ok" } else { "MISS" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["a", "long name"]);
        table.row(["wide cell", "1"]);
        assert_eq!(table.render(), "| a         | long name |\n|-----------|-----------|\n| wide cell | 1         |\n");
    }

    #[test]
    fn a_goal_is_judged_beside_its_number() {
        assert_eq!(at_least(0.6, 0.6), "0.60 (>= 0.60 ok)");
        assert_eq!(at_least(0.5, 0.6), "0.50 (>= 0.60 MISS)");
        assert_eq!(at_most(0.7, 0.5, " ms"), "0.70 ms (<= 0.50 MISS)");
        assert_eq!(at_most(f64::NAN, 0.5, " ms"), "NaN ms (<= 0.50 MISS)");
    }
}
