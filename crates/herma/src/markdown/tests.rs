//! Whole texts, and the same texts in all kinds of pieces.

use proptest::prelude::*;

use super::*;

/// What the terminal is sent for a text that comes in these pieces.
fn shown(pieces: &[&str], width: usize, is_styled: bool) -> String {
    let mut markdown = Markdown::new(width, is_styled);
    let mut out: String = pieces.iter().map(|piece| markdown.push(piece)).collect();
    out.push_str(&markdown.finish());
    out
}

fn styled(text: &str) -> String {
    shown(&[text], 30, true).replace('\u{1b}', "^")
}

#[test]
fn words_are_wrapped_and_wide_ones_broken() {
    let text = "The quick brown fox jumps over the lazy dog.";
    assert_eq!(styled(text), "The quick brown fox jumps over\nthe lazy dog.");
    assert_eq!(shown(&["abcdefghij"], 4, true), "abcd\nefgh\nij");
    assert_eq!(shown(&["オスロに行きたい"], 6, true), "オスロ\nに行き\nたい");
    assert_eq!(shown(&["a https://x.example/y"], 8, true), "a\nhttps://\nx.exampl\ne/y");
}

#[test]
fn marks_become_styles() {
    assert_eq!(styled("a **b c** d"), "a ^[1mb^[0m ^[1mc^[0m d");
    assert_eq!(styled("*it* and `code x`."), "^[3mit^[0m and ^[36mcode^[0m ^[36mx^[0m.");
    assert_eq!(styled("see [docs](http://h/x)"), "see ^[4mdocs^[0m ^[2m(http://h/x)^[0m");
    assert_eq!(styled("# A title\ntext"), "^[1mA^[0m ^[1mtitle^[0m\ntext");
    assert_eq!(styled("~~old~~ ***both***"), "^[9mold^[0m ^[1;3mboth^[0m");
}

#[test]
fn lists_and_quotations_are_indented() {
    let text = "- one two three four five six seven\n  * deeper\n12. twelve\n> said";
    assert_eq!(styled(text), "• one two three four five six\n  seven\n  • deeper\n12. twelve\n│ said");
    assert_eq!(styled("> one two three four five six seven\nnext"), "│ one two three four five six\n│ seven\nnext");
}

#[test]
fn code_is_neither_wrapped_nor_changed() {
    let text = "```rust\nlet **x** = 1; // a line that is wider than the terminal\n```\n*x*";
    let expected = "^[2m```rust^[0m\n^[36mlet **x** = 1; // a line that is wider than the \
                    terminal^[0m\n^[2m```^[0m\n^[3mx^[0m";
    assert_eq!(styled(text), expected);
}

#[test]
fn what_is_no_markdown_stays_as_it_is() {
    for text in ["2 * 3 * 4", "snake_case_name", "a ** b", "[1] x", "5 > 3", "-x", "#tag", "a_b _ c", "\\n `open"] {
        assert_eq!(styled(text), text);
    }
    assert_eq!(styled("**open"), "**open");
    assert_eq!(shown(&["**bold** and\n- x\n"], 30, false), "**bold** and\n- x\n");
}

#[test]
fn the_columns_of_a_table_stand_below_each_other() {
    let table = "| what | how many |\n|---|--:|\n| **boats** | 3 |\n| a\\|b | |\n| 船 | 12 |";
    let drawn = "^[1mwhat^[0m   ^[1mhow many^[0m\n^[2m─────^[0m  ^[2m────────^[0m\n^[1mboats^[0m         3\na|b\n\
                 船           12";
    assert_eq!(styled(table), drawn);
    assert_eq!(styled(&format!("So:\n{table}\nand on")), format!("So:\n{drawn}\nand on"));
    assert_eq!(styled(&format!("{table}\n")), format!("{drawn}\n"));
}

#[test]
fn what_is_no_table_or_too_wide_a_one_is_shown_as_it_was_written() {
    for text in
        ["| a |", "| a | b |\n| c | d |", "| a\n\n|---|", &format!("| a | b |\n|---|---|\n| {} | 1 |", "x".repeat(30))]
    {
        assert_eq!(styled(text), text);
    }
}

proptest! {
    /// Pieces may be cut anywhere: what is shown in the end is the same.
    #[test]
    fn pieces_do_not_change_what_is_shown(
        text in "([a-c ]|\\*|_|`|~|\\[|\\]|\\(|\\)|#|>|-|\n|1\\.|オ|👩‍🚀|\\|){0,60}",
        cuts in proptest::collection::vec(0usize..200, 0..8),
        is_styled: bool,
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| text.is_char_boundary(*cut) && *cut <= text.len()).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
        prop_assert_eq!(shown(&pieces, 11, is_styled), shown(&[&text], 11, is_styled));
    }

    /// Without styles, nothing but spaces and line ends differs from what was written.
    #[test]
    fn nothing_is_lost(text in "([a-c ]|\\*|_|`|#|-|\n|オ){0,60}") {
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        prop_assert_eq!(letters(&shown(&[&text], 9, false)), letters(&text));
    }
}
