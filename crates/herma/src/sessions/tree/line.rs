//! One line of a tree: what it says, and what is left out where the terminal is too narrow for all of it.

use crate::terminal::{Colour, Style};
use crate::text_width::{columns, letters, shortened};

/// The least columns of a title. Other parts are left out before it is cut further.
const LEAST_TITLE: usize = 12;
/// The least columns of a name. Its age is left out before it is cut further.
const LEAST_NAME: usize = 8;
/// Follows the session that was asked for.
const MARK: &str = "  ◀";

/// A session in a tree.
#[derive(Debug, Clone, Default)]
pub(super) struct TreeLine {
    /// The branches of the drawing before it.
    pub(super) branches: String,
    /// How it came from the session above, such as `branch: `.
    pub(super) relation: String,
    /// What people call it, or its id.
    pub(super) name: String,
    pub(super) kind: Option<&'static str>,
    pub(super) title: Option<String>,
    pub(super) age: String,
    pub(super) messages: Option<String>,
    pub(super) tokens: Option<String>,
    /// Whether the next message goes into this session.
    pub(super) is_live: bool,
    pub(super) is_running: bool,
    /// Whether it is the one that was asked for.
    pub(super) is_named: bool,
}

impl TreeLine {
    /// The line in at most `width` columns. Without a width all of it.
    ///
    /// The title is cut first. Then tokens, kind, messages, relation and title are left out, in this order, until the
    /// rest fits. At last the name is cut, and the age is left out. It always says whether the session is live.
    pub(super) fn fitted(mut self, width: Option<usize>, has_colours: bool) -> String {
        let Some(width) = width else { return self.painted(has_colours) };
        self.branches = ending(&self.branches, width / 2);
        let leave_out: [fn(&mut Self); 5] = [
            |line| line.tokens = None,
            |line| line.kind = None,
            |line| line.messages = None,
            |line| line.relation.clear(),
            |line| line.title = None,
        ];
        let mut left_out = leave_out.iter();
        while !self.fits_with_title_cut(width)
            && let Some(leave_out) = left_out.next()
        {
            leave_out(&mut self);
        }
        let beside_name = |line: &Self| width.saturating_sub(line.columns() - columns(&line.name));
        if beside_name(&self) < LEAST_NAME.min(columns(&self.name)) {
            self.age.clear();
        }
        self.name = shortened(&self.name, beside_name(&self));
        self.painted(has_colours)
    }

    /// Cuts the title if that is enough to make the line fit. Says whether the line fits.
    fn fits_with_title_cut(&mut self, width: usize) -> bool {
        let excess = self.columns().saturating_sub(width);
        let Some(title) = self.title.as_mut().filter(|_| excess > 0) else { return excess == 0 };
        match columns(title).checked_sub(excess).filter(|most| *most >= LEAST_TITLE) {
            Some(most) => {
                *title = shortened(title, most);
                true
            }
            None => false,
        }
    }

    fn columns(&self) -> usize {
        columns(&self.painted(false))
    }

    fn painted(&self, has_colours: bool) -> String {
        let paint = |style: Style, text: &str| if has_colours { style.paint(text) } else { text.to_owned() };
        let kind = self.kind.map(|kind| format!(" [{kind}]")).unwrap_or_default();
        let title = self.title.as_ref().map(|title| format!(" {title}")).unwrap_or_default();
        let live = self.is_live.then(|| paint(Style::colour(Colour::Green), "live"));
        let running = self.is_running.then(|| "running".to_owned());
        let age = Some(self.age.clone()).filter(|age| !age.is_empty());
        let facts = [age, self.messages.clone(), self.tokens.clone(), live, running];
        let facts = facts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
        let mark = if self.is_named { MARK } else { "" };
        let [branches, relation] = [&self.branches, &self.relation].map(|text| paint(Style::DIM, text));
        format!("{branches}{relation}{}{kind}{title}{facts}{mark}", paint(Style::BOLD, &self.name))
    }
}

/// The text if it fits into `most` columns, else an ellipsis and its end.
fn ending(text: &str, most: usize) -> String {
    let excess = columns(text).saturating_sub(most);
    if excess == 0 {
        return text.to_owned();
    }
    let mut left_out = 0;
    let rest = letters(text).skip_while(|(_, width)| {
        let is_left_out = left_out <= excess;
        left_out += width;
        is_left_out
    });
    format!("…{}", rest.map(|(letter, _)| letter).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> TreeLine {
        TreeLine {
            branches: "│  ├─ ".to_owned(),
            relation: "branch: ".to_owned(),
            name: "trip-by-train".to_owned(),
            kind: Some("branch"),
            title: Some("北海道から九州まで電車で旅する 🚄🚄".to_owned()),
            age: "2h ago".to_owned(),
            messages: Some("24 messages".to_owned()),
            tokens: Some("25380 tokens".to_owned()),
            is_live: true,
            is_named: true,
            ..TreeLine::default()
        }
    }

    #[test]
    fn a_line_fits_and_says_as_much_as_there_are_columns_for() {
        for (width, said) in [
            (
                100,
                "│  ├─ branch: trip-by-train [branch] 北海道から九州ま… (2h ago, 24 messages, 25380 tokens, live)  ◀",
            ),
            (80, "│  ├─ branch: trip-by-train [branch] 北海道から… (2h ago, 24 messages, live)  ◀"),
            (60, "│  ├─ branch: trip-by-train 北海道から九… (2h ago, live)  ◀"),
            (40, "│  ├─ trip-by-train (2h ago, live)  ◀"),
            (30, "│  ├─ trip-by-train (live)  ◀"),
            (26, "│  ├─ trip-by-t… (live)  ◀"),
        ] {
            let fitted = line().fitted(Some(width), false);
            assert_eq!(fitted, said, "{width}");
            assert!(columns(&fitted) <= width, "{width}: {fitted}");
        }
    }

    #[test]
    fn every_width_is_kept_down_to_the_shortest_name() {
        for width in 24..200 {
            let fitted = line().fitted(Some(width), false);
            assert!(columns(&fitted) <= width, "{width}: {fitted}");
            assert!(fitted.contains("live"), "{width}: {fitted}");
        }
    }

    #[test]
    fn what_is_no_terminal_gets_all_of_it() {
        assert!(line().fitted(None, false).contains("電車で旅する 🚄🚄 (2h ago, 24 messages, 25380 tokens, live)"));
    }

    #[test]
    fn a_deep_tree_shows_the_last_branches_of_its_drawing() {
        let deep = TreeLine { branches: format!("{}└─ ", "│  ".repeat(40)), ..line() };
        let fitted = deep.fitted(Some(60), false);
        assert!(fitted.starts_with('…') && fitted.contains("│  └─ trip-by-tra… (2h ago, live)"), "{fitted}");
        assert!(columns(&fitted) <= 60, "{fitted}");
    }

    #[test]
    fn colours_take_no_columns() {
        for width in [40, 80] {
            let coloured = line().fitted(Some(width), true);
            let plain =
                ["1", "2", "32", "0"].iter().fold(coloured, |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
            assert_eq!(plain, line().fitted(Some(width), false));
        }
    }
}
